//! On-disk structures of ext2/ext3 and of the JBD/JBD2 journal, units, checksums, and blocks of
//! memory aligned for direct I/O.
//!
//! This crate handles bytes and nothing else: no device, no time, no policy. Fields have plain
//! English names; the comment of each begins with the kernel's name (`s_blocks_count_lo`), and
//! `tests/it/offsets.rs` has both beside the offset. No other crate uses the kernel's names.
//! Each structure is a `#[repr(C)]` zerocopy type of one-byte alignment, so that
//! `T::ref_from_prefix(bytes)` and `T::mut_from_prefix(bytes)` work at any offset of a block. Sizes
//! and field offsets are asserted.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "in a test, to panic is to fail")
)]

pub mod acl;
pub mod attribute;
pub mod block;
pub mod checksum;
pub mod device;
pub mod directory;
pub mod encryption;
pub mod extent;
pub mod fast_commit;
pub mod feature;
pub mod group;
pub mod hash;
pub mod htree;
pub mod inode;
pub mod inode_flags;
pub mod journal;
pub mod map;
pub mod mode;
pub mod multi_mount;
pub mod orphan;
pub mod quota;
pub mod revoke;
pub mod sha256;
pub mod superblock;
pub mod tag;
pub mod time;
pub mod units;

pub use block::Block;
pub use map::Map;
pub use units::{BlockNr, FileBlock, GroupNr, InodeNr, SectorNr, Tid};
