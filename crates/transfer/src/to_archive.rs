//! Writes a tar archive as a sink.
//!
//! The format is `ustar` with extended headers, as GNU tar and bsdtar read them, for values that do
//! not fit, for extended attributes and for access control lists. Files with holes are sparse files
//! of GNU's version 1.0: the list of their parts precedes the data, which is contiguous. The same
//! tree gives the same bytes.
//!
//! Source: GNU tar's manual, "PAX Format, Version 1.0".

use std::io::Write;

use anyhow::{Context, Result, bail};
use ext::volume::FileKind;
use tar::{EntryType, Header};

use super::{Item, Node, Sink, Warn, acl_text, pax};

/// Size of a tar block in bytes.
const TAR_BLOCK: u64 = 512;
/// Largest values of the octal fields of a header.
const ID_MAX: u32 = 0o777_7777;
const SIZE_MAX: u64 = 0o777_7777_7777;
/// Maximum length of a name in a header, in bytes.
const NAME_BYTES_MAX: usize = 100;

/// An archive that is being written.
pub struct ArchiveSink<'w, W: Write> {
    out: W,
    warn: Warn<'w>,
    /// Remaining parts of the current file as (offset, length), in reverse order.
    left: Vec<(u64, u64)>,
    /// Bytes written of the current entry.
    written: u64,
}

impl<'w, W: Write> ArchiveSink<'w, W> {
    /// Returns a sink that writes an archive to `out`.
    pub fn new(out: W, warn: Warn<'w>) -> Self {
        Self {
            out,
            warn,
            left: Vec::new(),
            written: 0,
        }
    }

    fn begin(&mut self, node: &Node) -> Result<()> {
        let mut path = if node.path.is_empty() {
            b"./".to_vec()
        } else {
            node.path.clone()
        };
        let is_link = node.link_to.is_some();
        if node.kind == FileKind::Directory && !node.path.is_empty() {
            path.push(b'/');
        }
        let target = node.link_to.as_ref().unwrap_or(&node.target);
        let has_data = node.kind == FileKind::Regular && !is_link;
        let size = if has_data { node.size } else { 0 };
        let whole = [(0, size)];
        let parts = node.parts.as_ref().filter(|_| has_data);
        let parts = parts.map(|parts| parts.iter().collect::<Result<Vec<_>>>());
        let parts = parts.transpose()?;
        let map = parts.as_ref().map(|parts| sparse_map(parts, size));
        let (map, parts) = (map.unwrap_or_default(), parts.as_deref().unwrap_or(&whole));
        let data: u64 = parts.iter().map(|(_, length)| length).sum();
        let stored = map.len() as u64 + data;
        let mut sparse = Vec::new();
        if !map.is_empty() {
            sparse_lines(&mut sparse, &path, size);
            path = sparse_path(&path);
        }
        let mut lines = extended_lines(node, &path, target, stored);
        lines.append(&mut sparse);
        if !lines.is_empty() {
            let mut header = Header::new_ustar();
            header.set_entry_type(EntryType::XHeader);
            set_name(&mut header, b"PaxHeaders/extended");
            header.set_mode(0o644);
            header.set_size(lines.len() as u64);
            header.set_cksum();
            self.out.write_all(header.as_bytes())?;
            self.out.write_all(&lines)?;
            self.pad(lines.len() as u64)?;
        }
        let mut header = Header::new_ustar();
        header.set_entry_type(entry_type(node)?);
        set_name(&mut header, &path);
        let link = &mut header.as_old_mut().linkname;
        let length = target.len().min(link.len());
        link[..length].copy_from_slice(&target[..length]);
        header.set_mode(u32::from(node.permissions));
        header.set_uid(u64::from(node.uid.min(ID_MAX)));
        header.set_gid(u64::from(node.gid.min(ID_MAX)));
        header.set_mtime(u64::try_from(node.mtime.seconds).unwrap_or(0));
        header.set_size(stored.min(SIZE_MAX));
        if matches!(node.kind, FileKind::CharacterDevice | FileKind::BlockDevice) {
            header.set_device_major(node.device.major)?;
            header.set_device_minor(node.device.minor)?;
        }
        header.set_cksum();
        self.out.write_all(header.as_bytes())?;
        self.out.write_all(&map)?;
        self.written = map.len() as u64;
        self.left = parts.iter().rev().copied().collect();
        Ok(())
    }

    /// Writes data that lies within the next part. Fills the gap before it, which the source has
    /// omitted, with zeroes.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let count = bytes.len() as u64;
        let Some((start, length)) = self.left.pop() else {
            bail!("a file has grown while it was read");
        };
        let Some(hole) = offset.checked_sub(start) else {
            bail!("data that does not ascend");
        };
        let Some(left) = length.checked_sub(hole + count) else {
            bail!("a file has grown while it was read");
        };
        self.zeroes(hole)?;
        self.out.write_all(bytes)?;
        self.written += hole + count;
        if left > 0 {
            self.left.push((offset + count, left));
        }
        Ok(())
    }

    /// Completes the current file.
    fn finish_file(&mut self) -> Result<()> {
        let left: u64 = self.left.drain(..).map(|(_, length)| length).sum();
        self.zeroes(left)?;
        self.pad(self.written + left)?;
        self.written = 0;
        Ok(())
    }

    fn pad(&mut self, size: u64) -> Result<()> {
        self.zeroes(size.next_multiple_of(TAR_BLOCK) - size)
    }

    fn zeroes(&mut self, count: u64) -> Result<()> {
        std::io::copy(
            &mut std::io::Read::take(std::io::repeat(0), count),
            &mut self.out,
        )?;
        Ok(())
    }
}

