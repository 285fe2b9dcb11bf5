//! Reads a dump file of composefs as a source: a tree as text, a line for each file.
//!
//! The fields of a line are `PATH SIZE MODE NLINK UID GID RDEV MTIME PAYLOAD CONTENT DIGEST`, and
//! then `NAME=VALUE` for each extended attribute; `-` stands for none. The contents of a file are
//! in its line, or in the file PAYLOAD below a directory of the host. A mode that starts with `@`
//! marks a further name of the file PAYLOAD, which another line describes, before or behind it.
//!
//! The file is read line by line, as often as it is needed: it may describe millions of files.
//!
//! Source: composefs-dump(5).

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ext::volume::{DeviceNumber, FileKind};
use layout::time::InodeTime;

use super::host::{self, ScannedFile};
use super::section::{Section, SectionReader};
use super::{CHUNK_BYTES, Item, Node, Source, Visitor, file_data};

/// Maximum bytes of a line.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// Maximum size of a file in bytes.
const FILE_BYTES_MAX: u64 = 1 << 48;
/// The bits of a mode that are the kind of a file.
const KIND_MASK: u32 = 0o170_000;

/// A dump file as a source.
#[derive(Debug)]
pub struct DumpSource {
    /// Path of the dump file, for messages.
    name: String,
    text: Section,
    /// Directory of the files that hold contents.
    base: Option<PathBuf>,
}

/// The contents of a file.
enum Contents {
    None,
    Inline(Vec<u8>),
    Payload(Vec<u8>),
}

impl DumpSource {
    /// Opens a dump file, `-` for standard input. Payloads are files below `base`.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or its first line is none of a dump file.
    pub fn open(path: &Path, base: Option<&Path>) -> Result<Self> {
        let source = Self {
            name: path.display().to_string(),
            text: Section::open(path)?,
            base: base.map(Path::to_owned),
        };
        let mut lines = source.lines();
        match lines.next_line()? {
            Some(_) => Ok(source),
            None => bail!("{}: is empty, and no dump file", source.name),
        }
    }

    /// Returns the path of the dump file, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn lines(&self) -> Lines<'_> {
        Lines {
            name: &self.name,
            reader: BufReader::with_capacity(CHUNK_BYTES, self.text.reader()),
            number: 0,
        }
    }

    /// Shows all files, and then all hard links, which may precede their files.
    pub(crate) fn visit(&self, visitor: &mut dyn Visitor) -> Result<()> {
        if self.visit_some(false, visitor)? {
            self.visit_some(true, visitor)?;
        }
        Ok(())
    }

    /// Shows all files, or all hard links. Returns true if there are others.
    fn visit_some(&self, links: bool, visitor: &mut dyn Visitor) -> Result<bool> {
        let (mut lines, mut has_others) = (self.lines(), false);
        while let Some((node, contents)) = lines.next_line()? {
            if node.link_to.is_some() != links {
                has_others = true;
                continue;
            }
            let number = lines.number;
            let context = || format!("{}: line {number}", self.name);
            let size = node.size;
            let is_wanted = visitor.node(node).with_context(context)?;
            match contents {
                Contents::Inline(bytes) if is_wanted => visitor.data(0, bytes)?,
                Contents::Payload(path) if is_wanted => {
                    let sent = self.send_payload(&path, size, visitor);
                    sent.with_context(context)?;
                }
                _ => {}
            }
        }
        Ok(has_others)
    }

    fn send_payload(&self, path: &[u8], size: u64, visitor: &mut dyn Visitor) -> Result<()> {
        let text = String::from_utf8_lossy(path).into_owned();
        let Some(base) = &self.base else {
            bail!("its contents are in {text}: give the directory of that with --basedir");
        };
        let scanned = ScannedFile {
            path: path.strip_prefix(b"/").unwrap_or(path).into(),
            identity: None,
        };
        let context = || base.join(&text).display().to_string();
        let file = File::from(host::open_data(base, &scanned).with_context(context)?);
        let found = file.metadata().with_context(context)?.len();
        if found != size {
            bail!("{}: has {found} bytes, not {size}", context());
        }
        let mut offset = 0;
        while offset < size {
            let mut bytes = vec![0; (size - offset).min(CHUNK_BYTES as u64) as usize];
            let read = file.read_exact_at(&mut bytes, offset);
            read.context(file_data::TOO_SHORT).with_context(context)?;
            let length = bytes.len() as u64;
            visitor.data(offset, bytes)?;
            offset += length;
        }
        Ok(())
    }
}

