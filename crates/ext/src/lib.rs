//! ext2, ext3 and ext4 on a block device and, if there is one, a journal.
//!
//! [`Volume`] is the entry: it opens an image (replaying its journal if needed), offers the
//! operations of a VFS on inodes and conveniences on paths, and is closed explicitly. [`mkfs`]
//! creates an image. The crate depends neither on FUSE nor on the simulation: it reaches time,
//! threads and locks through `rt` and storage through `block`.
//!
//! # Layers
//!
//! Each line imports from the lines above it.
//!
//! | module | contents |
//! |---|---|
//! | `error`, `tuning`, `options` | errors; settings of experiments; mount options |
//! | `awaited` | work that other threads wait for |
//! | `disk/` | decoded on-disk structures: superblock, geometry, inode tables |
//! | `cache/` | the state of an open volume in memory: metadata blocks, inodes |
//! | `core`, `handle`, `damage` | state shared by all operations; a handle on the journal; damage |
//! | `alloc/`, `map/`, `dir/`, `xattr/`, `orphan`, `quota` | operations on one structure each |
//! | `file/` | page cache, read, write, truncate, writeback, fsync |
//! | `namei/` | changes of the tree: create, link, unlink, rename |
//! | `volume/` | the public entry: open, close, operations by inode, operations by path |
//! | `census/`, `format/` | the use of each block of a closed volume; mkfs and tuning |
//!
//! The structures are bitmaps, block maps, directory entries, attributes, the orphan list and quota
//! files.
//!
//! # Lock order
//!
//! Locks are taken in this order: rename, inode (parent before child, then by number), journal
//! handle, table zeroing, attribute blocks, group, then the leaves folio and buffer. A leaf is held
//! for memory work only: never across I/O, the start of a handle or another lock.

pub(crate) mod alloc;
pub(crate) mod awaited;
pub(crate) mod cache;
pub mod census;
pub(crate) mod core;
pub(crate) mod dir;
mod disk;
pub mod error;
pub(crate) mod file;
mod format;
pub(crate) mod map;
pub(crate) mod namei;
pub mod options;
pub(crate) mod orphan;
pub(crate) mod quota;
pub mod tuning;
pub mod volume;
pub(crate) mod writeback;
pub(crate) mod xattr;

pub use cache::multi_mount;
pub use cache::stalls::CacheStalls;
pub use disk::{geometry, superblock};
pub use error::{Corrupt, Error, OtherUser, Result, Sealed};
pub use format::{mkfs, tune};
pub use options::MountOptions;
pub use tuning::Tuning;
pub use volume::Volume;
