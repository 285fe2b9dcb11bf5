//! The choice between the inode and the block for an attribute.
//!
//! | fits the inode | fits the block | result |
//! |---|---|---|
//! | yes | | stored in the inode, and removed from the block |
//! | no | yes | stored in the block, and removed from the inode |
//! | no | no | refused as too large; nothing has changed |
//!
//! On a volume with `ea_inode` the last line is another one: the value gets an inode of its own,
//! and the entry without it is placed by the same table. There the values in a block leave room for
//! entries, as in Linux: otherwise a long value would keep others from getting an entry.

use layout::attribute::{BLOCK_HEADER_SIZE, INODE_HEADER_SIZE, MAGIC, VALUE_SIZE_MAX};
use layout::inode::{BASE_SIZE, EXTRA_SIZE};

use super::name::AttributeName;
use super::set::{AttributeSet, Value};
use crate::disk::superblock::Superblock;
use crate::error::{Error, Result};

/// Part of a block, and its maximum in bytes, that values leave to entries with `ea_inode`.
const ENTRIES_PART: usize = 8;
const ENTRIES_BYTES_MAX: usize = 1024;

/// Number of bytes for attributes after the headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) inode: usize,
    pub(crate) block: usize,
    /// The values in the block take no more.
    pub(crate) block_values: usize,
    /// The largest value in an inode of its own; 0 without `ea_inode`.
    pub(crate) value: usize,
}

impl Room {
    /// Returns the room with an extra part of `extra_bytes` bytes; 0 means no extra part and no
    /// attributes in the inode.
    pub(crate) fn of(superblock: &Superblock, extra_bytes: usize) -> Self {
        let geometry = &superblock.geometry;
        let tail = usize::from(geometry.inode_bytes).saturating_sub(BASE_SIZE + extra_bytes);
        let inode = if extra_bytes == 0 { 0 } else { tail };
        let block_bytes = geometry.block_bytes as usize;
        let for_entries = (block_bytes / ENTRIES_PART).min(ENTRIES_BYTES_MAX);
        let (block_values, value) = match superblock.has_ea_inode() {
            true => (block_bytes - for_entries, VALUE_SIZE_MAX),
            false => (block_bytes, 0),
        };
        Self {
            inode: inode.saturating_sub(INODE_HEADER_SIZE),
            block: block_bytes - BLOCK_HEADER_SIZE,
            block_values,
            value,
        }
    }

    /// Returns the room of a new inode.
    pub(crate) fn of_new(superblock: &Superblock) -> Self {
        let inode_bytes = usize::from(superblock.geometry.inode_bytes);
        let has_extra = inode_bytes >= BASE_SIZE + EXTRA_SIZE;
        Self::of(superblock, if has_extra { EXTRA_SIZE } else { 0 })
    }
}

/// The attributes of an inode, by place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) inode: AttributeSet,
    pub(crate) block: AttributeSet,
}

impl Placed {
    /// Returns the number of values in inodes of their own, or to be stored in one.
    pub(crate) fn value_count(&self) -> u64 {
        let sets = [&self.inode, &self.block];
        sets.map(|set| set.sizes_of_values().count() as u64)
            .iter()
            .sum()
    }

    /// Returns the value of a name.
    pub(crate) fn get(&self, name: &AttributeName) -> Option<&Value> {
        self.inode.get(name).or_else(|| self.block.get(name))
    }

    /// Adds an attribute, or replaces its value.
    ///
    /// # Errors
    /// - [`Error::AttributeTooLarge`] if it fits nowhere; nothing has changed then.
    pub(crate) fn put(&mut self, name: &AttributeName, value: &[u8], room: Room) -> Result<()> {
        // Too long for either place. This also excludes values of 64 KiB, which have no valid
        // offset.
        let fits = value.len() <= room.inode.max(room.block);
        if fits && self.place(name, Value::Bytes(value.to_vec()), room) {
            return Ok(());
        }
        let has_inode = value.len() <= room.value;
        if has_inode && self.place(name, Value::New(value.to_vec()), room) {
            return Ok(());
        }
        Err(Error::AttributeTooLarge)
    }

    /// Places an attribute in the inode or in the block; returns false if it fits neither.
    fn place(&mut self, name: &AttributeName, value: Value, room: Room) -> bool {
        let mut set = self.inode.clone();
        set.put(name, value.clone());
        if set.bytes() <= room.inode {
            self.inode = set;
            self.block.remove(name);
            return true;
        }
        let is_beside = matches!(&value, Value::Bytes(bytes) if !bytes.is_empty());
        let mut set = self.block.clone();
        set.put(name, value);
        let leaves_room = !is_beside || set.value_bytes() <= room.block_values;
        if set.bytes() <= room.block && leaves_room {
            self.block = set;
            self.inode.remove(name);
            return true;
        }
        false
    }

    /// Removes an attribute; returns true if there was one.
    pub(crate) fn remove(&mut self, name: &AttributeName) -> bool {
        let was_in_inode = self.inode.remove(name);
        self.block.remove(name) || was_in_inode
    }

