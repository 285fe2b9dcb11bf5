//! Reads a tar archive as a source: plain, gzip or zstd, detected by its first bytes. Extended
//! attributes, access control lists, hard links, devices and sparse files are read as GNU tar,
//! bsdtar and star write them.

use std::io::Read;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, bail};
use ext::volume::{DeviceNumber, FileKind};
use layout::time::InodeTime;
use tar::{EntryType, Header};

use super::decompressed::{self, Decompressed};
use super::entered::PATH_BYTES_MAX;
use super::section::Section;
use super::tar_entries::{Entries, Entry};
use super::{CHUNK_BYTES, Error, Item, Node, Parts, Recognise, Source, Visitor};

/// Maximum length of the target of a symbolic link in bytes.
const TARGET_BYTES_MAX: usize = 4095;
/// Entry type of the archive's label.
const LABEL: u8 = b'V';

/// A tar archive as a source.
#[derive(Debug)]
pub struct ArchiveSource {
    /// Path of the archive, for messages.
    name: String,
    contents: Section,
}

impl ArchiveSource {
    /// Returns an archive. `recognise` names a file that is no archive.
    ///
    /// # Errors
    /// Fails if the file is not an archive, has no entries, or cannot be read.
    pub(crate) fn open(name: String, contents: Section, recognise: Recognise<'_>) -> Result<Self> {
        let source = Self::of(name, contents);
        let (mut entries, _) = source.entries().with_context(|| source.name.clone())?;
        let first = entries.next_entry();
        match &first {
            Ok(Some(_)) => Ok(source),
            // A file system with an empty first block would otherwise look like an archive without
            // entries.
            Ok(None) | Err(_) => {
                let contents = &source.contents;
                let why = not_an_archive(contents).or_else(|| recognise(&contents.file));
                let context = source.name.clone();
                match (why, &first) {
                    (Some(why), _) => bail!("{context}: {why}"),
                    (None, Ok(_)) => Err(Error::EmptyArchive).context(context),
                    (None, Err(error)) => {
                        bail!("{context}: neither a directory nor a tar archive: {error:#}")
                    }
                }
            }
        }
    }

    /// Returns an archive that may be empty.
    pub(crate) fn of(name: String, contents: Section) -> Self {
        Self { name, contents }
    }

    /// Returns the path of the archive, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the archive's bytes.
    pub(crate) fn contents(&self) -> &Section {
        &self.contents
    }

    /// Returns a reader of the entries from the start, and true if the archive is compressed.
    fn entries(&self) -> Result<(Entries<Box<dyn Read + Send>>, bool)> {
        let contents = Decompressed::of(self.contents.reader())?;
        Ok((Entries::new(contents.reader), contents.is_packed))
    }

    /// Shows all entries.
    pub(crate) fn visit(&self, visitor: &mut dyn Visitor) -> Result<()> {
        let archive = || self.name.clone();
        let (mut entries, is_packed) = self.entries().with_context(archive)?;
        while let Some(entry) = entries.next_entry().with_context(archive)? {
            let context = || format!("{}: {}", self.name, String::from_utf8_lossy(&entry.path));
            let Some(mut node) = node(&entry).with_context(context)? else {
                continue;
            };
            if node.kind != FileKind::Regular || node.link_to.is_some() {
                visitor.node(node).with_context(context)?;
                continue;
            }
            let parts = match &entry.parts {
                Some(parts) => parts.clone(),
                None => entries.listed_parts(&entry).with_context(context)?,
            };
            if node.held < node.size {
                node.parts = Some(Parts::of(&parts)?);
            }
            if visitor.node(node).with_context(context)? {
                send_data(&mut entries, parts, visitor).with_context(context)?;
            }
        }
        match is_packed {
            true => entries.finish().with_context(archive),
            false => Ok(()),
        }
    }
}

/// Returns the reason that a file is not an archive, if its first bytes show one.
fn not_an_archive(contents: &Section) -> Option<String> {
    let file = &contents.file;
    if file.read_at(&mut [0], 0).ok()? == 0 {
        return Some("is empty, and no archive".to_owned());
    }
    if let Some(program) = decompressed::other_program(contents) {
        return Some(format!(
            "is compressed with {program}, and archives are read plain, with gzip or with zstd: \
             {program} -dc FILE | jext build IMAGE -"
        ));
    }
    if decompressed::is_packed(file) {
        return Some("is packed, but what is packed is no tar archive".to_owned());
    }
    None
}

impl Source for ArchiveSource {
    fn tell(&self, with_data: bool, send: &mut dyn FnMut(Item) -> Result<()>) -> Result<()> {
        self.visit(&mut Teller { with_data, send })
    }
}

/// Sends entries as items.
pub(crate) struct Teller<'s> {
    pub(crate) with_data: bool,
    pub(crate) send: &'s mut dyn FnMut(Item) -> Result<()>,
}

impl Visitor for Teller<'_> {
    fn node(&mut self, node: Node) -> Result<bool> {
        (self.send)(Item::Node(Box::new(node)))?;
        Ok(self.with_data)
    }

    fn data(&mut self, offset: u64, bytes: Vec<u8>) -> Result<()> {
        (self.send)(Item::Data { offset, bytes })
    }
}

