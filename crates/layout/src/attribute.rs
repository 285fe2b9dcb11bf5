//! Extended attributes: the header of an attribute block, and the entries after it.
//!
//! `i_file_acl` names a block that holds attributes. Inodes with equal attributes share it, and
//! `h_refcount` counts them. Removing an inode drops one reference; the last one frees the block.
//! The same entries may follow an inode's extra part, after a header that is the magic alone.
//!
//! On a volume with `ea_inode` a value may lie in the blocks of an inode of its own
//! ([`ValueInode`]), which `e_value_inum` names; `e_value_offs` is 0 then.
//!
//! Source: Linux `Documentation/filesystems/ext4/attributes.rst`.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::inode::Inode;

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
    /// The context of an encrypted inode, which programs do not see.
    pub const ENCRYPTION: u8 = 9;
}

/// The largest value in bytes that programs can set.
pub const VALUE_SIZE_MAX: usize = 65536;
/// The largest value in bytes that an inode of its own may hold on disk.
pub const VALUE_INODE_SIZE_MAX: u32 = 1 << 24;

/// The fields of an inode that holds a value (`ea_inode`). It has the flag
/// [`ATTRIBUTE_INODE`](crate::inode_flags::InodeFlags::ATTRIBUTE_INODE), the mode of a regular
/// file, one link and no name; its size is that of the value.
///
/// | field | contents |
/// |---|---|
/// | `i_atime` | hash of the value, [`value_hash`] |
/// | `i_ctime`, `l_i_version` | upper and lower half of the number of entries that name it |
/// | `i_mtime`, `i_generation` | of an inode by Lustre: number and generation of the only owner |
///
/// An entry in an attribute block counts once, however many inodes share the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueInode {
    /// Hash of the value.
    pub hash: u32,
    /// Number of entries that name the inode.
    pub references: u64,
    /// Number of the owner, if Lustre wrote the inode; otherwise a time.
    pub owner: u32,
    /// Generation of the owner, if Lustre wrote the inode; otherwise the inode's own.
    pub owner_generation: u32,
}

impl ValueInode {
    /// Returns the fields of an inode.
    pub fn of(inode: &Inode) -> Self {
        let (high, low) = (inode.change_time.get(), inode.version_low.get());
        Self {
            hash: inode.access_time.get(),
            references: u64::from(high) << 32 | u64::from(low),
            owner: inode.modification_time.get(),
            owner_generation: inode.generation.get(),
        }
    }

    /// Stores hash and references in an inode.
    pub fn store(&self, inode: &mut Inode) {
        inode.access_time.set(self.hash);
        inode.change_time.set((self.references >> 32) as u32);
        inode.version_low.set(self.references as u32);
    }

    /// Returns true if an entry with this hash names the inode by its value: the hash covers the
    /// name, with bytes as unsigned or as signed, and the hash of the value.
    pub fn has_entry(&self, name: &[u8], entry_hash: u32) -> bool {
        [
            entry_hash_of_inode(name, self.hash),
            entry_hash_of_inode_signed(name, self.hash),
        ]
        .contains(&entry_hash)
    }

    /// Returns true if the inode was written by Lustre for this owner.
    pub fn is_owned_by(&self, number: u32, generation: u32) -> bool {
        (self.owner, self.owner_generation) == (number, generation)
    }
}

/// Returns the hash of a value in an inode of its own: crc32c with the volume's checksum seed.
pub fn value_hash(seed: u32, value: &[u8]) -> u32 {
    crate::checksum::crc32c(seed, value)
}

/// Returns `e_hash` of an entry whose value lies in an inode of its own: the value's hash stands
/// for the value.
pub fn entry_hash_of_inode(name: &[u8], value_hash: u32) -> u32 {
    hash_of_name(name).rotate_left(16) ^ value_hash
}

/// Returns the same as [`entry_hash_of_inode`] with the bytes of the name as signed, as some
/// machines wrote it.
pub fn entry_hash_of_inode_signed(name: &[u8], value_hash: u32) -> u32 {
    let of_name = name.iter().fold(0, |hash: u32, byte| {
        hash.rotate_left(5) ^ (*byte as i8) as u32
    });
    of_name.rotate_left(16) ^ value_hash
}

fn hash_of_name(name: &[u8]) -> u32 {
    name.iter()
        .fold(0, |hash: u32, byte| hash.rotate_left(5) ^ u32::from(*byte))
}

/// Returns `e_hash` of an entry. It covers the name, bytes as unsigned, then the value in words,
/// the last one padded with zeroes.
pub fn entry_hash(name: &[u8], value: &[u8]) -> u32 {
    let of_name = hash_of_name(name);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 6.18 has written this entry and this inode.
    #[test]
    fn hashes_and_references_are_those_of_linux() {
        let inode = Inode {
            access_time: U32::new(0xE357_6947),
            version_low: U32::new(2),
            modification_time: U32::new(0x6B07_D020),
            generation: U32::new(0xF7EF_7F68),
            ..Inode::default()
        };
        let value = ValueInode::of(&inode);
        assert_eq!(value.references, 2);
        assert_eq!(entry_hash_of_inode(b"big", value.hash), 0x6610_6946);
        assert_eq!(entry_hash_of_inode(b"big2", value.hash), 0x4B85_6977);
        assert!(value.has_entry(b"big", 0x6610_6946));
        assert!(!value.has_entry(b"bag", 0x6610_6946));
        assert!(!value.is_owned_by(12, 0xF7EF_7F68));
        assert!(value.is_owned_by(0x6B07_D020, 0xF7EF_7F68));
    }

    #[test]
    fn references_have_two_halves() {
        let mut inode = Inode::default();
        let value = ValueInode {
            references: 5 << 32 | 7,
            ..ValueInode::of(&inode)
        };
        value.store(&mut inode);
        assert_eq!((inode.change_time.get(), inode.version_low.get()), (5, 7));
        assert_eq!(ValueInode::of(&inode), value);
    }

    #[test]
    fn names_may_count_as_signed() {
        let name = [b'n', 0xC3, 0xA9];
        let [unsigned, signed] = [
            entry_hash_of_inode(&name, 9),
            entry_hash_of_inode_signed(&name, 9),
        ];
        assert_ne!(unsigned, signed);
        let value = ValueInode {
            hash: 9,
            references: 1,
            owner: 0,
            owner_generation: 0,
        };
        assert!(value.has_entry(&name, unsigned) && value.has_entry(&name, signed));
    }
}
