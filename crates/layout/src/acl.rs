//! POSIX access control lists, in the two forms that they have: that of attributes as programs see them, and the shorter one
//! in which ext keeps them.
//!
//! ```text
//! programs: | version 2 | tag, permissions, id | tag, permissions, id | ...
//! ext:      | version 1 | tag, permissions | ... | tag, permissions, id | ...
//! ```
//!
//! On ext only the entries of named users and groups have an id. The order is by tag, then by id: owner, users, group,
//! groups, mask, others.
//!
//! Source: Linux `include/uapi/linux/posix_acl_xattr.h`, `acl(5)`; the form of ext is told by e2fsprogs' tests.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The version of the form that programs see.
pub const VERSION_OF_PROGRAMS: u32 = 2;
/// The version of the form of ext.
pub const VERSION_OF_EXT: u32 = 1;
/// The id of an entry that names nobody.
pub const NO_ID: u32 = u32::MAX;

/// The owner.
pub const USER_OBJ: u16 = 0x01;
/// A named user.
pub const USER: u16 = 0x02;
/// The group.
pub const GROUP_OBJ: u16 = 0x04;
/// A named group.
pub const GROUP: u16 = 0x08;
/// What named users, named groups and the group may have at most.
pub const MASK: u16 = 0x10;
/// Everybody else.
pub const OTHER: u16 = 0x20;

/// What both forms begin with.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Header {
    /// [`VERSION_OF_PROGRAMS`] or [`VERSION_OF_EXT`].
    pub a_version: U32,
}

const _: () = assert!(size_of::<Header>() == 4);

/// An entry without an id: on ext, of everybody but named users and groups.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ShortEntry {
    /// For whom.
    pub e_tag: U16,
    /// Read 4, write 2, execute 1.
    pub e_perm: U16,
}

const _: () = assert!(size_of::<ShortEntry>() == 4);

/// An entry with an id.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Entry {
    /// For whom.
    pub e_tag: U16,
    /// Read 4, write 2, execute 1.
    pub e_perm: U16,
    /// The user or group; [`NO_ID`] where the tag names nobody.
    pub e_id: U32,
}

const _: () = assert!(size_of::<Entry>() == 8);
