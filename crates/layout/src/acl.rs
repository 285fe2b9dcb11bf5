//! POSIX access control lists: the xattr form that programs see, and the shorter form that ext
//! stores.
//!
//! ```text
//! programs: | version 2 | tag, permissions, id | tag, permissions, id | ...
//! ext:      | version 1 | tag, permissions | ... | tag, permissions, id | ...
//! ```
//!
//! On ext only the entries of named users and groups have an id. Entries are sorted by tag, then by
//! id: owner, users, group, groups, mask, others.
//!
//! Source: Linux `include/uapi/linux/posix_acl_xattr.h`, `acl(5)`; the ext form was determined from
//! e2fsprogs' tests.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the form that programs see.
pub const VERSION_OF_PROGRAMS: u32 = 2;
/// Version of the form that ext stores.
pub const VERSION_OF_EXT: u32 = 1;
/// Id of an entry without a user or group.
pub const NO_ID: u32 = u32::MAX;

/// Owner of the file.
pub const USER_OBJ: u16 = 0x01;
/// Named user.
pub const USER: u16 = 0x02;
/// Group of the file.
pub const GROUP_OBJ: u16 = 0x04;
/// Named group.
pub const GROUP: u16 = 0x08;
/// Upper bound on the permissions of named users, named groups and the group.
pub const MASK: u16 = 0x10;
/// All other users.
pub const OTHER: u16 = 0x20;

/// Header of both forms.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Header {
    /// `a_version`: [`VERSION_OF_PROGRAMS`] or [`VERSION_OF_EXT`].
    pub version: U32,
}

const _: () = assert!(size_of::<Header>() == 4);

/// An entry without an id: on ext, every entry except those of named users and groups.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ShortEntry {
    /// `e_tag`: the user or group that the entry applies to.
    pub tag: U16,
    /// `e_perm`: permissions: read 4, write 2, execute 1.
    pub permissions: U16,
}

const _: () = assert!(size_of::<ShortEntry>() == 4);

/// An entry with an id.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Entry {
    /// `e_tag`: the user or group that the entry applies to.
    pub tag: U16,
    /// `e_perm`: permissions: read 4, write 2, execute 1.
    pub permissions: U16,
    /// `e_id`: user or group; [`NO_ID`] if the tag takes none.
    pub id: U32,
}

const _: () = assert!(size_of::<Entry>() == 8);
