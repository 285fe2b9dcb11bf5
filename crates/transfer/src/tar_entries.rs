//! Entries of a tar archive, each merged with its extended headers.
//!
//! The crate `tar` decodes headers. The iteration over entries is done here, because values of
//! extended headers may hold any bytes (an attribute may contain a line feed), and because the
//! caller needs the parts of sparse files as parts.
//!
//! | entry | meaning |
//! |---|---|
//! | `x`, `g` | lines for the next entry, for all entries (which are ignored) |
//! | `L`, `K` | GNU: the next entry's long name, its long target |
//! | `S` | GNU: a sparse file; its parts are in the header and in blocks after it |
//! | `x`, `GNU.sparse` | a sparse file; parts in the lines (0.0, 0.1) or before the data (1.0) |
//! | others | a part of the tree |

use std::collections::BTreeMap;
use std::io::Read;

use anyhow::{Context, Result, bail};
use layout::time::InodeTime;
use tar::{EntryType, Header};

use super::section::SectionReader;
use super::{acl_text, pax};

/// Size of a tar block in bytes.
const TAR_BLOCK: usize = 512;
/// Maximum bytes of an extended header, and maximum number of parts of a sparse file.
const EXTENDED_BYTES_MAX: u64 = 32 << 20;
const PARTS_MAX: u64 = 1 << 20;
/// Maximum number of digits of a number in the list of parts.
const DIGITS_MAX: usize = 20;
/// Maximum number of lines of an extended header: two for each part of a sparse file, and more.
const LINES_MAX: usize = 1 << 18;
/// Range of the checksum in a header, which counts as spaces.
const CHECKSUM: core::ops::Range<usize> = 148..156;

/// An entry merged with its extended headers.
pub(crate) struct Entry {
    pub(crate) header: Header,
    pub(crate) path: Vec<u8>,
    pub(crate) target: Vec<u8>,
    /// Length of the file in bytes, including holes.
    pub(crate) size: u64,
    /// Bytes in the archive.
    pub(crate) stored: u64,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) mtime: Option<InodeTime>,
    pub(crate) attributes: Vec<(Vec<u8>, Vec<u8>)>,
    /// Data parts as (offset, length), or none if their list precedes the data.
    pub(crate) parts: Option<Vec<(u64, u64)>>,
}

/// Reader of the entries of an archive.
pub(crate) struct Entries<R> {
    reader: R,
    /// Unread bytes of the current entry, including its padding to a whole block.
    left: u64,
}

/// A reader that knows its position and can change it.
pub(crate) trait Positioned {
    /// Returns the offset of the next byte.
    fn position(&self) -> u64;
    /// Skips bytes.
    fn advance(&mut self, bytes: u64);
}

impl Positioned for SectionReader {
    fn position(&self) -> u64 {
        self.position
    }

    fn advance(&mut self, bytes: u64) {
        self.position = self.position.saturating_add(bytes);
    }
}

/// Contents of the extended headers before an entry.
#[derive(Default)]
struct Lines {
    lines: Vec<u8>,
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
}