/// The lines of a dump file.
struct Lines<'d> {
    name: &'d str,
    reader: BufReader<SectionReader>,
    /// Number of the current line.
    number: u64,
}

impl Lines<'_> {
    fn next_line(&mut self) -> Result<Option<(Node, Contents)>> {
        loop {
            let mut line = Vec::new();
            let mut rest = self.reader.by_ref().take(LINE_BYTES_MAX);
            let read = rest.read_until(b'\n', &mut line);
            read.with_context(|| self.name.to_owned())?;
            if line.is_empty() {
                return Ok(None);
            }
            self.number += 1;
            let context = || format!("{}: line {}", self.name, self.number);
            if line.pop_if(|last| *last == b'\n').is_none() && line.len() as u64 == LINE_BYTES_MAX {
                bail!("{}: has more than {LINE_BYTES_MAX} bytes", context());
            }
            if !line.is_empty() {
                return parse(&line).map(Some).with_context(context);
            }
        }
    }
}

impl Source for DumpSource {
    fn tell(&self, with_data: bool, send: &mut dyn FnMut(Item) -> Result<()>) -> Result<()> {
        self.visit(&mut super::from_archive::Teller { with_data, send })
    }
}

fn parse(line: &[u8]) -> Result<(Node, Contents)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut field = |name: &'static str| fields.next().with_context(|| format!("no {name}"));
    let path = absolute(field("path")?)?;
    let (size, mode) = (field("size")?, field("mode")?);
    let (_links, uid, gid) = (field("number of links")?, field("user")?, field("group")?);
    let (device, mtime) = (field("device number")?, field("time")?);
    let payload = optional(fields.next())?;
    let content = optional(fields.next())?;
    let _digest = fields.next();
    let attributes = fields.filter(|word| !word.is_empty()).map(attribute);
    let mut attributes = attributes.collect::<Result<Vec<_>>>()?;
    // Of several values of a name the last one counts.
    attributes.reverse();
    attributes.sort_by(|one, other| one.0.cmp(&other.0));
    attributes.dedup_by(|one, other| one.0 == other.0);
    let mut node = Node::plain_directory(path);
    if mode.starts_with(b"@") {
        node.kind = FileKind::Regular;
        node.link_to = Some(absolute(&payload.context("a link without a payload")?)?);
        return Ok((node, Contents::None));
    }
    let mode = text(mode).and_then(|text| Ok(u32::from_str_radix(text, 8)?));
    let mode = mode.context("its mode")?;
    node.kind = kind(mode)?;
    node.permissions = (mode & 0o7777) as u16;
    node.uid = number(uid)
        .and_then(|id| Ok(u32::try_from(id)?))
        .context("its user")?;
    node.gid = number(gid)
        .and_then(|id| Ok(u32::try_from(id)?))
        .context("its group")?;
    node.mtime = text(mtime).and_then(time).context("its time")?;
    node.attributes = attributes;
    let mut contents = Contents::None;
    match node.kind {
        FileKind::CharacterDevice | FileKind::BlockDevice => {
            node.device = device_number(number(device).context("its device number")?);
        }
        FileKind::Symlink => node.target = payload.context("a symbolic link without a payload")?,
        FileKind::Regular => {
            node.size = number(size).context("its size")?;
            if node.size > FILE_BYTES_MAX {
                bail!("its size: {} bytes are more than a file has", node.size);
            }
            contents = match (content, payload) {
                (Some(bytes), _) if bytes.len() as u64 != node.size => {
                    bail!("its contents have {} bytes, not {}", bytes.len(), node.size)
                }
                (Some(bytes), _) => Contents::Inline(bytes),
                (None, _) if node.size == 0 => Contents::None,
                (None, Some(path)) => Contents::Payload(path),
                (None, None) => bail!("it has {} bytes, and no payload", node.size),
            };
            node.held = node.size;
        }
        _ => {}
    }
    Ok((node, contents))
}

/// Returns a path without slashes at its ends.
fn absolute(field: &[u8]) -> Result<Vec<u8>> {
    let path = unescaped(field)?;
    super::from_archive::inner_path(&path)
}

fn optional(field: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
    match field {
        None | Some(b"-" | b"") => Ok(None),
        Some(field) => unescaped(field).map(Some),
    }
}

