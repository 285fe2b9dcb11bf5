//! Directory entries in one block: walking, finding, making room, erasing.
//!
//! Every walk checks what it reads: an entry's length is a multiple of 4, covers its name, and ends
//! inside the block.
//!
//! With `metadata_csum` a block of entries ends with the tail of its checksum. A walk sees the tail
//! as an unused entry, which has no room. The root of an index has none, although it starts with
//! entries: the second one reaches to the end of the block.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use layout::directory::{
    EntryHeader, EntryTail, HEADER_SIZE, TAIL_KIND, TAIL_SIZE, decode_record_length,
};
use layout::{Block, InodeNr};
use zerocopy::{FromBytes, IntoBytes};

use super::kind::FileKind;

/// Alignment of directory entries in bytes.
const ALIGNMENT: usize = 4;

/// A directory entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The inode it refers to.
    pub inode: InodeNr,
    /// The file type, if the volume stores it in entries.
    pub kind: Option<FileKind>,
    /// The name.
    pub name: Vec<u8>,
}

impl Entry {
    /// Returns the name as an [`OsStr`], for `Path::join`.
    pub fn file_name(&self) -> &OsStr {
        OsStr::from_bytes(&self.name)
    }
}

/// The size of a directory block, and its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockForm {
    /// Size in bytes.
    pub(crate) size: usize,
    /// True if the block ends with the tail of a checksum.
    pub(crate) has_tail: bool,
}

impl BlockForm {
    /// Returns the end of the entries.
    pub(crate) fn end(self) -> usize {
        self.size - if self.has_tail { TAIL_SIZE } else { 0 }
    }

    /// Returns a block without entries; its checksum is stored later.
    fn empty(self) -> Block {
        let mut block = Block::zeroed(self.size);
        if self.has_tail {
            block[self.end()..].copy_from_slice(EntryTail::new(0).as_bytes());
        }
        block
    }
}

/// A new entry: a name and the inode it refers to.
#[derive(Clone, Copy)]
pub(crate) struct NewEntry<'n> {
    pub(crate) name: &'n [u8],
    pub(crate) inode: InodeNr,
    /// The type byte; 0 if entries carry none.
    pub(crate) type_byte: u8,
}

/// An entry as stored in a block. Unused entries have inode 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawEntry<'b> {
    pub(crate) offset: usize,
    pub(crate) length: usize,
    pub(crate) inode: u32,
    pub(crate) type_byte: u8,
    pub(crate) name: &'b [u8],
}

/// The damage of a block, and its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bad {
    pub(crate) offset: usize,
    pub(crate) why: &'static str,
}

impl RawEntry<'_> {
    /// Returns the entry in its public form.
    pub(crate) fn to_entry(self) -> Entry {
        let kind = FileKind::from_entry_type(layout::mode::FileType::from_raw(self.type_byte));
        Entry {
            inode: InodeNr::new(self.inode),
            kind,
            name: self.name.to_vec(),
        }
    }

    /// Returns true if this is the tail of a checksum: no unused entry has such a type.
    fn is_tail(&self) -> bool {
        let has_form = self.inode == 0 && self.name.is_empty() && self.length == TAIL_SIZE;
        has_form && self.type_byte == TAIL_KIND
    }

    /// Returns the number of free bytes after (or, if the entry is unused, in) the entry.
    pub(crate) fn room(&self) -> usize {
        if self.is_tail() {
            0
        } else if self.inode == 0 {
            self.length
        } else {
            self.length - size_of_name(self.name.len())
        }
    }
}

/// Returns the number of bytes that an entry with a name of this length needs.
pub(crate) const fn size_of_name(name_bytes: usize) -> usize {
    (HEADER_SIZE + name_bytes).next_multiple_of(ALIGNMENT)
}

