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
    /// [`MAGIC`].
    pub eh_magic: U16,
    /// Number of entries.
    pub eh_entries: U16,
    /// Capacity in entries.
    pub eh_max: U16,
    /// Levels below this node.
    pub eh_depth: U16,
    /// Generation (not used).
    pub eh_generation: U32,
}

const _: () = assert!(size_of::<Header>() == 12);

/// An extent: adjacent blocks of a file on adjacent blocks of the device.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Extent {
    /// First block within the file.
    pub ee_block: U32,
    /// Number of blocks; above [`LENGTH_MAX`] the extent is unwritten.
    pub ee_len: U16,
    /// First block on the device, upper half.
    pub ee_start_hi: U16,
    /// First block on the device, lower half.
    pub ee_start_lo: U32,
}

const _: () = assert!(size_of::<Extent>() == 12);

/// A node one level below.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Index {
    /// First block within the file that the node covers.
    pub ei_block: U32,
    /// Block of the node, lower half.
    pub ei_leaf_lo: U32,
    /// Block of the node, upper half.
    pub ei_leaf_hi: U16,
    /// Padding.
    pub ei_unused: U16,
}

const _: () = assert!(size_of::<Index>() == 12);
