//! [`LeafNames`]: where the entries of one directory block lie, so that a search reads none but
//! those that it finds.
//!
//! Each entry, unused ones too, has its offset, its room, and a tag: one byte that is derived from
//! its name. The results of a search are those of a walk over the block, and so are the numbers of
//! entries that a simulated host is charged for.

use crate::disk::entry::{self, Bad, RawEntry, Summary};

/// The entries of one block, in its order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LeafNames {
    offsets: Vec<u16>,
    /// The room of each entry; 65,535 for that of a block of 64 KiB without entries.
    rooms: Vec<u16>,
    tags: Vec<u8>,
}

/// Returns the tag of a name: mixed from its length and its last bytes, in which the names of a
/// directory differ most.
fn tag(name: &[u8]) -> u8 {
    const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;
    let last = name.iter().rev().take(8);
    let word = last.fold(name.len() as u64, |word, byte| {
        word << 8 ^ word >> 56 ^ u64::from(*byte)
    });
    (word.wrapping_mul(MIXER) >> 56) as u8
}

impl LeafNames {
    /// Returns the entries of a block.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, Bad> {
        let mut names = Self::default();
        for entry in entry::entries(bytes) {
            let at = names.offsets.len();
            names.insert(at, entry?);
        }
        Ok(names)
    }

    fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Returns what a search needs to know of the block without it.
    pub(crate) fn summary(&self) -> Summary {
        Summary {
            room: self.rooms.iter().copied().max().unwrap_or(0),
            count: u16::try_from(self.len()).expect("a block of at most 64 KiB"),
        }
    }

    /// Finds a name in the block. Adds the number of entries up to it to `compared`.
    pub(crate) fn find<'b>(
        &self,
        bytes: &'b [u8],
        name: &[u8],
        compared: &mut u64,
    ) -> Option<RawEntry<'b>> {
        for at in memchr::memchr_iter(tag(name), &self.tags) {
            let entry = entry::at(bytes, self.offsets[at].into());
            if entry.inode != 0 && entry.name == name {
                *compared += at as u64 + 1;
                return Some(entry);
            }
        }
        *compared += self.len() as u64;
        None
    }

    /// Returns the offset of the first entry with `size` bytes of room. Adds the number of entries
    /// up to it to `walked`.
    pub(crate) fn room(&self, size: usize, walked: &mut u64) -> Option<usize> {
        let found = self
            .rooms
            .iter()
            .position(|room| usize::from(*room) >= size);
        *walked += found.map_or(self.len(), |at| at + 1) as u64;
        found.map(|at| self.offsets[at].into())
    }

    /// Returns the offset of the entry before the one at `offset`, if there is one. Adds the number
    /// of entries before the latter to `walked`.
    pub(crate) fn before(&self, offset: usize, walked: &mut u64) -> Option<usize> {
        let at = self.position(offset);
        *walked += at as u64;
        at.checked_sub(1).map(|at| self.offsets[at].into())
    }

    /// Notes that an entry was written into the room of the one at `offset`.
    pub(crate) fn note_inserted(&mut self, bytes: &[u8], offset: usize) {
        let at = self.position(offset);
        let end = self
            .offsets
            .get(at + 1)
            .map_or(bytes.len(), |end| usize::from(*end));
        let entry = self.read_again(bytes, at);
        let next = entry.offset + entry.length;
        if next < end {
            self.insert(at + 1, entry::at(bytes, next));
        }
    }

    /// Notes that the entry at `offset` was erased: merged with `previous`, or marked unused.
    pub(crate) fn note_erased(&mut self, bytes: &[u8], previous: Option<usize>, offset: usize) {
        let at = self.position(offset);
        if previous.is_some() {
            self.offsets.remove(at);
            self.rooms.remove(at);
            self.tags.remove(at);
        }
        self.read_again(bytes, at - usize::from(previous.is_some()));
    }

    fn position(&self, offset: usize) -> usize {
        let offset = u16::try_from(offset).expect("a block of at most 64 KiB");
        let found = self.offsets.binary_search(&offset);
        found.expect("every change of a block is noted")
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
    use layout::InodeNr;

    use super::*;
    use crate::disk::entry::{BlockForm, NewEntry};

    fn new(name: &[u8]) -> NewEntry<'_> {
        NewEntry {
            name,
            inode: InodeNr::new(12),
            type_byte: 1,
        }
    }

    /// Asserts that all answers are those of a walk.
    fn assert_like_a_walk(names: &LeafNames, bytes: &[u8]) {
        assert_eq!(*names, LeafNames::of(bytes).expect("sound"));
        let walk: Vec<_> = entry::entries(bytes).map(|it| it.expect("sound")).collect();
        let mut found: Vec<&[u8]> = walk.iter().map(|entry| entry.name).collect();
        found.push(b"absent");
        for name in found {
            let (mut walked, mut compared) = (0, 0);
            let expected = entry::find(bytes, name, &mut walked).expect("sound");
            let found = names.find(bytes, name, &mut compared);
            let offset = |it: RawEntry<'_>| it.offset;
            assert_eq!(
                (found.map(offset), compared),
                (expected.map(offset), walked)
            );
        }
        for entry in &walk {
            let (mut walked, mut counted) = (0, 0);
            let expected = entry::previous_of(bytes, entry.offset, &mut walked);
            assert_eq!(names.before(entry.offset, &mut counted), expected);
            assert_eq!(counted, walked);
        }
        for name_bytes in [1, 9, 40, 255] {
            let (mut walked, mut counted) = (0, 0);
            let expected = entry::find_room(bytes, name_bytes, &mut walked).expect("sound");
            let size = entry::size_of_name(name_bytes);
            assert_eq!(names.room(size, &mut counted), expected);
            assert_eq!(counted, walked);
        }
    }

    #[test]
    fn every_answer_is_that_of_a_walk() {
        for has_tail in [false, true] {
            let form = BlockForm {
                size: 1024,
                has_tail,
            };
            let mut block = entry::first_block(form, InodeNr::new(2), InodeNr::new(2), 2);
            let mut names = LeafNames::of(&block).expect("sound");
            let mut present: Vec<Vec<u8>> = Vec::new();
            let mut random = rt::split_mix::SplitMix::new(7);
            for step in 0..3000_u32 {
                let wants_more = random.below(5) < 3;
                if wants_more {
                    let length = 1 + random.below(30) as usize;
                    let name = format!("{step:0length$}").into_bytes();
                    let size = entry::size_of_name(name.len());
                    if let Some(offset) = names.room(size, &mut 0) {
                        entry::insert(&mut block, offset, new(&name));
                        names.note_inserted(&block, offset);
                        present.push(name);
                    }
                } else if !present.is_empty() {
                    let at = random.below(present.len() as u64) as usize;
                    let name = present.swap_remove(at);
                    let offset = names.find(&block, &name, &mut 0).expect("present").offset;
                    let previous = names.before(offset, &mut 0);
                    entry::erase(&mut block, previous, offset);
                    names.note_erased(&block, previous, offset);
                }
                if step % 16 == 0 {
                    assert_like_a_walk(&names, &block);
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
        let mut block = entry::packed(form, &[new(b"one"), new(b"two")]);
        let mut names = LeafNames::of(&block).expect("sound");
        entry::erase(&mut block, None, 0);
        names.note_erased(&block, None, 0);
        assert_like_a_walk(&names, &block);
        entry::insert(&mut block, 0, new(b"a"));
        names.note_inserted(&block, 0);
        assert_like_a_walk(&names, &block);
    }
}
