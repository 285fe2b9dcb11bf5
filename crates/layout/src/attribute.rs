//! Extended attributes: the header of an attribute block, and the entries after it.
//!
//! `i_file_acl` names a block that holds attributes; inodes with equal attributes share it, and `h_refcount` says how
//! many do. Removing an inode takes one reference away; the last one frees the block. The same entries may follow an
//! inode's extra part, headed by the magic alone.
//!
//! Source: Linux `Documentation/filesystems/ext4/attributes.rst`.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `h_magic`, of blocks and of the part within an inode.
pub const MAGIC: u32 = 0xEA02_0000;
/// The most inodes that share a block.
pub const REFCOUNT_MAX: u32 = 1024;

/// The header of an attribute block.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct BlockHeader {
    /// [`MAGIC`].
    pub h_magic: U32,
    /// Inodes that share the block.
    pub h_refcount: U32,
    /// Blocks; always 1.
    pub h_blocks: U32,
    /// Hash of all attributes.
    pub h_hash: U32,
    /// crc32c (`metadata_csum`).
    pub h_checksum: U32,
    /// Padding.
    pub h_reserved: [U32; 3],
}

const _: () = assert!(size_of::<BlockHeader>() == 32);

/// The header of the attributes within an inode.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct InodeHeader {
    /// [`MAGIC`].
    pub h_magic: U32,
}

const _: () = assert!(size_of::<InodeHeader>() == 4);

/// An attribute; its name follows, padded to 4 bytes. Four zero bytes end the list.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Entry {
    /// Bytes of the name.
    pub e_name_len: u8,
    /// Which prefix the name has.
    pub e_name_index: u8,
    /// Where the value lies: from the start of the block, or of the first entry within an inode.
    pub e_value_offs: U16,
    /// Inode of the value (`ea_inode`), or 0.
    pub e_value_inum: U32,
    /// Bytes of the value.
    pub e_value_size: U32,
    /// Hash of name and value.
    pub e_hash: U32,
}

const _: () = assert!(size_of::<Entry>() == 16);
