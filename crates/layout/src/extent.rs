//! Extent trees (feature `extent`): a header, then entries; the root lies in `i_block`.
//!
//! ```text
//! root (in i_block)   header, up to 4 entries
//! node (a block)      header, as many entries as fit, and with `metadata_csum` a Tail after
//!                     the entry that the capacity names last
//! ```
//! The entries of a leaf (depth 0) are [`Extent`]s, those of other nodes are [`Index`]es; both take
//! 12 bytes. A length above [`LENGTH_MAX`] marks an unwritten extent, whose real length is smaller
//! by [`LENGTH_MAX`]: its blocks are allocated and read as zeroes.
//!
//! Entries ascend by file block and do not overlap. The first entry of a node starts at the file
//! block of the index entry that leads to it.
//!
//! Source: Linux `Documentation/filesystems/ext4/ifork.rst`.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `eh_magic`.
pub const MAGIC: u16 = 0xF30A;
/// Maximum depth of a tree.
pub const DEPTH_MAX: u16 = 5;
/// Maximum number of blocks of an initialized extent.
pub const LENGTH_MAX: u16 = 32768;
/// Size of an entry in bytes, the header included.
pub const ENTRY_SIZE: usize = 12;
/// Number of entries that fit the root.
pub const ROOT_ENTRIES_MAX: u16 = capacity(crate::inode::MAP_WORDS * 4);

/// The header of a node.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Header {
    /// `eh_magic`: [`MAGIC`].
    pub magic: U16,
    /// `eh_entries`: number of entries.
    pub entry_count: U16,
    /// `eh_max`: capacity in entries.
    pub entry_max: U16,
    /// `eh_depth`: levels below this node.
    pub depth: U16,
    /// `eh_generation`: generation (not used).
    pub generation: U32,
}

const _: () = assert!(size_of::<Header>() == ENTRY_SIZE);

impl Header {
    /// Returns the offset of the [`Tail`] in the node's block, which depends on the capacity.
    pub fn tail_offset(&self) -> usize {
        ENTRY_SIZE * (1 + usize::from(self.entry_max.get()))
    }
}

/// An extent: adjacent blocks of a file on adjacent blocks of the device.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Extent {
    /// `ee_block`: first block within the file.
    pub file_block: U32,
    /// `ee_len`: number of blocks; above [`LENGTH_MAX`] the extent is unwritten.
    pub length: U16,
    /// `ee_start_hi`: first block on the device, upper half.
    pub start_high: U16,
    /// `ee_start_lo`: first block on the device, lower half.
    pub start_low: U32,
}

const _: () = assert!(size_of::<Extent>() == ENTRY_SIZE);

impl Extent {
    /// Creates an extent of `count` blocks from block `start` of the device on.
    ///
    /// # Panics
    /// Panics if it is empty or longer than an extent of its kind can be.
    pub fn new(file_block: u32, count: u32, start: u64, is_unwritten: bool) -> Self {
        let count_max = count_max(is_unwritten);
        assert!(
            (1..=count_max).contains(&count),
            "an extent of {count} blocks"
        );
        let mark = if is_unwritten { LENGTH_MAX } else { 0 };
        Self {
            file_block: U32::new(file_block),
            length: U16::new(count as u16 + mark),
            start_high: U16::new((start >> 32) as u16),
            start_low: U32::new(start as u32),
        }
    }

    /// Returns the first block on the device.
    pub fn start(&self) -> u64 {
        join(self.start_low, self.start_high)
    }

    /// True if the blocks are allocated and read as zeroes.
    pub fn is_unwritten(&self) -> bool {
        self.length.get() > LENGTH_MAX
    }

    /// Returns the number of blocks.
    pub fn block_count(&self) -> u16 {
        if self.is_unwritten() {
            self.length.get() - LENGTH_MAX
        } else {
            self.length.get()
        }
    }
}