/// Returns the entry at an offset. Each lookup walks over a hundred of them, hence the header in
/// one load and one condition for all that is usual.
#[inline(always)]
fn entry_at(bytes: &[u8], offset: usize) -> Result<RawEntry<'_>, Bad> {
    let rest = &bytes[offset..];
    let Some((header, behind)) = rest.split_first_chunk::<HEADER_SIZE>() else {
        return unusual_entry_at(bytes, offset);
    };
    let header = u64::from_le_bytes(*header);
    let inode = header as u32;
    let length = usize::from((header >> 32) as u16);
    let name_bytes = usize::from((header >> 48) as u8);
    let is_usual = length >= size_of_name(name_bytes.max(1))
        && length.is_multiple_of(ALIGNMENT)
        && length <= rest.len()
        && (inode == 0 || name_bytes > 0);
    match behind.get(..name_bytes) {
        Some(name) if is_usual => Ok(RawEntry {
            offset,
            length,
            inode,
            type_byte: (header >> 56) as u8,
            name,
        }),
        _ => unusual_entry_at(bytes, offset),
    }
}

/// Returns an entry whose length has a form of its own, as in blocks of 64 KiB, or its damage.
#[cold]
fn unusual_entry_at(bytes: &[u8], offset: usize) -> Result<RawEntry<'_>, Bad> {
    let bad = |why| Bad { offset, why };
    let rest = &bytes[offset..];
    let Ok((header, _)) = EntryHeader::ref_from_prefix(rest) else {
        return Err(bad("an entry's header reaches beyond the block"));
    };
    let length = decode_record_length(header.record_length.get(), bytes.len());
    let name_bytes = usize::from(header.name_length);
    if length < size_of_name(1) {
        return Err(bad("an entry is too short"));
    }
    if !length.is_multiple_of(ALIGNMENT) {
        return Err(bad("an entry's length is not a multiple of 4"));
    }
    if length > rest.len() {
        return Err(bad("an entry reaches beyond the block"));
    }
    if size_of_name(name_bytes) > length {
        return Err(bad("a name does not fit its entry"));
    }
    let inode = header.inode.get();
    if inode != 0 && name_bytes == 0 {
        return Err(bad("an entry in use has no name"));
    }
    let name = &rest[HEADER_SIZE..HEADER_SIZE + name_bytes];
    Ok(RawEntry {
        offset,
        length,
        inode,
        type_byte: header.file_type,
        name,
    })
}

/// Returns all entries of a block, unused ones too; ends at the first damaged one.
pub(crate) fn entries(bytes: &[u8]) -> impl Iterator<Item = Result<RawEntry<'_>, Bad>> {
    let mut offset = 0;
    core::iter::from_fn(move || {
        if offset >= bytes.len() {
            return None;
        }
        let found = entry_at(bytes, offset);
        offset = match &found {
            Ok(entry) => offset + entry.length,
            Err(_) => bytes.len(),
        };
        Some(found)
    })
}