impl<R: Read> Entries<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, left: 0 }
    }

    /// Returns the next entry, or none at the end.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>> {
        let mut lines = Lines::default();
        loop {
            let Some(header) = self.next_header()? else {
                return Ok(None);
            };
            let size = header.entry_size()?;
            self.left = filled_up(size)?;
            match header.entry_type() {
                EntryType::XHeader => lines.lines = self.extended(size)?,
                EntryType::GNULongName => lines.path = Some(name(self.extended(size)?)),
                EntryType::GNULongLink => lines.target = Some(name(self.extended(size)?)),
                EntryType::XGlobalHeader => {}
                _ => return self.entry(header, lines).map(Some),
            }
        }
    }

    /// Reads the rest of the archive, so that the decompressor verifies its checksums.
    pub(super) fn finish(&mut self) -> Result<()> {
        std::io::copy(&mut self.reader, &mut std::io::sink())?;
        Ok(())
    }

    /// Returns the offset of the unread bytes of the current entry.
    pub(crate) fn position(&self) -> u64
    where
        R: Positioned,
    {
        self.reader.position()
    }

    /// Skips the unread bytes of the current entry without reading them.
    pub(crate) fn skip(&mut self)
    where
        R: Positioned,
    {
        self.reader.advance(std::mem::take(&mut self.left));
    }

    /// Reads exactly `count` bytes of the current entry.
    pub(crate) fn read(&mut self, count: usize) -> Result<Vec<u8>> {
        let Some(left) = self.left.checked_sub(count as u64) else {
            bail!("it has fewer bytes than its list of parts says");
        };
        self.left = left;
        let mut bytes = Vec::with_capacity(count);
        let mut part = self.reader.by_ref().take(count as u64);
        if part.read_to_end(&mut bytes)? < count {
            bail!("the archive ends within it");
        }
        Ok(bytes)
    }

    /// Reads the list of parts before the data of a sparse file (GNU, version 1.0): one number per
    /// line, padded to a whole block.
    pub(crate) fn listed_parts(&mut self, entry: &Entry) -> Result<Vec<(u64, u64)>> {
        let (mut numbers, mut number) = (Vec::new(), String::new());
        let mut wanted = 1;
        while numbers.len() < wanted {
            for byte in self.read(TAR_BLOCK)? {
                if numbers.len() == wanted {
                    break;
                }
                if byte != b'\n' {
                    number.push(char::from(byte));
                    if number.len() > DIGITS_MAX {
                        bail!("a number of more than {DIGITS_MAX} digits in the list of its parts");
                    }
                    continue;
                }
                numbers.push(number.parse::<u64>().context("the list of its parts")?);
                number.clear();
                if numbers[0] > PARTS_MAX {
                    bail!("a sparse file with {} parts", numbers[0]);
                }
                wanted = 1 + 2 * numbers[0] as usize;
            }
        }
        let parts = numbers[1..].chunks_exact(2).map(|pair| (pair[0], pair[1]));
        checked(parts.collect(), entry.size)
    }

    fn next_header(&mut self) -> Result<Option<Header>> {
        let mut rest = self.reader.by_ref().take(self.left);
        if std::io::copy(&mut rest, &mut std::io::sink())? < self.left {
            bail!("the archive ends within an entry");
        }
        self.left = 0;
        let mut header = Header::new_old();
        let mut block = Vec::with_capacity(TAR_BLOCK);
        let mut next = self.reader.by_ref().take(TAR_BLOCK as u64);
        match next.read_to_end(&mut block)? {
            // Some archives lack the final zero blocks.
            0 => return Ok(None),
            TAR_BLOCK => header.as_mut_bytes().copy_from_slice(&block),
            count => bail!("{count} bytes where an entry's header should be"),
        }
        let bytes = header.as_bytes();
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let summed = bytes
            .iter()
            .enumerate()
            .map(|(at, byte)| u32::from(if CHECKSUM.contains(&at) { b' ' } else { *byte }));
        let sum: u32 = summed.sum();
        let Ok(wanted) = header.cksum() else {
            // The crate's error would quote the whole header, whatever bytes it holds.
            bail!("no header of an entry is where one should be");
        };
        if wanted != sum {
            bail!("the checksum of an entry's header is wrong");
        }
        Ok(Some(header))
    }

    fn extended(&mut self, size: u64) -> Result<Vec<u8>> {
        if size > EXTENDED_BYTES_MAX {
            bail!("an extended header of {size} bytes");
        }
        self.read(size as usize)
    }

    fn entry(&mut self, header: Header, lines: Lines) -> Result<Entry> {
        let has_data = has_data(header.entry_type(), !lines.lines.is_empty());
        let stored = if has_data { header.entry_size()? } else { 0 };
        let is_sparse = header.entry_type() == EntryType::GNUSparse;
        let path = lines.path;
        let target = lines.target;
        let mut entry = Entry {
            path: path.unwrap_or_else(|| header.path_bytes().into_owned()),
            target: target
                .unwrap_or_else(|| header.link_name_bytes().unwrap_or_default().into_owned()),
            size: stored,
            stored,
            uid: None,
            gid: None,
            mtime: None,
            attributes: Vec::new(),
            parts: None,
            header,
        };
        let is_listed = entry.take_lines(&lines.lines)?;
        if !has_data {
            (entry.size, entry.stored, entry.parts) = (0, 0, None);
        }
        self.left = filled_up(entry.stored)?;
        if entry.parts.is_some() {
            return Ok(entry);
        }
        if is_sparse {
            let parts = self.header_parts(&entry)?;
            entry.size = gnu(&entry.header)?.real_size()?;
            entry.parts = Some(checked(parts, entry.size)?);
        } else if !is_listed {
            entry.parts = Some(vec![(0, entry.stored)]);
        }
        Ok(entry)
    }

    /// Reads the parts of a sparse file in GNU's old form: four in the header, the others in blocks
    /// after it, which the entry's size does not include.
    fn header_parts(&mut self, entry: &Entry) -> Result<Vec<(u64, u64)>> {
        let header = gnu(&entry.header)?;
        let mut parts = Vec::new();
        let mut is_extended = header.is_extended();
        for part in header.sparse.iter().filter(|part| !part.is_empty()) {
            parts.push((part.offset()?, part.length()?));
        }
        while is_extended {
            let mut more = tar::GnuExtSparseHeader::new();
            self.reader.read_exact(more.as_mut_bytes())?;
            for part in more.sparse.iter().filter(|part| !part.is_empty()) {
                parts.push((part.offset()?, part.length()?));
            }
            if parts.len() as u64 > PARTS_MAX {
                bail!("a sparse file with more than {PARTS_MAX} parts");
            }
            is_extended = more.is_extended();
        }
        Ok(parts)
    }
}