/// An index entry: a node one level below.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Index {
    /// `ei_block`: first block within the file that the node covers.
    pub file_block: U32,
    /// `ei_leaf_lo`: block of the node, lower half.
    pub leaf_low: U32,
    /// `ei_leaf_hi`: block of the node, upper half.
    pub leaf_high: U16,
    /// `ei_unused`: padding.
    pub unused: U16,
}

const _: () = assert!(size_of::<Index>() == ENTRY_SIZE);

impl Index {
    /// Creates the entry of the node in a block, which covers the file from `file_block` on.
    pub fn new(file_block: u32, node: u64) -> Self {
        Self {
            file_block: U32::new(file_block),
            leaf_low: U32::new(node as u32),
            leaf_high: U16::new((node >> 32) as u16),
            unused: U16::ZERO,
        }
    }

    /// Returns the block of the node.
    pub fn node(&self) -> u64 {
        join(self.leaf_low, self.leaf_high)
    }
}

/// `ext4_extent_tail`: the checksum after the last possible entry of a node (`metadata_csum`). The
/// root has none; the inode's checksum covers it.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Tail {
    /// `et_checksum`: crc32c.
    pub checksum: U32,
}

const _: () = assert!(size_of::<Tail>() == 4);

/// Returns the number of entries that fit a node of a size in bytes. A block of a power of two
/// always leaves room for a [`Tail`].
pub const fn capacity(node_bytes: usize) -> u16 {
    (node_bytes / ENTRY_SIZE - 1) as u16
}

/// Returns the largest number of blocks of an extent.
pub const fn count_max(is_unwritten: bool) -> u32 {
    LENGTH_MAX as u32 - is_unwritten as u32
}

fn join(low: U32, high: U16) -> u64 {
    u64::from(low.get()) | (u64::from(high.get()) << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_room_for_a_tail() {
        assert_eq!(ROOT_ENTRIES_MAX, 4);
        for log in 10..=16 {
            let bytes = 1 << log;
            let header = Header {
                entry_max: U16::new(capacity(bytes)),
                ..Header::default()
            };
            let end = header.tail_offset() + size_of::<Tail>();
            assert!(end <= bytes && bytes - end < ENTRY_SIZE, "{bytes}");
        }
        assert_eq!((capacity(1024), capacity(4096)), (84, 340));
    }

    #[test]
    fn lengths_say_whether_blocks_are_written() {
        let extent = |length| Extent {
            length: U16::new(length),
            start_high: U16::new(2),
            start_low: U32::new(3),
            ..Extent::default()
        };
        for (length, count, is_unwritten) in [
            (1, 1, false),
            (32768, 32768, false),
            (32769, 1, true),
            (65535, 32767, true),
        ] {
            let extent = extent(length);
            assert_eq!(extent.block_count(), count);
            assert_eq!(extent.is_unwritten(), is_unwritten);
            assert_eq!(extent.start(), 0x2_0000_0003);
        }
        let index = Index {
            leaf_low: U32::new(5),
            leaf_high: U16::new(0xFFFF),
            ..Index::default()
        };
        assert_eq!(index.node(), 0xFFFF_0000_0005);
    }

    #[test]
    fn entries_are_read_as_they_were_made() {
        for (count, is_unwritten) in [(1, false), (32768, false), (1, true), (32767, true)] {
            for start in [7, 0xFFFF_FFFF, 0x1_0000_0000, 0xFEDC_BA98_7654] {
                let extent = Extent::new(u32::MAX - 1, count, start, is_unwritten);
                assert_eq!(u32::from(extent.block_count()), count);
                assert_eq!(extent.is_unwritten(), is_unwritten);
                assert_eq!(extent.start(), start);
                assert_eq!(Index::new(9, start).node(), start);
            }
        }
    }

    #[test]
    #[should_panic(expected = "32768 blocks")]
    fn an_unwritten_extent_has_a_block_less() {
        Extent::new(0, 32768, 1, true);
    }
}
