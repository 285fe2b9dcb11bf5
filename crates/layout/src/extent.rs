//! Extent trees (feature `extent`): a header, then entries; the root lies in `i_block`.
//!
//! The entries of a leaf (depth 0) are [`Extent`]s, those of other nodes are [`Index`]es; both take
//! 12 bytes. A length above [`LENGTH_MAX`] marks an unwritten extent, whose real length is smaller
//! by [`LENGTH_MAX`].
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

const _: () = assert!(size_of::<Header>() == 12);

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

const _: () = assert!(size_of::<Extent>() == 12);

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

const _: () = assert!(size_of::<Index>() == 12);