impl Entry {
    /// Applies extended lines; returns true if the parts of a sparse file are listed before its
    /// data.
    fn take_lines(&mut self, bytes: &[u8]) -> Result<bool> {
        let mut sparse = SparseLines::default();
        let lines = parse_lines(bytes)?;
        // The last empty value of each key. It takes back what lines before it say, so that the
        // header counts again.
        let empty = lines.iter().enumerate();
        let empty = empty.filter(|(_, (_, value))| value.is_empty());
        let empty: BTreeMap<_, _> = empty.map(|(at, (key, _))| (*key, at)).collect();
        for (at, (key, value)) in lines.iter().enumerate() {
            // An attribute may be empty.
            if let Some(name) = pax::attribute_name(key) {
                self.attributes.push((name, value.to_vec()));
                continue;
            }
            if empty.get(key).is_some_and(|last| at <= *last) {
                continue;
            }
            let taken = self.take_line(&mut sparse, key, value);
            taken.with_context(|| {
                let [key, path] = [key, &self.path[..]].map(String::from_utf8_lossy);
                format!("{path}: {key} in its extended header")
            })?;
        }
        // In whatever order they are: the path of a long name is that of a part of the archive.
        if let Some(name) = sparse.name.take() {
            self.path = name;
        }
        // Of several values of a name the last one counts.
        self.attributes.reverse();
        self.attributes.sort_by(|one, other| one.0.cmp(&other.0));
        self.attributes.dedup_by(|one, other| one.0 == other.0);
        self.size = sparse.size.unwrap_or(self.size);
        if sparse.size.is_some() && !sparse.is_listed {
            self.parts = Some(checked(sparse.parts()?, self.size)?);
        }
        Ok(sparse.is_listed)
    }