/// Returns the node of an entry, or none if the entry is not part of the tree.
fn node(entry: &Entry) -> Result<Option<Node>> {
    let header = &entry.header;
    let Some((mut kind, is_link)) = kind(header.entry_type())? else {
        return Ok(None);
    };
    // The form of directories before POSIX.
    if kind == FileKind::Regular && !is_link && entry.path.ends_with(b"/") {
        kind = FileKind::Directory;
    }
    let mtime = entry.mtime.map_or_else(|| header_time(header), Ok);
    let mut node = Node {
        kind,
        permissions: (header.mode()? & 0o7777) as u16,
        uid: owner(entry.uid, header.uid()?)?,
        gid: owner(entry.gid, header.gid()?)?,
        mtime: mtime.context("the time of its last change")?,
        attributes: entry.attributes.clone(),
        ..Node::plain_directory(inner_path(&entry.path)?)
    };
    if matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice) {
        node.device = DeviceNumber {
            major: header.device_major()?.unwrap_or_default(),
            minor: header.device_minor()?.unwrap_or_default(),
        };
    }
    if is_link {
        node.link_to = Some(inner_path(&entry.target)?);
    } else if kind == FileKind::Symlink {
        if entry.target.len() > TARGET_BYTES_MAX {
            let length = entry.target.len();
            bail!(
                "the target of a symbolic link has {length} bytes, not {TARGET_BYTES_MAX} at most"
            );
        }
        node.target.clone_from(&entry.target);
    } else if kind == FileKind::Regular {
        (node.size, node.held) = (entry.size, entry.stored.min(entry.size));
        // A file with holes holds less than its size, even if the list of its parts is long.
        if entry.parts.as_deref() != Some(&[(0, entry.size)]) {
            node.held = node.held.min(entry.size.saturating_sub(1));
        }
    }
    Ok(Some(node))
}

/// Returns the modification time in a header. GNU tar writes a time before 1970 as a negative
/// 96-bit number.
fn header_time(header: &Header) -> Result<InodeTime> {
    let [high @ .., b7, b6, b5, b4, b3, b2, b1, b0] = header.as_old().mtime;
    let low = i64::from_be_bytes([b7, b6, b5, b4, b3, b2, b1, b0]);
    let seconds = match high {
        [0xFF, 0xFF, 0xFF, 0xFF] if low < 0 => low,
        _ => i64::try_from(header.mtime()?)?,
    };
    Ok(InodeTime::new(seconds, 0))
}

/// Returns the owner from the extended header, or else from the header.
fn owner(extended: Option<u32>, number: u64) -> Result<u32> {
    match extended {
        Some(number) => Ok(number),
        None => u32::try_from(number).context("the owner's number is too large"),
    }
}

/// Returns the file kind of an entry, and true if the entry is a hard link.
fn kind(entry_type: EntryType) -> Result<Option<(FileKind, bool)>> {
    Ok(Some(match entry_type {
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            (FileKind::Regular, false)
        }
        EntryType::Link => (FileKind::Regular, true),
        EntryType::Symlink => (FileKind::Symlink, false),
        EntryType::Char => (FileKind::CharacterDevice, false),
        EntryType::Block => (FileKind::BlockDevice, false),
        EntryType::Directory => (FileKind::Directory, false),
        EntryType::Fifo => (FileKind::Fifo, false),
        other if other.as_byte() == LABEL => return Ok(None),
        other => bail!(
            "an entry of the unknown type {:?}",
            char::from(other.as_byte())
        ),
    }))
}

/// Returns a path within the tree. Fails if the path leads out of it.
pub(crate) fn inner_path(path: &[u8]) -> Result<Vec<u8>> {
    let names = path.split(|byte| *byte == b'/');
    let names: Vec<&[u8]> = names
        .filter(|name| !name.is_empty() && *name != b".")
        .collect();
    if names.contains(&b"..".as_slice()) {
        bail!("the path leads out of the archive");
    }
    if path.len() > PATH_BYTES_MAX {
        bail!("a path of more than {PATH_BYTES_MAX} bytes");
    }
    Ok(names.join(&b'/'))
}

/// Shows the data of a file, which has these parts.
fn send_data(
    entries: &mut Entries<Box<dyn Read + Send>>,
    parts: Vec<(u64, u64)>,
    visitor: &mut dyn Visitor,
) -> Result<()> {
    for (start, length) in parts {
        let (mut offset, end) = (start, start + length);
        while offset < end {
            let bytes = entries.read((end - offset).min(CHUNK_BYTES as u64) as usize)?;
            let length = bytes.len() as u64;
            visitor.data(offset, bytes)?;
            offset += length;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_whose_name_ends_with_a_slash_is_a_directory() {
        for (name, expected) in [("d/", FileKind::Directory), ("d", FileKind::Regular)] {
            let mut header = Header::new_old();
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_mode(0o711);
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(0);
            header.set_size(5);
            header.as_old_mut().linkflag = [0];
            header.set_cksum();
            let mut archive = header.as_bytes().to_vec();
            archive.extend_from_slice(&[0; 512]);
            let mut entries = Entries::new(&archive[..]);
            let entry = entries.next_entry().expect("an entry").expect("an entry");
            let node = node(&entry).expect("a file").expect("a file");
            assert_eq!((node.kind, node.permissions), (expected, 0o711));
            assert!(entries.next_entry().expect("the end").is_none());
        }
    }

    #[test]
    fn paths_stay_within_the_tree() {
        for (path, inner) in [
            ("./a/b/", Some("a/b")),
            ("/etc/passwd", Some("etc/passwd")),
            ("./", Some("")),
            ("a/../b", None),
            ("a..b", Some("a..b")),
        ] {
            let found = inner_path(path.as_bytes()).ok();
            assert_eq!(found.as_deref(), inner.map(str::as_bytes), "{path}");
        }
    }
}
