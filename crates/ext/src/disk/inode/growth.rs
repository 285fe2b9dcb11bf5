//! Growth of the extra part of an inode, to the size that a new inode has.
//!
//! Inodes of older systems have none of it, or a shorter one: their times have no nanoseconds and
//! end in 2038, and there is no time of birth and no project. As in Linux, an inode that is stored
//! gets the whole part if the attributes within it leave room; they move behind it. Contents within
//! an inode stay where they are.
//!
//! Source: Linux `Documentation/filesystems/ext4/inodes.rst` (`i_extra_isize`) and
//! `attributes.rst`.

use core::ops::Range;

use layout::attribute::{ALIGNMENT, Entry, INODE_HEADER_SIZE, MAGIC};
use layout::inode::EXTRA_SIZE;
use zerocopy::{FromBytes, IntoBytes};

/// Grows the extra part of this size to that of a new inode, if it is short and there is room.
/// `rest` is the inode behind its base.
pub(super) fn grow(rest: &mut [u8], size: usize) {
    if !rt::mutant!("inode/not-grown") {
        grow_to(rest, size, EXTRA_SIZE);
    }
}

/// Grows the extra part of this size to a wanted one, if it is short and there is room.
pub(super) fn grow_to(rest: &mut [u8], size: usize, wanted: usize) {
    let are_aligned = size.is_multiple_of(ALIGNMENT) && wanted.is_multiple_of(ALIGNMENT);
    if size >= wanted || !are_aligned || rest.len() < wanted + INODE_HEADER_SIZE {
        return;
    }
    let has_attributes = size > 0 && rest[size..][..INODE_HEADER_SIZE] == MAGIC.to_le_bytes();
    if !has_attributes {
        // Nothing that lies here may be taken for attributes later.
        rest[size.max(2)..].fill(0);
    } else if !move_attributes(rest, size, wanted) {
        return;
    }
    rest[..2].copy_from_slice(&(wanted as u16).to_le_bytes());
}

/// Moves the header and the entries of attributes behind a whole extra part; values stay where they
/// are. Returns false if there is no room, or if the entries are damaged.
fn move_attributes(rest: &mut [u8], size: usize, wanted: usize) -> bool {
    let first = size + INODE_HEADER_SIZE;
    let Some((entries, values)) = entries(&rest[first..]) else {
        return false;
    };
    let (end, by) = (first + entries.end, wanted - size);
    let end_of_gap = values.map_or(rest.len(), |start| first + start);
    if end_of_gap < end + by {
        return false;
    }
    let mut at = first;
    while let Some((entry, bytes)) = entry_at(&rest[at..]) {
        if has_value(&entry) && !rt::mutant!("inode/values-left-behind") {
            let mut moved = entry;
            moved.value_offset.set(entry.value_offset.get() - by as u16);
            rest[at..][..size_of::<Entry>()].copy_from_slice(moved.as_bytes());
        }
        at += bytes;
    }
    rest.copy_within(size..end, wanted);
    rest[size..wanted].fill(0);
    true
}

/// Returns the range of the entries with the end of the list, and the start of the first value
/// beside them; none if they are damaged.
fn entries(place: &[u8]) -> Option<(Range<usize>, Option<usize>)> {
    let mut at = 0;
    let mut values: Option<usize> = None;
    while let Some((entry, bytes)) = entry_at(place.get(at..)?) {
        if has_value(&entry) {
            let start = usize::from(entry.value_offset.get());
            place.get(start..start + entry.value_size.get() as usize)?;
            values = Some(values.map_or(start, |first| first.min(start)));
        }
        at += bytes;
    }
    let end = at + ALIGNMENT;
    let is_sound = end <= place.len() && values.is_none_or(|start| start >= end);
    is_sound.then_some((0..end, values))
}

/// Returns an entry and its size in bytes; none at the end of the list.
fn entry_at(place: &[u8]) -> Option<(Entry, usize)> {
    let (entry, _) = Entry::read_from_prefix(place).ok()?;
    let is_end = place[..ALIGNMENT] == [0; ALIGNMENT];
    let name = usize::from(entry.name_length).next_multiple_of(ALIGNMENT);
    (!is_end).then_some((entry, size_of::<Entry>() + name))
}

/// Returns true if the value of an entry lies beside the entries.
fn has_value(entry: &Entry) -> bool {
    entry.value_inode.get() == 0 && entry.value_size.get() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: usize = 128;

    /// Returns the part behind the base, with one attribute whose value ends the inode.
    fn inode(size: usize, value: usize) -> Vec<u8> {
        let mut rest = vec![0; LENGTH];
        rest[..2].copy_from_slice(&(size as u16).to_le_bytes());
        rest[size..][..4].copy_from_slice(&MAGIC.to_le_bytes());
        let mut entry = Entry {
            name_length: 3,
            name_index: 1,
            ..Entry::default()
        };
        entry.value_size.set(value as u32);
        entry.value_offset.set((LENGTH - value - size - 4) as u16);
        let at = size + 4;
        rest[at..][..16].copy_from_slice(entry.as_bytes());
        rest[at + 16..][..3].copy_from_slice(b"abc");
        rest[LENGTH - value..].fill(7);
        rest
    }

    #[test]
    fn attributes_move_behind_the_extra_part() {
        let passes = |mutant| {
            let config = sim::Config {
                mutant,
                ..sim::Config::fair(1)
            };
            sim::run(config, all_moved).is_ok()
        };
        assert!(passes(None));
        if rt::mutant::IS_POSSIBLE {
            assert!(!passes(Some("inode/not-grown")));
            assert!(!passes(Some("inode/values-left-behind")));
        }
    }

    fn all_moved() {
        for size in [4, 8, 28] {
            // The header, an entry with its name, the end of the list and the value.
            let most = LENGTH - EXTRA_SIZE - 4 - 20 - 4;
            for value in [1, most] {
                let mut rest = inode(size, value);
                grow(&mut rest, size);
                assert_eq!(rest, inode(EXTRA_SIZE, value), "{size}, {value}");
            }
            let full = inode(size, most + 1);
            let mut rest = full.clone();
            grow(&mut rest, size);
            assert_eq!(rest, full, "{size}: there is no room");
        }
    }

    /// A tag of a fast commit may have a shorter part than a new inode.
    #[test]
    fn attributes_move_behind_a_part_of_any_size() {
        let mut rest = inode(4, 10);
        grow_to(&mut rest, 4, 28);
        assert_eq!(rest, inode(28, 10));
        grow_to(&mut rest, 28, 8);
        assert_eq!(rest, inode(28, 10), "it does not shrink");
    }

    #[test]
    fn damaged_entries_stay() {
        let sound = inode(8, 10);
        for (at, byte) in [(14, 0xFF), (14, 0), (20, 0xFF), (12, 0xFF)] {
            let mut damaged = sound.clone();
            damaged[at] = byte;
            let before = damaged.clone();
            grow(&mut damaged, 8);
            assert_eq!(damaged, before, "{at}");
        }
    }

    #[test]
    fn what_lies_behind_is_not_taken_for_attributes() {
        for size in [0, 4, 16] {
            let mut rest = vec![0xEE; LENGTH];
            rest[..2].copy_from_slice(&(size as u16).to_le_bytes());
            rest[EXTRA_SIZE..][..4].copy_from_slice(&MAGIC.to_le_bytes());
            grow(&mut rest, size);
            assert_eq!(rest[..2], (EXTRA_SIZE as u16).to_le_bytes());
            assert!(rest[size.max(2)..].iter().all(|byte| *byte == 0));
        }
    }
}
