//! Blocks of the orphan file (`orphan_file`): a regular file without a name whose blocks hold the
//! numbers of inodes with an unfinished deletion or truncation.
//!
//! ```text
//! | inode or 0 | inode or 0 | ... | magic | checksum |
//! ```
//!
//! A block is an array of slots of 32 bits, which fill it up to its [`Tail`].
//!
//! Source: Linux `Documentation/filesystems/ext4/orphan.rst`.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The value of [`Tail::magic`].
pub const MAGIC: u32 = 0x0B10_CA04;
/// Size of a slot in bytes.
pub const SLOT_SIZE: usize = 4;
/// Size of a [`Tail`] in bytes.
pub const TAIL_SIZE: usize = 8;
/// Number of slots that are compared with 0 together.
const SLOTS_AT_A_TIME: usize = 16;

/// `ext4_orphan_block_tail`: the end of a block.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Tail {
    /// `ob_magic`: [`MAGIC`].
    pub magic: U32,
    /// `ob_checksum`: crc32c (`metadata_csum`).
    pub checksum: U32,
}

const _: () = assert!(size_of::<Tail>() == TAIL_SIZE);

impl Tail {
    /// Creates a tail with a checksum.
    pub fn new(checksum: u32) -> Self {
        Self {
            magic: U32::new(MAGIC),
            checksum: U32::new(checksum),
        }
    }

    /// Returns the tail of a block, if its magic is right.
    pub fn of_block(block: &[u8]) -> Option<&Self> {
        let (_, tail) = Self::ref_from_suffix(block).ok()?;
        (tail.magic.get() == MAGIC).then_some(tail)
    }
}

/// Returns the slots of a block.
///
/// # Panics
/// Panics if the block is shorter than a tail.
pub fn slots(block: &[u8]) -> &[U32] {
    let bytes = &block[..block.len() - TAIL_SIZE];
    let (slots, _) = <[U32]>::ref_from_prefix_with_elems(bytes, bytes.len() / SLOT_SIZE)
        .expect("a slice holds its own elements");
    slots
}

/// Returns the indexes and the numbers of the slots of a block that are in use. Most blocks have
/// none, so many slots are compared at a time.
///
/// # Panics
/// Panics if the block is shorter than a tail.
pub fn used_slots(block: &[u8]) -> impl Iterator<Item = (usize, u32)> {
    let parts = slots(block).chunks(SLOTS_AT_A_TIME);
    let parts = (0..).step_by(SLOTS_AT_A_TIME).zip(parts);
    parts
        .filter(|(_, part)| part.iter().fold(0, |bits, slot| bits | slot.get()) != 0)
        .flat_map(|(first, part)| (first..).zip(part))
        .map(|(index, slot)| (index, slot.get()))
        .filter(|(_, number)| *number != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_slots_and_a_tail() {
        let mut block = [0; 1024];
        block[1012] = 7;
        block[1016..].copy_from_slice(Tail::new(9).as_bytes());
        assert_eq!(slots(&block).len(), 254);
        assert_eq!(slots(&block)[253].get(), 7);
        assert_eq!(Tail::of_block(&block).unwrap().checksum.get(), 9);
        block[17 * 4] = 5;
        let used: Vec<_> = used_slots(&block).collect();
        assert_eq!(used, [(17, 5), (253, 7)]);
        block[1016] = 0;
        assert!(Tail::of_block(&block).is_none());
    }
}