fn attribute(word: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    let equals = word.iter().position(|byte| *byte == b'=');
    let equals = equals.context("an attribute without =")?;
    Ok((unescaped(&word[..equals])?, unescaped(&word[equals + 1..])?))
}

fn text(field: &[u8]) -> Result<&str> {
    Ok(std::str::from_utf8(field)?)
}

fn number(field: &[u8]) -> Result<u64> {
    Ok(text(field)?.parse()?)
}

fn kind(mode: u32) -> Result<FileKind> {
    let all = [
        FileKind::Regular,
        FileKind::Directory,
        FileKind::Symlink,
        FileKind::CharacterDevice,
        FileKind::BlockDevice,
        FileKind::Fifo,
        FileKind::Socket,
    ];
    let wanted = |kind: &FileKind| u32::from(kind.mode()) == mode & KIND_MASK;
    let found = all.into_iter().find(wanted);
    found.with_context(|| format!("mode {mode:o} is that of no file"))
}

/// Splits a device number of Linux into its halves, each of which lies in two places.
fn device_number(number: u64) -> DeviceNumber {
    let number = number as u32;
    DeviceNumber {
        major: (number >> 8) & 0xFFF,
        minor: (number & 0xFF) | ((number >> 12) & 0xF_FF00),
    }
}

/// Replaces escapes: `\n`, `\r`, `\t`, `\\` and `\xHH`.
fn unescaped(field: &[u8]) -> Result<Vec<u8>> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, behind @ ..] = rest {
        let (byte, behind) = match (first, behind) {
            (b'\\', [b'n', behind @ ..]) => (b'\n', behind),
            (b'\\', [b'r', behind @ ..]) => (b'\r', behind),
            (b'\\', [b't', behind @ ..]) => (b'\t', behind),
            (b'\\', [b'\\', behind @ ..]) => (b'\\', behind),
            (b'\\', [b'x', high, low, behind @ ..]) => {
                let digits = [*high, *low];
                let byte = text(&digits).and_then(|text| Ok(u8::from_str_radix(text, 16)?));
                (byte.context("an escape")?, behind)
            }
            (b'\\', _) => bail!("an escape that is none"),
            (byte, behind) => (*byte, behind),
        };
        plain.push(byte);
        rest = behind;
    }
    Ok(plain)
}

/// Returns a time: seconds, and a whole number of nanoseconds behind the dot.
fn time(text: &str) -> Result<InodeTime> {
    let (seconds, nanos) = text.split_once('.').unwrap_or((text, "0"));
    let nanos = nanos.parse().ok().filter(|nanos| *nanos < 1_000_000_000);
    let nanos = nanos.context("more than 999999999 nanoseconds")?;
    Ok(InodeTime::new(seconds.parse()?, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_files() {
        let line = br"/a\x20b/c 6 100644 1 7 8 0 -1.5 - he\nlo\\ - user.x\x3dy=\x00z user.a=b";
        let (node, contents) = parse(line).expect("it is a line");
        assert_eq!(node.path, b"a b/c");
        assert_eq!(
            (node.size, node.permissions, node.uid, node.gid),
            (6, 0o644, 7, 8)
        );
        assert_eq!((node.mtime.seconds, node.mtime.nanos), (-1, 5));
        assert!(matches!(contents, Contents::Inline(bytes) if bytes == b"he\nlo\\"));
        assert_eq!(node.attributes[1], (b"user.x=y".to_vec(), b"\0z".to_vec()));
        let (node, _) = parse(b"/l 0 @120777 1 0 0 0 0.0 /a/b - -").expect("a link");
        assert_eq!(node.link_to.as_deref(), Some(&b"a/b"[..]));
        let (node, _) = parse(b"/dev/null 0 20666 1 0 0 259 0.0 - - -").expect("a device");
        assert_eq!((node.device.major, node.device.minor), (1, 3));
        for line in [
            &b"/a 0"[..],
            b"/a 0 644 1 0 0 0 0.0 - - -",
            b"/a 4 100644 1 0 0 0 0.0 - abc -",
            b"/a 4 100644 1 0 0 0 0.0 - - -",
            b"/a 0 120777 1 0 0 0 0.0 - - -",
            br"/a\q 0 100644 1 0 0 0 0.0 - - -",
            b"/../a 0 100644 1 0 0 0 0.0 - - -",
            b"/a 0 100644 1 0 0 0 0.0 - - - user.a",
        ] {
            assert!(parse(line).is_err(), "{}", String::from_utf8_lossy(line));
        }
    }
}
