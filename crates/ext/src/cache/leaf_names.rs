//! The places of the entries of a directory block, so that a search reads none but those that it
//! finds.
//!
//! [`LeafNames`] has for each entry, unused ones too, its offset, its room, and a tag: one byte
//! that is derived from its name. It is made when a block is walked over for the second time, and
//! kept with the buffer until the contents change. The functions here search a block and change it.
//! Their results are those of a walk over its entries, and so are the numbers of entries that a
//! simulated host is charged for.

use jbd2::{Buffer, BufferRead, BufferWrite, Derived};
use layout::InodeNr;

use crate::disk::entry::{self, Bad, NewEntry, RawEntry};

/// Least number of entries of a walk that counts: few are walked over as quickly.
const WALKED_MIN: u64 = 8;

/// The place of an entry in a block, and the inode that it refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) offset: usize,
    pub(crate) inode: u32,
}

/// Bytes of an entry with a name of usual length.
const USUAL_BYTES: usize = 24;

/// Kept with a block that was walked over once.
struct WalkedOnce;

/// The entries of one block, in its order.
#[derive(Debug, PartialEq, Eq)]
struct LeafNames {
    offsets: Vec<u16>,
    /// The room of each entry; 65,535 for that of a block of 64 KiB without entries.
    rooms: Vec<u16>,
    tags: Vec<u8>,
}

/// Finds a name in a block. Adds the number of entries up to it to `compared`.
pub(crate) fn find(buffer: &Buffer, name: &[u8], compared: &mut u64) -> Result<Option<Found>, Bad> {
    let bytes = buffer.read();
    let found = |entry: RawEntry<'_>| Found {
        offset: entry.offset,
        inode: entry.inode,
    };
    if let Some(names) = known(&bytes) {
        return Ok(names.find(&bytes, name, compared).map(found));
    }
    let before = *compared;
    let result = entry::find(&bytes, name, compared).map(|entry| entry.map(found));
    drop(bytes);
    note_walk(buffer, *compared - before);
    result
}

/// Returns the offset of the first entry of a block with room for a name of this length. Adds the
/// number of entries up to it to `walked`.
pub(crate) fn find_room(
    buffer: &Buffer,
    name_bytes: usize,
    walked: &mut u64,
) -> Result<Option<usize>, Bad> {
    let bytes = buffer.read();
    if let Some(names) = known(&bytes) {
        return Ok(names.room(entry::size_of_name(name_bytes), walked));
    }
    let before = *walked;
    let result = entry::find_room(&bytes, name_bytes, walked);
    drop(bytes);
    note_walk(buffer, *walked - before);
    result
}

/// Returns the offset of the entry before the one at `offset`, if there is one. Adds the number of
/// entries before the latter to `walked`.
pub(crate) fn previous_of(buffer: &Buffer, offset: usize, walked: &mut u64) -> Option<usize> {
    let bytes = buffer.read();
    match known(&bytes).and_then(|names| Some((names, names.position(offset)?))) {
        Some((names, at)) => {
            *walked += at as u64;
            at.checked_sub(1).map(|at| names.offsets[at].into())
        }
        None => entry::previous_of(&bytes, offset, walked),
    }
}

/// Writes an entry into the room that [`find_room`] found.
pub(crate) fn insert(bytes: &mut BufferWrite<'_>, offset: usize, new: NewEntry<'_>) {
    change(
        bytes,
        |bytes| entry::insert(bytes, offset, new),
        |names, bytes| names.note_inserted(bytes, offset),
    );
}

/// Erases an entry: merges it with the one before, or marks it unused.
pub(crate) fn erase(bytes: &mut BufferWrite<'_>, previous: Option<usize>, offset: usize) {
    change(
        bytes,
        |bytes| entry::erase(bytes, previous, offset),
        |names, bytes| names.note_erased(bytes, previous, offset),
    );
}

/// Changes the inode that an entry refers to.
pub(crate) fn point_to(bytes: &mut BufferWrite<'_>, offset: usize, inode: InodeNr, type_byte: u8) {
    change(
        bytes,
        |bytes| entry::point_to(bytes, offset, inode, type_byte),
        |_, _| Some(()),
    );
}

/// Changes a block, and what is kept of it; that is dropped if `note` does not know the place.
fn change(
    bytes: &mut BufferWrite<'_>,
    change: impl FnOnce(&mut [u8]),
    note: impl FnOnce(&mut LeafNames, &[u8]) -> Option<()>,
) {
    let kept = bytes.take_derived();
    change(bytes);
    let Some(mut kept) = kept else { return };
    let noted = match kept.downcast_mut() {
        Some(names) => note(names, bytes),
        None => Some(()),
    };
    if noted.is_some() {
        bytes.keep_derived(kept);
    }
}