    /// Returns all names, those in the inode first.
    pub(crate) fn names(&self) -> impl Iterator<Item = &AttributeName> {
        self.inode.names().chain(self.block.names())
    }
}

/// Returns the magic of the part within an inode, and the place after it; none if there is no room
/// for one.
pub(super) fn place_within(inode: &[u8], extra: usize) -> Option<(u32, &[u8])> {
    if extra == 0 {
        return None;
    }
    let tail = inode.get(BASE_SIZE + extra..)?;
    let (magic, place) = tail.split_first_chunk::<INODE_HEADER_SIZE>()?;
    Some((u32::from_le_bytes(*magic), place))
}

/// Writes the attributes within an inode, which has room for them.
pub(super) fn write_within(inode: &mut [u8], set: &AttributeSet) {
    let extra = crate::disk::inode::extra_size(inode);
    let tail = &mut inode[BASE_SIZE + extra..];
    tail.fill(0);
    if !set.is_empty() {
        tail[..INODE_HEADER_SIZE].copy_from_slice(&MAGIC.to_le_bytes());
        set.encode(&mut tail[INODE_HEADER_SIZE..], 0, false);
    }
}

/// Returns true if an inode has an area for attributes behind its fields.
pub(super) fn has_attributes_within(inode: &[u8]) -> bool {
    let is_long = inode.len() > BASE_SIZE;
    is_long
        && matches!(
            place_within(inode, crate::disk::inode::extra_size(inode)),
            Some((MAGIC, _))
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room {
        inode: 64,
        block: 96,
        block_values: 96,
        value: 0,
    };

    fn name(whole: &str) -> AttributeName {
        AttributeName::parse(whole.as_bytes()).expect("a name")
    }

    /// Puts attributes and returns the place of each: `i` inode, `b` block, `-` nowhere; in upper
    /// case if the value is for an inode of its own.
    fn places(puts: &[(&str, usize)], room: Room) -> String {
        let mut placed = Placed::default();
        for (whole, bytes) in puts {
            let before = placed.clone();
            if placed.put(&name(whole), &vec![1; *bytes], room).is_err() {
                assert_eq!(placed, before, "what fails changes nothing");
            }
        }
        let place = |whole: &str| {
            let (inode, block) = (&placed.inode, &placed.block);
            match (inode.get(&name(whole)), block.get(&name(whole))) {
                (Some(Value::New(_)), None) => 'I',
                (None, Some(Value::New(_))) => 'B',
                (Some(_), None) => 'i',
                (None, Some(_)) => 'b',
                (None, None) => '-',
                (Some(_), Some(_)) => panic!("{whole} is in both places"),
            }
        };
        ["user.a", "user.b", "user.c"].map(place).iter().collect()
    }

    #[test]
    fn the_inode_comes_first_and_then_the_block() {
        // An entry with a name of one byte takes 20 bytes, the end 4.
        let cases: &[(&[(&str, usize)], &str)] = &[
            (&[("user.a", 40)], "i--"),
            (&[("user.a", 41)], "b--"),
            (&[("user.a", 72)], "b--"),
            (&[("user.a", 73)], "---"),
            (&[("user.a", 40), ("user.b", 1)], "ib-"),
            (&[("user.a", 40), ("user.b", 1), ("user.a", 8)], "ib-"),
            (
                &[("user.a", 40), ("user.b", 1), ("user.a", 8), ("user.b", 2)],
                "ii-",
            ),
            (&[("user.a", 8), ("user.b", 1), ("user.a", 60)], "bi-"),
            (&[("user.a", 72), ("user.b", 40), ("user.c", 1)], "bi-"),
            (&[("user.a", 8), ("user.a", 100)], "i--"),
        ];
        for (puts, expected) in cases {
            assert_eq!(places(puts, ROOM), *expected, "{puts:?}");
        }
    }

    #[test]
    fn large_values_get_inodes_of_their_own() {
        let room = Room { value: 500, ..ROOM };
        let cases: &[(&[(&str, usize)], &str)] = &[
            (&[("user.a", 72)], "b--"),
            (&[("user.a", 73)], "I--"),
            (&[("user.a", 500)], "I--"),
            (&[("user.a", 501)], "---"),
            (&[("user.a", 40), ("user.b", 73)], "iB-"),
            (&[("user.a", 40), ("user.b", 72), ("user.c", 1)], "ib-"),
            (&[("user.a", 40), ("user.b", 52), ("user.c", 30)], "ibB"),
            (&[("user.a", 100), ("user.a", 8)], "i--"),
        ];
        for (puts, expected) in cases {
            assert_eq!(places(puts, room), *expected, "{puts:?}");
        }
        // Values in the block leave room for entries.
        let room = Room {
            block_values: 50,
            ..room
        };
        let cases: &[(&[(&str, usize)], &str)] = &[
            (&[("user.a", 48)], "b--"),
            (&[("user.a", 49)], "I--"),
            (&[("user.a", 40), ("user.b", 60)], "iB-"),
        ];
        for (puts, expected) in cases {
            assert_eq!(places(puts, room), *expected, "{puts:?}");
        }
    }
}