fn set_name(header: &mut Header, name: &[u8]) {
    let field = &mut header.as_old_mut().name;
    let length = name.len().min(field.len());
    field[..length].copy_from_slice(&name[..length]);
}

fn entry_type(node: &Node) -> Result<EntryType> {
    if node.link_to.is_some() {
        return Ok(EntryType::Link);
    }
    Ok(match node.kind {
        FileKind::Regular => EntryType::Regular,
        FileKind::Directory => EntryType::Directory,
        FileKind::Symlink => EntryType::Symlink,
        FileKind::CharacterDevice => EntryType::Char,
        FileKind::BlockDevice => EntryType::Block,
        FileKind::Fifo => EntryType::Fifo,
        FileKind::Socket => bail!("an archive holds no sockets"),
    })
}

/// Returns the list that precedes the data of a sparse file: the number of parts, then offset and
/// length of each, one number per line, padded to a whole block. A final hole is a part of zero
/// bytes.
fn sparse_map(parts: &[(u64, u64)], size: u64) -> Vec<u8> {
    let end = parts.last().map_or(0, |(start, length)| start + length);
    let last = (end < size).then_some((size, 0));
    let count = parts.len() + usize::from(last.is_some());
    let mut map = format!("{count}\n").into_bytes();
    for (start, length) in parts.iter().copied().chain(last) {
        map.extend_from_slice(format!("{start}\n{length}\n").as_bytes());
    }
    map.resize(map.len().next_multiple_of(TAR_BLOCK as usize), 0);
    map
}

fn sparse_lines(lines: &mut Vec<u8>, path: &[u8], size: u64) {
    pax::add(lines, "GNU.sparse.major", b"1");
    pax::add(lines, "GNU.sparse.minor", b"0");
    pax::add(lines, "GNU.sparse.name", path);
    pax::add(lines, "GNU.sparse.realsize", size.to_string().as_bytes());
}

/// Returns the entry's name for programs that do not support sparse files, so that they do not
/// mistake it for the file.
fn sparse_path(path: &[u8]) -> Vec<u8> {
    let (directory, name) = super::split_path(path);
    let mut path = directory.to_vec();
    if !path.is_empty() {
        path.push(b'/');
    }
    [&path, &b"GNUSparseFile.0/"[..], name].concat()
}

/// Returns the extended lines for values that do not fit the header.
fn extended_lines(node: &Node, path: &[u8], target: &[u8], size: u64) -> Vec<u8> {
    let mut lines = Vec::new();
    if path.len() > NAME_BYTES_MAX {
        pax::add(&mut lines, "path", path);
    }
    if target.len() > NAME_BYTES_MAX {
        pax::add(&mut lines, "linkpath", target);
    }
    for (key, id) in [("uid", node.uid), ("gid", node.gid)] {
        if id > ID_MAX {
            pax::add(&mut lines, key, id.to_string().as_bytes());
        }
    }
    if size > SIZE_MAX {
        pax::add(&mut lines, "size", size.to_string().as_bytes());
    }
    if node.mtime.nanos > 0 || node.mtime.seconds < 0 {
        pax::add(&mut lines, "mtime", pax::time_text(node.mtime).as_bytes());
    }
    if node.link_to.is_some() {
        return lines;
    }
    for (name, value) in &node.attributes {
        let list = pax::LISTS.iter().find(|(_, list)| list == name);
        match list.and_then(|(key, _)| Some((key, acl_text::write(value)?))) {
            Some((key, text)) => pax::add(&mut lines, key, text.as_bytes()),
            None => {
                pax::add(&mut lines, pax::attribute_key(name), value);
            }
        }
    }
    lines
}

impl<W: Write> Sink for ArchiveSink<'_, W> {
    fn take(&mut self, item: Item) -> Result<()> {
        match item {
            Item::Node(node) if node.kind == FileKind::Socket => {
                self.finish_file()?;
                let text = format!("{}: a socket, which archives do not hold", node.text());
                (self.warn)(&text);
                Ok(())
            }
            Item::Node(node) => {
                self.finish_file()?;
                self.begin(&node).with_context(|| node.text())
            }
            Item::Data { offset, bytes } => self.write(offset, &bytes),
        }
    }

    fn end(&mut self) -> Result<()> {
        self.finish_file()?;
        self.zeroes(2 * TAR_BLOCK)?;
        Ok(self.out.flush()?)
    }
}