/// Returns the places of a block's entries, if they are kept.
fn known<'b>(bytes: &'b BufferRead<'_>) -> Option<&'b LeafNames> {
    let names = bytes.derived()?;
    debug_assert_eq!(
        LeafNames::of(bytes).as_ref(),
        Ok(names),
        "what is kept fits the block"
    );
    Some(names)
}

/// Keeps the places of a sound block's entries after the second walk over many.
fn note_walk(buffer: &Buffer, walked: u64) {
    if walked < WALKED_MIN {
        return;
    }
    buffer.derive(|kept, bytes| match kept {
        None => Some(Box::new(WalkedOnce)),
        Some(kept) if kept.is::<WalkedOnce>() => {
            let names = LeafNames::of(bytes).ok()?;
            Some(Box::new(names) as Derived)
        }
        kept => kept,
    });
}

/// Returns the tag of a name: mixed from its length and its last bytes, in which the names of a
/// directory differ most.
fn tag(name: &[u8]) -> u8 {
    const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;
    let word = match name.last_chunk() {
        Some(last) => u64::from_le_bytes(*last),
        None => name
            .iter()
            .fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    ((word ^ name.len() as u64).wrapping_mul(MIXER) >> 56) as u8
}

impl LeafNames {
    /// Returns the entries of a block.
    fn of(bytes: &[u8]) -> Result<Self, Bad> {
        let usual = bytes.len() / USUAL_BYTES;
        let mut names = Self {
            offsets: Vec::with_capacity(usual),
            rooms: Vec::with_capacity(usual),
            tags: Vec::with_capacity(usual),
        };
        for entry in entry::entries(bytes) {
            let at = names.offsets.len();
            names.insert(at, entry?);
        }
        Ok(names)
    }

    fn find<'b>(&self, bytes: &'b [u8], name: &[u8], compared: &mut u64) -> Option<RawEntry<'b>> {
        for at in memchr::memchr_iter(tag(name), &self.tags) {
            let entry = entry::at(bytes, self.offsets[at].into());
            if entry.inode != 0 && entry.name == name {
                *compared += at as u64 + 1;
                return Some(entry);
            }
        }
        *compared += self.offsets.len() as u64;
        None
    }

    fn room(&self, size: usize, walked: &mut u64) -> Option<usize> {
        let mut rooms = self.rooms.iter();
        let found = rooms.position(|room| usize::from(*room) >= size);
        *walked += found.map_or(self.rooms.len(), |at| at + 1) as u64;
        found.map(|at| self.offsets[at].into())
    }

    /// Returns the index of the entry at an offset. There is none only if two owners of a block, on
    /// a damaged volume, change it at the same time.
    fn position(&self, offset: usize) -> Option<usize> {
        let offset = u16::try_from(offset).ok()?;
        self.offsets.binary_search(&offset).ok()
    }

    /// Notes that an entry was written into the room of the one at `offset`.
    fn note_inserted(&mut self, bytes: &[u8], offset: usize) -> Option<()> {
        let at = self.position(offset)?;
        let end = self.offsets.get(at + 1);
        let end = end.map_or(bytes.len(), |end| usize::from(*end));
        let entry = self.read_again(bytes, at);
        let next = entry.offset + entry.length;
        if next < end {
            self.insert(at + 1, entry::at(bytes, next));
        }
        Some(())
    }

    /// Notes that the entry at `offset` was erased: merged with `previous`, or marked unused.
    fn note_erased(&mut self, bytes: &[u8], previous: Option<usize>, offset: usize) -> Option<()> {
        let mut at = self.position(offset)?;
        if previous.is_some() {
            self.offsets.remove(at);
            self.rooms.remove(at);
            self.tags.remove(at);
            at = at.checked_sub(1)?;
        }
        self.read_again(bytes, at);
        Some(())
    }

    fn read_again<'b>(&mut self, bytes: &'b [u8], at: usize) -> RawEntry<'b> {
        let entry = entry::at(bytes, self.offsets[at].into());
        self.rooms[at] = room_of(entry);
        self.tags[at] = tag(entry.name);
        entry
    }

    fn insert(&mut self, at: usize, entry: RawEntry<'_>) {
        let offset = u16::try_from(entry.offset).expect("a block of at most 64 KiB");
        self.offsets.insert(at, offset);
        self.rooms.insert(at, room_of(entry));
        self.tags.insert(at, tag(entry.name));
    }
}

