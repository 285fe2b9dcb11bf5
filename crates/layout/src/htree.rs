//! Hash trees of directories (feature `dir_index`): the structures in a directory's index blocks.
//!
//! ```text
//! root (file block 0)                          node (an index block below it)
//!   0 entry "."  (rec_len 12)                    0 empty entry (inode 0, rec_len = block size)
//!  12 entry ".." (rec_len = block size - 12)     8 count and limit
//!  24 RootInfo                                  12 block of the first entry
//!  32 count and limit                           16 entries: hash, block
//!  36 block of the first entry
//!  40 entries: hash, block
//! ```
//! Software without the feature sees an index block as a directory block with one or two entries.
//! Entry 0 has no hash: its place holds count and limit, and it covers all hashes below that of
//! entry 1. The lowest bit of an entry's hash marks a collision: names with this hash start in the
//! block before. With `metadata_csum` the last 8 bytes of the block are a [`Tail`]. Leaves are
//! ordinary directory blocks.
//!
//! Source: Linux `Documentation/filesystems/ext4/directory.rst`.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Offset of [`RootInfo`] in the root.
pub const ROOT_INFO_OFFSET: usize = 24;
/// Offset of the entries in the root, count and limit first.
pub const ROOT_ENTRIES_OFFSET: usize = 32;
/// Offset of the entries in other index blocks, count and limit first.
pub const NODE_ENTRIES_OFFSET: usize = 8;
/// `info_length`.
pub const ROOT_INFO_LENGTH: u8 = 8;
/// Maximum number of levels of index blocks below the root.
pub const INDIRECT_LEVELS_MAX: u8 = 1;
/// The same with the feature `large_dir`.
pub const INDIRECT_LEVELS_MAX_LARGE_DIR: u8 = 2;
/// Bits of [`Entry::block`] that are a block number.
pub const BLOCK_MASK: u32 = 0x0FFF_FFFF;

/// `dx_root_info`: the hash version and the depth of the tree.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct RootInfo {
    /// Zero.
    pub reserved_zero: U32,
    /// Hash version without its signedness; see [`crate::hash::HashVersion`].
    pub hash_version: u8,
    /// [`ROOT_INFO_LENGTH`].
    pub info_length: u8,
    /// Number of levels of index blocks below the root.
    pub indirect_levels: u8,
    /// Zero.
    pub unused_flags: u8,
}

const _: () = assert!(size_of::<RootInfo>() == 8);

/// `dx_entry`: an index entry, the block for names from this hash on.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Entry {
    /// Lowest hash in the block; the lowest bit marks a collision.
    pub hash: U32,
    /// Block number within the directory.
    pub block: U32,
}

const _: () = assert!(size_of::<Entry>() == 8);

/// `dx_countlimit`: the number of entries and the capacity, in the place of entry 0's hash.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct CountLimit {
    /// Capacity in entries, entry 0 included.
    pub limit: U16,
    /// Number of entries, entry 0 included.
    pub count: U16,
}

const _: () = assert!(size_of::<CountLimit>() == 4);

/// `dx_tail`: the checksum at the end of an index block (`metadata_csum`).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Tail {
    /// `dt_reserved`: zero.
    pub reserved: U32,
    /// `dt_checksum`: crc32c.
    pub checksum: U32,
}

const _: () = assert!(size_of::<Tail>() == 8);

/// Returns the capacity in entries of an index block whose entries start at `entries_offset`.
pub const fn limit(block_size: usize, entries_offset: usize, has_checksum: bool) -> usize {
    let tail = if has_checksum { size_of::<Tail>() } else { 0 };
    (block_size - entries_offset - tail) / size_of::<Entry>()
}

/// Returns the offset of the [`Tail`] in an index block whose entries start at `entries_offset`: it
/// follows the entry that the limit names last. `None` if the block has no room for it.
pub fn tail_offset(block: &[u8], entries_offset: usize) -> Option<usize> {
    let (head, _) = CountLimit::ref_from_prefix(block.get(entries_offset..)?).ok()?;
    let at = entries_offset + usize::from(head.limit.get()) * size_of::<Entry>();
    (at + size_of::<Tail>() <= block.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        assert_eq!(limit(4096, ROOT_ENTRIES_OFFSET, false), 508);
        assert_eq!(limit(4096, NODE_ENTRIES_OFFSET, false), 511);
        assert_eq!(limit(4096, ROOT_ENTRIES_OFFSET, true), 507);
        assert_eq!(limit(1024, NODE_ENTRIES_OFFSET, true), 126);
    }

    #[test]
    fn a_tail_follows_the_last_possible_entry() {
        let mut block = [0; 1024];
        for (limit, at) in [(126, Some(1016)), (127, None), (100, Some(808))] {
            block[8] = limit;
            assert_eq!(tail_offset(&block, NODE_ENTRIES_OFFSET), at);
        }
        assert_eq!(tail_offset(&block[..10], NODE_ENTRIES_OFFSET), None);
    }
}
