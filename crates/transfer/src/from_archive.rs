//! Reads a tar archive as a source: plain, gzip or zstd, detected by its first bytes. Extended
//! attributes, access control lists, hard links, devices and sparse files are read as GNU tar,
//! bsdtar and star write them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ext::volume::{DeviceNumber, FileKind};
use flate2::bufread::GzDecoder;
use layout::time::InodeTime;
use tar::{EntryType, Header};

use super::entered::PATH_BYTES_MAX;
use super::tar_entries::{Entries, Entry};
use super::{CHUNK_BYTES, Error, Item, Node, Recognise, Source};

const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// Entry type of the archive's label.
const LABEL: u8 = b'V';

/// Path that stands for standard input.
pub(crate) const STANDARD_INPUT: &str = "-";

/// A tar archive as a source.
pub struct ArchiveSource {
    path: PathBuf,
    /// Copy of standard input in an unlinked file, because the archive is read twice.
    spool: Option<File>,
}

impl ArchiveSource {
    /// Opens an archive; `-` is standard input. `recognise` names a file that is no archive.
    ///
    /// # Errors
    /// Fails if the file is not an archive, has no entries, or cannot be read.
    pub fn open(path: &Path, recognise: Recognise<'_>) -> Result<Self> {
        let spool = (path == Path::new(STANDARD_INPUT)).then(spool);
        let source = Self {
            path: path.to_owned(),
            spool: spool.transpose().context("standard input")?,
        };
        let first = source.entries()?.0.next_entry();
        match &first {
            Ok(Some(_)) => Ok(source),
            // A file system with an empty first block would otherwise look like an archive without
            // entries.
            Ok(None) | Err(_) => {
                let file = source.file().ok();
                let why = file.and_then(|file| not_an_archive(&file).or_else(|| recognise(&file)));
                let context = path.display().to_string();
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

    /// Opens the archive's file at offset 0.
    fn file(&self) -> Result<File> {
        let file = match &self.spool {
            None => File::open(&self.path),
            Some(spool) => spool.try_clone().and_then(|mut file| {
                file.rewind()?;
                Ok(file)
            }),
        };
        file.with_context(|| self.path.display().to_string())
    }

    /// Returns a reader of the entries from the start, and true if the archive is compressed.
    fn entries(&self) -> Result<(Entries<Box<dyn Read>>, bool)> {
        let file = self.file()?;
        let mut file = BufReader::with_capacity(CHUNK_BYTES, file);
        let first = file.fill_buf()?;
        let (reader, is_packed): (Box<dyn Read>, bool) = if first.starts_with(&GZIP_MAGIC) {
            (Box::new(GzipReader(Some(GzDecoder::new(file)))), true)
        } else if first.starts_with(&ZSTD_MAGIC) {
            let decoder = zstd::stream::read::Decoder::with_buffer(file)?;
            (Box::new(decoder), true)
        } else {
            (Box::new(file), false)
        };
        Ok((Entries::new(reader), is_packed))
    }
}

/// Decompressed contents of a gzip file, member after member. Trailing bytes after the last member,
/// such as the zeroes on a tape, are ignored, as by gzip.
struct GzipReader<R>(Option<GzDecoder<R>>);

impl<R: BufRead> Read for GzipReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let count = member.read(into)?;
            if count > 0 || into.is_empty() {
                return Ok(count);
            }
            let has_more = member.get_mut().fill_buf()?.first() == Some(&GZIP_MAGIC[0]);
            let rest = self.0.take().map(GzDecoder::into_inner);
            self.0 = rest.filter(|_| has_more).map(GzDecoder::new);
        }
        Ok(0)
    }
}

/// Returns the reason that a file is not an archive, if its first bytes show one.
fn not_an_archive(file: &File) -> Option<String> {
    let mut first = [0; 4];
    let found = file.read_at(&mut first, 0).ok()?;
    if found == 0 {
        return Some("is empty, and no archive".to_owned());
    }
    if first.starts_with(&GZIP_MAGIC) || first == ZSTD_MAGIC {
        return Some("is packed, but what is packed is no tar archive".to_owned());
    }
    None
}

/// Copies standard input to a file that is deleted when it is closed.
fn spool() -> Result<File> {
    let path = std::env::temp_dir().join(format!("jext-input-{}", std::process::id()));
    let context = || path.display().to_string();
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).mode(0o600);
    let mut file = file.open(&path).with_context(context)?;
    std::fs::remove_file(&path).with_context(context)?;
    io::copy(&mut io::stdin().lock(), &mut file).with_context(context)?;
    Ok(file)
}

impl Source for ArchiveSource {
    fn tell(&self, with_data: bool, send: &mut dyn FnMut(Item) -> Result<()>) -> Result<()> {
        let (mut entries, is_packed) = self.entries()?;
        let archive = || self.path.display().to_string();
        while let Some(entry) = entries.next_entry().with_context(archive)? {
            let name = String::from_utf8_lossy(&entry.path).into_owned();
            let context = || format!("{}: {name}", self.path.display());
            let Some(node) = node(&entry).with_context(context)? else {
                continue;
            };
            let has_data = node.kind == FileKind::Regular && node.link_to.is_none();
            send(Item::Node(Box::new(node)))?;
            if has_data && with_data {
                send_data(&mut entries, &entry, send).with_context(context)?;
            }
        }
        match is_packed {
            true => entries.finish().with_context(archive),
            false => Ok(()),
        }
    }
}

/// Returns the node of an entry, or none if the entry is not part of the tree.
fn node(entry: &Entry) -> Result<Option<Node>> {
    let header = &entry.header;
    let Some((kind, is_link)) = kind(header.entry_type())? else {
        return Ok(None);
    };
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
        node.target.clone_from(&entry.target);
    } else if kind == FileKind::Regular {
        (node.size, node.held) = (entry.size, entry.stored.min(entry.size));
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
fn inner_path(path: &[u8]) -> Result<Vec<u8>> {
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

/// Sends the data of a file: all of it, or the parts that a sparse file has.
fn send_data(
    entries: &mut Entries<Box<dyn Read>>,
    entry: &Entry,
    send: &mut dyn FnMut(Item) -> Result<()>,
) -> Result<()> {
    let parts = match &entry.parts {
        Some(parts) => parts.clone(),
        None => entries.listed_parts(entry)?,
    };
    for (start, length) in parts {
        let (mut offset, end) = (start, start + length);
        while offset < end {
            let bytes = entries.read((end - offset).min(CHUNK_BYTES as u64) as usize)?;
            let length = bytes.len() as u64;
            send(Item::Data { offset, bytes })?;
            offset += length;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