fn room_of(entry: RawEntry<'_>) -> u16 {
    u16::try_from(entry.room()).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use layout::BlockNr;
    use rt::split_mix::SplitMix;

    use super::*;
    use crate::disk::entry::BlockForm;

    fn new(name: &[u8]) -> NewEntry<'_> {
        NewEntry {
            name,
            inode: InodeNr::new(12),
            type_byte: 1,
        }
    }

    fn buffer(block: layout::Block) -> std::sync::Arc<Buffer> {
        let buffer = Buffer::new(BlockNr::new(9), block.into_arc());
        for _ in 0..2 {
            note_walk(&buffer, WALKED_MIN);
        }
        buffer
    }

    /// Asserts that what is kept fits the block, and that all answers are those of a walk.
    fn assert_like_a_walk(buffer: &Buffer) {
        let bytes = buffer.image();
        let fits = |names: &LeafNames| *names == LeafNames::of(&bytes).expect("sound");
        assert!(buffer.read().derived().is_some_and(fits));
        let entries: Result<Vec<_>, Bad> = entry::entries(&bytes).collect();
        let walk = entries.expect("sound");
        let mut wanted: Vec<&[u8]> = walk.iter().map(|entry| entry.name).collect();
        wanted.push(b"absent");
        for name in wanted {
            let (mut walked, mut counted) = (0, 0);
            let expected = entry::find(&bytes, name, &mut walked).expect("sound");
            let found = find(buffer, name, &mut counted).expect("sound");
            assert_eq!(found.map(|it| it.offset), expected.map(|it| it.offset));
            assert_eq!(counted, walked);
        }
        for entry in &walk {
            let (mut walked, mut counted) = (0, 0);
            let expected = entry::previous_of(&bytes, entry.offset, &mut walked);
            assert_eq!(previous_of(buffer, entry.offset, &mut counted), expected);
            assert_eq!(counted, walked);
        }
        for name_bytes in [1, 9, 40, 255] {
            let (mut walked, mut counted) = (0, 0);
            let expected = entry::find_room(&bytes, name_bytes, &mut walked).expect("sound");
            let found = find_room(buffer, name_bytes, &mut counted).expect("sound");
            assert_eq!((found, counted), (expected, walked));
        }
    }

    #[test]
    fn every_answer_is_that_of_a_walk() {
        for has_tail in [false, true] {
            let size = 1024;
            let form = BlockForm { size, has_tail };
            let own = InodeNr::ROOT;
            let buffer = buffer(entry::first_block(form, own, own, 2));
            let mut present: Vec<Vec<u8>> = Vec::new();
            let mut random = SplitMix::new(7);
            for step in 0..3000_u32 {
                let wants_more = random.below(5) < 3;
                if wants_more {
                    let length = 1 + random.below(30) as usize;
                    let name = format!("{step:0length$}").into_bytes();
                    let room = find_room(&buffer, name.len(), &mut 0).expect("sound");
                    if let Some(offset) = room {
                        insert(&mut buffer.write_unjournaled(), offset, new(&name));
                        present.push(name);
                    }
                } else if !present.is_empty() {
                    let at = random.below(present.len() as u64) as usize;
                    let name = present.swap_remove(at);
                    let found = find(&buffer, &name, &mut 0).expect("sound");
                    let offset = found.expect("it is present").offset;
                    let previous = previous_of(&buffer, offset, &mut 0);
                    erase(&mut buffer.write_unjournaled(), previous, offset);
                }
                if step % 16 == 0 {
                    assert_like_a_walk(&buffer);
                }
            }
        }
    }

    #[test]
    fn the_first_entry_of_a_block_is_marked_unused() {
        let form = BlockForm {
            size: 1024,
            has_tail: true,
        };
        let buffer = buffer(entry::packed(form, &[new(b"one"), new(b"two")]));
        erase(&mut buffer.write_unjournaled(), None, 0);
        assert_like_a_walk(&buffer);
        insert(&mut buffer.write_unjournaled(), 0, new(b"a"));
        assert_like_a_walk(&buffer);
        point_to(&mut buffer.write_unjournaled(), 0, InodeNr::new(20), 1);
        assert_like_a_walk(&buffer);
    }

    #[test]
    fn a_block_of_64_kib_without_entries_has_room() {
        let mut block = layout::Block::zeroed(65536);
        // Its length, as blocks of this size have it.
        block[4..6].fill(0xff);
        let buffer = buffer(block);
        assert!(buffer.read().derived::<LeafNames>().is_some());
        assert_eq!(find_room(&buffer, 255, &mut 0), Ok(Some(0)));
    }

    #[test]
    fn a_change_by_another_owner_of_the_block_drops_the_places() {
        let form = BlockForm {
            size: 1024,
            has_tail: false,
        };
        let own = InodeNr::ROOT;
        let buffer = buffer(entry::first_block(form, own, own, 2));
        buffer
            .write_unjournaled()
            .copy_from_slice(&entry::packed(form, &[new(b"other")]));
        assert!(buffer.read().derived::<LeafNames>().is_none());
        assert_eq!(find(&buffer, b".", &mut 0), Ok(None));
    }
}
