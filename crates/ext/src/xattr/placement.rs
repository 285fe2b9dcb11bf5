//! The choice between the inode and the block for an attribute.
//!
//! | fits the inode | fits the block | result |
//! |---|---|---|
//! | yes | | stored in the inode, and removed from the block |
//! | no | yes | stored in the block, and removed from the inode |
//! | no | no | refused as too large; nothing has changed |

use layout::attribute::{BLOCK_HEADER_SIZE, INODE_HEADER_SIZE};
use layout::inode::{BASE_SIZE, EXTRA_SIZE};

use super::name::AttributeName;
use super::set::AttributeSet;
use crate::disk::geometry::Geometry;
use crate::error::{Error, Result};

/// Number of bytes for attributes after the headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) inode: usize,
    pub(crate) block: usize,
}

impl Room {
    /// Returns the room with an extra part of `extra_bytes` bytes; 0 means no extra part and no
    /// attributes in the inode.
    pub(crate) fn of(geometry: &Geometry, extra_bytes: usize) -> Self {
        let tail = usize::from(geometry.inode_bytes).saturating_sub(BASE_SIZE + extra_bytes);
        let inode = if extra_bytes == 0 { 0 } else { tail };
        Self {
            inode: inode.saturating_sub(INODE_HEADER_SIZE),
            block: geometry.block_bytes as usize - BLOCK_HEADER_SIZE,
        }
    }

    /// Returns the room of a new inode.
    pub(crate) fn of_new(geometry: &Geometry) -> Self {
        let has_extra = usize::from(geometry.inode_bytes) >= BASE_SIZE + EXTRA_SIZE;
        Self::of(geometry, if has_extra { EXTRA_SIZE } else { 0 })
    }
}

/// The attributes of an inode, by place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) inode: AttributeSet,
    pub(crate) block: AttributeSet,
}

impl Placed {
    /// Returns the value of a name.
    pub(crate) fn get(&self, name: &AttributeName) -> Option<&[u8]> {
        self.inode.get(name).or_else(|| self.block.get(name))
    }

    /// Adds an attribute, or replaces its value.
    ///
    /// # Errors
    /// - [`Error::AttributeTooLarge`] if it fits nowhere; nothing has changed then.
    pub(crate) fn put(&mut self, name: &AttributeName, value: &[u8], room: Room) -> Result<()> {
        // Too long for either place. This also excludes values of 64 KiB, which have no valid
        // offset.
        if value.len() > room.inode.max(room.block) {
            return Err(Error::AttributeTooLarge);
        }
        let mut set = self.inode.clone();
        set.put(name, value);
        if set.bytes() <= room.inode {
            self.inode = set;
            self.block.remove(name);
            return Ok(());
        }
        let mut set = self.block.clone();
        set.put(name, value);
        if set.bytes() <= room.block {
            self.block = set;
            self.inode.remove(name);
            return Ok(());
        }
        Err(Error::AttributeTooLarge)
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

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room {
        inode: 64,
        block: 96,
    };

    fn name(whole: &str) -> AttributeName {
        AttributeName::parse(whole.as_bytes()).expect("a name")
    }

    /// Puts attributes and returns the place of each: `i` inode, `b` block, `-` nowhere.
    fn places(puts: &[(&str, usize)]) -> String {
        let mut placed = Placed::default();
        for (whole, bytes) in puts {
            let before = placed.clone();
            if placed.put(&name(whole), &vec![1; *bytes], ROOM).is_err() {
                assert_eq!(placed, before, "what fails changes nothing");
            }
        }
        let place = |whole: &str| {
            let (inode, block) = (&placed.inode, &placed.block);
            match (inode.get(&name(whole)), block.get(&name(whole))) {
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
            assert_eq!(places(puts), *expected, "{puts:?}");
        }
    }
}