/// Finds a name. Adds the number of entries that it was compared with to `compared`.
pub(crate) fn find<'b>(
    bytes: &'b [u8],
    name: &[u8],
    compared: &mut u64,
) -> Result<Option<RawEntry<'b>>, Bad> {
    for entry in entries(bytes) {
        let entry = entry?;
        *compared += 1;
        // Most names differ in their lengths or last bytes.
        let is_alike = entry.name.len() == name.len() && entry.name.last() == name.last();
        if is_alike && entry.name == name && entry.inode != 0 {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// Returns the offset of an entry that has room for a name of this length. Adds the number of
/// entries that were looked at to `walked`.
pub(crate) fn find_room(
    bytes: &[u8],
    name_bytes: usize,
    walked: &mut u64,
) -> Result<Option<usize>, Bad> {
    let wanted = size_of_name(name_bytes);
    for entry in entries(bytes) {
        let entry = entry?;
        *walked += 1;
        if entry.room() >= wanted {
            return Ok(Some(entry.offset));
        }
    }
    Ok(None)
}

/// The facts of a block that a search needs to know without reading it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// The largest room of an entry in bytes; 65,535 for that of a block of 64 KiB without entries.
    pub(crate) room: u16,
    /// The number of entries, unused ones too.
    pub(crate) count: u16,
}

/// Returns the summary of a block.
pub(crate) fn summary(bytes: &[u8]) -> Result<Summary, Bad> {
    let mut summary = Summary::default();
    for entry in entries(bytes) {
        let room = u16::try_from(entry?.room()).unwrap_or(u16::MAX);
        summary.room = summary.room.max(room);
        summary.count += 1;
    }
    Ok(summary)
}

/// Writes an entry into the room that [`find_room`] found.
///
/// # Panics
/// Panics if there is no such room.
pub(crate) fn insert(bytes: &mut [u8], offset: usize, new: NewEntry<'_>) {
    let old = entry_at(bytes, offset).expect("the block was checked when the room was found");
    assert!(
        old.room() >= size_of_name(new.name.len()),
        "the room was found for this name"
    );
    let (old_length, is_used, used) = (old.length, old.inode != 0, size_of_name(old.name.len()));
    if is_used {
        set_length(bytes, offset, used);
        write(bytes, offset + used, old_length - used, new);
    } else {
        write(bytes, offset, old_length, new);
    }
}

/// Returns the entry at an offset of a block that was checked.
pub(crate) fn at(bytes: &[u8], offset: usize) -> RawEntry<'_> {
    entry_at(bytes, offset).expect("the block was checked when the entry was found")
}

/// Returns the offset of the entry before the one at `offset`, if there is one. Adds the number of
/// entries before the latter to `walked`.
pub(crate) fn previous_of(bytes: &[u8], offset: usize, walked: &mut u64) -> Option<usize> {
    entries(bytes)
        .map_while(Result::ok)
        .take_while(|entry| entry.offset < offset)
        .inspect(|_| *walked += 1)
        .find(|entry| entry.offset + entry.length == offset)
        .map(|entry| entry.offset)
}

/// Erases an entry: merges it with the one before, or marks it unused.
pub(crate) fn erase(bytes: &mut [u8], previous: Option<usize>, offset: usize) {
    match previous {
        Some(previous) => {
            let length = length_of(bytes, offset) + length_of(bytes, previous);
            set_length(bytes, previous, length);
        }
        None => header_mut(bytes, offset).inode.set(0),
    }
}

/// Changes the inode that an entry refers to.
pub(crate) fn point_to(bytes: &mut [u8], offset: usize, inode: InodeNr, type_byte: u8) {
    let header = header_mut(bytes, offset);
    header.inode.set(inode.get());
    header.file_type = type_byte;
}

/// Returns the first block of a directory: `.` and `..`, the latter extending to the end of the
/// entries.
pub(crate) fn first_block(form: BlockForm, own: InodeNr, parent: InodeNr, type_byte: u8) -> Block {
    let mut block = form.empty();
    let dot = size_of_name(1);
    write(
        &mut block,
        0,
        dot,
        NewEntry {
            name: b".",
            inode: own,
            type_byte,
        },
    );
    write(
        &mut block,
        dot,
        form.end() - dot,
        NewEntry {
            name: b"..",
            inode: parent,
            type_byte,
        },
    );
    block
}