    /// Applies an extended line that is no attribute, and not empty.
    fn take_line(&mut self, sparse: &mut SparseLines, key: &[u8], value: &[u8]) -> Result<()> {
        let text = || std::str::from_utf8(value).context("it is no text");
        let number = || text()?.parse::<u64>().context("it is no number");
        let owner = || u32::try_from(number()?).context("it is too large");
        let mut lists = pax::LISTS.iter();
        if let Some((_, name)) = lists.find(|(list, _)| list.as_bytes() == key) {
            self.attributes
                .push((name.to_vec(), acl_text::parse(text()?)?));
            return Ok(());
        }
        match key {
            b"path" => self.path = value.to_vec(),
            b"linkpath" => self.target = value.to_vec(),
            b"size" => (self.size, self.stored) = (number()?, number()?),
            b"uid" => self.uid = Some(owner()?),
            b"gid" => self.gid = Some(owner()?),
            b"mtime" => self.mtime = Some(pax::time(text()?).context("it is no time")?),
            // The kernel, too, stores a zero byte behind a label.
            pax::LABEL => {
                let label = [value, &[0]].concat();
                self.attributes.push((b"security.selinux".to_vec(), label));
            }
            b"GNU.sparse.name" => sparse.name = Some(value.to_vec()),
            b"GNU.sparse.major" => sparse.is_listed = value == b"1",
            b"GNU.sparse.realsize" | b"GNU.sparse.size" => sparse.size = Some(number()?),
            b"GNU.sparse.offset" | b"GNU.sparse.numbytes" => sparse.numbers.push(number()?),
            b"GNU.sparse.map" => sparse.numbers = numbers(value)?,
            _ => {}
        }
        Ok(())
    }
}

/// Extended lines of a sparse file.
#[derive(Default)]
struct SparseLines {
    /// The path, in place of any other.
    name: Option<Vec<u8>>,
    size: Option<u64>,
    /// True if the parts are listed before the data.
    is_listed: bool,
    /// Alternating offsets and lengths of the parts.
    numbers: Vec<u64>,
}

impl SparseLines {
    fn parts(&self) -> Result<Vec<(u64, u64)>> {
        if !self.numbers.len().is_multiple_of(2) {
            bail!("an offset without a length in the list of its parts");
        }
        let pairs = self.numbers.chunks_exact(2);
        Ok(pairs.map(|pair| (pair[0], pair[1])).collect())
    }
}

/// Parses comma-separated numbers.
fn numbers(text: &[u8]) -> Result<Vec<u64>> {
    let words = std::str::from_utf8(text)?.split(',');
    let numbers = words.filter(|word| !word.is_empty()).map(str::parse);
    numbers
        .collect::<Result<_, _>>()
        .context("the list of its parts")
}

/// Returns true if an entry of this type has its size in bytes in the archive. As for GNU tar's
/// extraction, the size of a link, device, directory or FIFO says nothing: old programs gave a link
/// the size of its file. POSIX allows data behind a hard link with an extended header.
fn has_data(entry_type: EntryType, is_extended: bool) -> bool {
    match entry_type {
        EntryType::Link => is_extended,
        EntryType::Symlink
        | EntryType::Char
        | EntryType::Block
        | EntryType::Directory
        | EntryType::Fifo => false,
        _ => true,
    }
}

/// Returns the size of an entry in the archive, padded to a whole block.
fn filled_up(size: u64) -> Result<u64> {
    let filled = size.checked_next_multiple_of(TAR_BLOCK as u64);
    filled.with_context(|| format!("an entry of {size} bytes"))
}

fn gnu(header: &Header) -> Result<&tar::GnuHeader> {
    let header = header.as_gnu();
    header.context("a sparse file without a header of GNU tar")
}

/// Returns the parts if they ascend and lie within the file; fails otherwise.
fn checked(parts: Vec<(u64, u64)>, size: u64) -> Result<Vec<(u64, u64)>> {
    let mut reached = 0;
    for (start, length) in &parts {
        match start.checked_add(*length) {
            Some(end) if *start >= reached && end <= size => reached = end,
            _ => bail!("the parts of a sparse file do not ascend, or lie outside it"),
        }
    }
    Ok(parts)
}

/// Returns a name without its terminating zero byte.
fn name(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes
}

