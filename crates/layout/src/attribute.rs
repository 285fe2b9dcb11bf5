//! Extended attributes: the header of an attribute block, and the entries after it.
//!
//! `i_file_acl` names a block that holds attributes. Inodes with equal attributes share it, and
//! `h_refcount` counts them. Removing an inode drops one reference; the last one frees the block.
//! The same entries may follow an inode's extra part, after a header that is the magic alone.
//!
//! Source: Linux `Documentation/filesystems/ext4/attributes.rst`.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `h_magic`, of blocks and of the part within an inode.
pub const MAGIC: u32 = 0xEA02_0000;
/// The maximum number of inodes that share a block.
pub const REFCOUNT_MAX: u32 = 1024;

/// The header of an attribute block.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct BlockHeader {
    /// `h_magic`: [`MAGIC`].
    pub magic: U32,
    /// `h_refcount`: inodes that share the block.
    pub reference_count: U32,
    /// `h_blocks`: blocks; always 1.
    pub block_count: U32,
    /// `h_hash`: hash of all attributes.
    pub hash: U32,
    /// `h_checksum`: crc32c (`metadata_csum`).
    pub checksum: U32,
    /// `h_reserved`: padding.
    pub reserved: [U32; 3],
}

const _: () = assert!(size_of::<BlockHeader>() == 32);

/// The header of the attributes within an inode.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct InodeHeader {
    /// `h_magic`: [`MAGIC`].
    pub magic: U32,
}

const _: () = assert!(size_of::<InodeHeader>() == 4);

/// An attribute; its name follows, padded to 4 bytes. Four zero bytes end the list.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Entry {
    /// `e_name_len`: length of the name in bytes.
    pub name_length: u8,
    /// `e_name_index`: prefix of the name; see [`index`].
    pub name_index: u8,
    /// `e_value_offs`: offset of the value from the start of the block, or from the first entry
    /// within an inode.
    pub value_offset: U16,
    /// `e_value_inum`: inode of the value (`ea_inode`), or 0.
    pub value_inode: U32,
    /// `e_value_size`: size of the value in bytes.
    pub value_size: U32,
    /// `e_hash`: hash of name and value.
    pub hash: U32,
}

const _: () = assert!(size_of::<Entry>() == 16);

/// Alignment of entries, names and values in bytes.
pub const ALIGNMENT: usize = 4;
/// Offset of the first entry of a block in bytes.
pub const BLOCK_HEADER_SIZE: usize = size_of::<BlockHeader>();
/// Offset of the first entry within an inode in bytes.
pub const INODE_HEADER_SIZE: usize = size_of::<InodeHeader>();

/// Values of `e_name_index`: the prefix that is not stored with the name.
///
/// | index | prefix | what follows |
/// |---|---|---|
/// | 1 | `user.` | a name |
/// | 2 | `system.posix_acl_access` | nothing |
/// | 3 | `system.posix_acl_default` | nothing |
/// | 4 | `trusted.` | a name |
/// | 6 | `security.` | a name |
/// | 7 | `system.` | a name; no kernel shows these to users |
pub mod index {
    /// `user.`
    pub const USER: u8 = 1;
    /// `system.posix_acl_access`
    pub const POSIX_ACL_ACCESS: u8 = 2;
    /// `system.posix_acl_default`
    pub const POSIX_ACL_DEFAULT: u8 = 3;
    /// `trusted.`
    pub const TRUSTED: u8 = 4;
    /// `security.`
    pub const SECURITY: u8 = 6;
    /// `system.`
    pub const SYSTEM: u8 = 7;
}

/// Returns `e_hash` of an entry. It covers the name, bytes as unsigned, then the value in words,
/// the last one padded with zeroes.
pub fn entry_hash(name: &[u8], value: &[u8]) -> u32 {
    let of_name = name
        .iter()
        .fold(0, |hash: u32, byte| hash.rotate_left(5) ^ u32::from(*byte));
    value.chunks(ALIGNMENT).fold(of_name, |hash, bytes| {
        let mut word = [0; ALIGNMENT];
        word[..bytes.len()].copy_from_slice(bytes);
        hash.rotate_left(16) ^ u32::from_le_bytes(word)
    })
}

/// Returns `h_hash` of a block, computed over its entries' hashes in order. If one of them is 0 the
/// result is 0: the block is not shared.
pub fn block_hash(entries: impl IntoIterator<Item = u32>) -> u32 {
    let mut hash: u32 = 0;
    for entry in entries {
        if entry == 0 {
            return 0;
        }
        hash = hash.rotate_left(16) ^ entry;
    }
    hash
}
