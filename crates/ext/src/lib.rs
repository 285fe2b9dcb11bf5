//! ext2 and ext3 on a block device and, where there is one, a journal.
//!
//! [`Volume`] is the entry: it opens an image (replaying its journal if needed), offers the operations of a VFS on
//! inodes and conveniences on paths, and is closed explicitly. [`mkfs`] makes an image. The crate knows neither FUSE nor
//! simulation: it reaches time, threads and locks through `rt` and storage through `block`.
//!
//! # Layers
//!
//! Each line imports from the lines above it.
//!
//! | module | what it is |
//! |---|---|
//! | `error`, `options`, `awaited` | errors; how a volume is mounted; work that others wait for, and a panic in it |
//! | `disk/` | what lies on a device, decoded: superblock, geometry, inode tables |
//! | `cache/` | what an open volume keeps in memory: metadata blocks, inodes |
//! | `core`, `handle`, `damage` | what all operations share; a handle on the journal; damage that is met |
//! | `alloc/`, `map/`, `dir/`, `xattr/`, `orphan` | operations on one structure: bitmaps, block maps, entries, attributes, the orphan list |
//! | `file/` | page cache, read, write, truncate, write-back, fsync |
//! | `namei/` | what changes the tree: create, link, unlink, rename |
//! | `volume/` | the public entry: open, close, operations by inode, operations by path |
//! | `census/`, `format/` | what each block of a closed volume is; making an image, and tuning one |
//!
//! # Lock order
//!
//! rename, inode (parent before child, then by number), journal handle, attribute blocks, group, then leaves: folio, buffer. A leaf is
//! held for memory work only: never across I/O, a handle's start or another lock.

#![warn(clippy::missing_errors_doc)]

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
pub mod volume;
pub(crate) mod writeback;
pub(crate) mod xattr;

pub use cache::stalls::CacheStalls;
pub use disk::{geometry, superblock};
pub use error::{Corrupt, Error, Result};
pub use format::{mkfs, tune};
pub use options::MountOptions;
pub use volume::Volume;