/// Parses the lines of an extended header: `length key=value`. The length includes its own digits
/// and the line feed.
fn parse_lines(bytes: &[u8]) -> Result<Vec<(&[u8], &[u8])>> {
    let mut lines = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let parsed = parse_line(rest);
        let (key, value, length) = parsed.context("an extended header that cannot be read")?;
        lines.push((key, value));
        if lines.len() > LINES_MAX {
            bail!("an extended header of more than {LINES_MAX} lines");
        }
        rest = &rest[length..];
    }
    Ok(lines)
}

fn parse_line(bytes: &[u8]) -> Option<(&[u8], &[u8], usize)> {
    let space = bytes.iter().position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
    let line = bytes.get(space + 1..length)?.strip_suffix(b"\n")?;
    let equals = line.iter().position(|byte| *byte == b'=')?;
    Some((&line[..equals], &line[equals + 1..], length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_hold_any_bytes() {
        let mut bytes = Vec::new();
        pax::add(&mut bytes, "SCHILY.xattr.user.a", b"x\n12 y=\0\xFF");
        pax::add(&mut bytes, "mtime", b"5.5");
        let lines = parse_lines(&bytes).expect("they are lines");
        assert_eq!(lines[0].1, b"x\n12 y=\0\xFF");
        assert_eq!(lines[1], (&b"mtime"[..], &b"5.5"[..]));
        for text in ["5 a=b", "9 a=b\n", "x a=b\n", "6 ab1\n", "2 "] {
            assert!(parse_lines(text.as_bytes()).is_err(), "{text}");
        }
    }

    /// Returns the first entry of an archive of a file with extended lines.
    fn entry_with(lines: &[(&str, &[u8])]) -> Result<Entry> {
        let mut extended = Vec::new();
        lines
            .iter()
            .for_each(|(key, value)| pax::add(&mut extended, key, value));
        let mut archive = tar::Builder::new(Vec::new());
        for (entry_type, bytes) in [
            (EntryType::XHeader, &extended[..]),
            (EntryType::Regular, b""),
        ] {
            let mut header = Header::new_ustar();
            header.set_entry_type(entry_type);
            header.set_size(bytes.len() as u64);
            header.set_path("name")?;
            header.set_cksum();
            archive.append(&header, bytes)?;
        }
        let archive = archive.into_inner()?;
        let entry = Entries::new(&archive[..]).next_entry()?;
        entry.context("an entry")
    }

    /// GNU tar writes a part of its own name as the path of a sparse file with a long name.
    #[test]
    fn the_name_of_a_sparse_file_is_its_own() {
        let lines: [(&str, &[u8]); 2] = [
            ("GNU.sparse.name", b"own"),
            ("path", b"GNUSparseFile.1/own"),
        ];
        for lines in [lines, [lines[1], lines[0]]] {
            assert_eq!(entry_with(&lines).expect("an entry").path, b"own");
        }
    }

    #[test]
    fn labels_of_gnu_tar_are_attributes() {
        let entry = entry_with(&[("RHT.security.selinux", b"u:r:t:s0")]).expect("an entry");
        let label = (b"security.selinux".to_vec(), b"u:r:t:s0\0".to_vec());
        assert_eq!(entry.attributes, [label]);
    }

    #[test]
    fn wrong_lines_are_named() {
        for (key, value) in [
            ("mtime", "1e5"),
            ("uid", "-1"),
            ("gid", "4294967296"),
            ("size", "0x10"),
            ("SCHILY.acl.access", "user::rwz"),
            ("GNU.sparse.map", "1,x"),
        ] {
            let refused = entry_with(&[(key, value.as_bytes())]).err();
            let said = format!("{:#}", refused.expect("it is wrong"));
            let start = format!("name: {key} in its extended header: ");
            assert!(said.starts_with(&start), "{said}");
        }
    }

    #[test]
    fn parts_ascend_within_the_file() {
        assert!(checked(vec![(0, 5), (5, 5), (20, 0)], 20).is_ok());
        for parts in [vec![(0, 21)], vec![(5, 5), (9, 1)], vec![(u64::MAX, 2)]] {
            assert!(checked(parts, 20).is_err());
        }
    }
}