/// Returns a block with these entries, packed; the last extends to the end of the entries.
pub(crate) fn packed(form: BlockForm, entries: &[NewEntry<'_>]) -> Block {
    let mut block = form.empty();
    let mut offset = 0;
    for (index, entry) in entries.iter().enumerate() {
        let is_last = index + 1 == entries.len();
        let length = if is_last {
            form.end() - offset
        } else {
            size_of_name(entry.name.len())
        };
        write(&mut block, offset, length, *entry);
        offset += length;
    }
    if entries.is_empty() {
        set_length(&mut block, 0, form.end());
    }
    block
}

/// Sets an entry's length.
pub(crate) fn set_length(bytes: &mut [u8], offset: usize, length: usize) {
    let length = u16::try_from(length).expect("a block of at most 32 KiB");
    header_mut(bytes, offset).record_length.set(length);
}

/// Writes an entry of a given length.
pub(crate) fn write(bytes: &mut [u8], offset: usize, length: usize, new: NewEntry<'_>) {
    let mut header = EntryHeader {
        file_type: new.type_byte,
        ..Default::default()
    };
    header.inode.set(new.inode.get());
    header
        .record_length
        .set(u16::try_from(length).expect("a block of at most 32 KiB"));
    header.name_length = u8::try_from(new.name.len()).expect("names are checked on entry");
    bytes[offset..offset + HEADER_SIZE].copy_from_slice(header.as_bytes());
    let name_at = offset + HEADER_SIZE;
    bytes[name_at..name_at + new.name.len()].copy_from_slice(new.name);
}

fn length_of(bytes: &mut [u8], offset: usize) -> usize {
    usize::from(header_mut(bytes, offset).record_length.get())
}

fn header_mut(bytes: &mut [u8], offset: usize) -> &mut EntryHeader {
    let (header, _) = EntryHeader::mut_from_prefix(&mut bytes[offset..])
        .expect("the entry was checked when it was found");
    header
}

#[cfg(test)]
mod tests {
    use zerocopy::little_endian::{U16, U32};

    use super::*;

    const PLAIN: BlockForm = BlockForm {
        size: 1024,
        has_tail: false,
    };

    fn new(name: &[u8], inode: u32) -> NewEntry<'_> {
        NewEntry {
            name,
            inode: InodeNr::new(inode),
            type_byte: 1,
        }
    }

    fn names(bytes: &[u8]) -> Vec<Vec<u8>> {
        let used = entries(bytes)
            .map(|entry| entry.expect("sound"))
            .filter(|e| e.inode != 0);
        used.map(|entry| entry.name.to_vec()).collect()
    }

    #[test]
    fn entries_are_inserted_found_and_erased() {
        let mut block = first_block(PLAIN, InodeNr::new(12), InodeNr::new(2), 2);
        for name in [b"a".as_slice(), b"file", b"longer-name"] {
            let at = find_room(&block, name.len(), &mut 0);
            let at = at.expect("sound").expect("room");
            insert(&mut block, at, new(name, 20));
        }
        assert_eq!(
            names(&block),
            [
                b".".to_vec(),
                b"..".into(),
                b"a".into(),
                b"file".into(),
                b"longer-name".into()
            ]
        );
        let (mut compared, mut walked) = (0, 0);
        let found = find(&block, b"file", &mut compared);
        let found = found.expect("sound").expect("there").offset;
        let previous = previous_of(&block, found, &mut walked);
        assert_eq!((compared, walked), (4, 3));
        assert_eq!(summary(&block).expect("sound").count, 5);
        erase(&mut block, previous, found);
        assert!(
            find(&block, b"file", &mut compared)
                .expect("sound")
                .is_none()
        );
        assert_eq!(compared, 4 + 4, "all that are left");
        let again = find_room(&block, 4, &mut walked)
            .expect("sound")
            .expect("room");
        assert_eq!(walked, 3 + 3, "up to the one before the erased entry");
        insert(&mut block, again, new(b"four", 21));
        assert_eq!(names(&block).len(), 5);
    }

    #[test]
    fn a_block_fills_to_its_last_byte() {
        for has_tail in [false, true] {
            let form = BlockForm { has_tail, ..PLAIN };
            let mut block = packed(form, &[]);
            let mut count = 0u32;
            while let Some(at) = find_room(&block, 4, &mut 0).expect("sound") {
                count += 1;
                let name = format!("{count:04}");
                insert(&mut block, at, new(name.as_bytes(), count));
            }
            assert_eq!(count, form.end() as u32 / 12);
            assert_eq!(names(&block).len(), if has_tail { 84 } else { 85 });
            assert_eq!(EntryTail::of_block(&block).is_some(), has_tail);
        }
    }

    #[test]
    fn a_tail_has_no_room_for_the_shortest_name() {
        let form = BlockForm {
            has_tail: true,
            ..PLAIN
        };
        let mut block = packed(form, &[new(b"long-enough", 20)]);
        set_length(&mut block, 0, 20);
        set_length(&mut block, 20, form.end() - 20);
        write(&mut block, 20, form.end() - 20, new(&[b'x'; 255], 21));
        while let Some(at) = find_room(&block, 255, &mut 0).expect("sound") {
            insert(&mut block, at, new(&[b'y'; 255], 22));
        }
        while let Some(at) = find_room(&block, 1, &mut 0).expect("sound") {
            insert(&mut block, at, new(b"z", 23));
        }
        assert!(EntryTail::of_block(&block).is_some());
        assert_eq!(summary(&block).expect("sound").room, 8);
        assert!(entries(&block[..form.end()]).all(|entry| entry.is_ok()));
    }

    #[test]
    fn an_entry_may_take_a_whole_block_of_64_kib() {
        let mut block = Block::zeroed(65_536);
        for length in [0, u16::MAX] {
            block[4..6].copy_from_slice(&length.to_le_bytes());
            let found: Vec<usize> = entries(&block)
                .map(|entry| entry.expect("sound").length)
                .collect();
            assert_eq!(found, [65_536]);
            let summary = summary(&block).expect("sound");
            assert_eq!((summary.room, summary.count), (u16::MAX, 1));
            let shorter = entries(&block[..32_768]).next().expect("an entry");
            assert!(shorter.is_err(), "{length}");
        }
        block[4..6].copy_from_slice(&12_u16.to_le_bytes());
        block[16..18].copy_from_slice(&u16::MAX.to_le_bytes());
        let bad = entries(&block).find_map(Result::err).expect("damaged");
        assert_eq!(bad.why, "an entry reaches beyond the block");
    }

    #[test]
    fn damage_is_named() {
        let cases: [(usize, u16, &str); 4] = [
            (4, 0, "an entry is too short"),
            (4, 14, "an entry's length is not a multiple of 4"),
            (4, 2048, "an entry reaches beyond the block"),
            (6, 0xFF, "a name does not fit its entry"),
        ];
        for (offset, value, why) in cases {
            let mut block = first_block(PLAIN, InodeNr::new(12), InodeNr::new(2), 2);
            if offset == 6 {
                block[6] = 0xFF;
            } else {
                block[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
            }
            let bad = entries(&block).find_map(Result::err).expect("damaged");
            assert_eq!(bad.why, why);
        }
    }

    /// The short way and the long way of reading an entry are of the same opinion.
    #[test]
    fn an_entry_is_the_same_on_both_ways() {
        let mut bytes = [0; 64];
        for length in (0..72).chain([65_532, 65_535]) {
            for (name_bytes, inode) in [(0, 0), (0, 5), (1, 5), (4, 0), (5, 5), (40, 5), (255, 5)] {
                for offset in [0, 20, 52, 60] {
                    let header = EntryHeader {
                        inode: U32::new(inode),
                        record_length: U16::new(length),
                        name_length: name_bytes,
                        file_type: 1,
                    };
                    let room = (bytes.len() - offset).min(HEADER_SIZE);
                    bytes[offset..offset + room].copy_from_slice(&header.as_bytes()[..room]);
                    let (short, long) =
                        (entry_at(&bytes, offset), unusual_entry_at(&bytes, offset));
                    let facts =
                        |entry: RawEntry<'_>| (entry.to_entry(), entry.offset, entry.length);
                    assert_eq!(
                        short.map(facts),
                        long.map(facts),
                        "{length} {name_bytes} {offset}"
                    );
                }
            }
        }
    }
}
