//! ext2 and ext3 on a block device and, where there is one, a journal.
//!
//! [`Volume`] is the entry: it opens an image (replaying its journal if needed), offers the operations of a VFS on
//! inodes and conveniences on paths, and is closed explicitly. [`mkfs`] makes an image. The crate knows neither FUSE nor
//! simulation: it reaches time, threads and locks through `rt` and storage through `block`.
//!
//! # Map
//!
//! | module | what it is |
//! |---|---|
//! | `volume` (+ `volume/`) | the public entry: open, close, operations by inode, operations by path |
//! | `names` (+ `names/`) | what changes the tree: create, link, unlink, rename |
//! | `directory` (+ `directory/`) | entries in blocks: linear and htree |
//! | `inode`, `inodes` | an inode in memory, and the cache of them |
//! | `attribute` (+ `attribute/`) | extended attributes and access control lists |
//! | `mapping` (+ `mapping/`) | from a block of a file to a block of the device: indirect trees |
//! | `file` (+ `file/`) | page cache, read, write, truncate, write-back, fsync |
//! | `orphan` | the on-disk list of inodes whose deletion or truncation is not finished |
//! | `space` (+ `space/`) | bitmaps, groups, allocation of blocks and inodes |
//! | `buffers` | the cache of metadata blocks |
//! | `damage` | damage that is met: noted in the superblock, and acted upon |
//! | `awaited` | work that others wait for, and a panic in it |
//! | `transaction` | a handle on the journal, or on nothing where there is none |
//! | `superblock`, `geometry` | the validated superblock and what follows from it |
//! | `mkfs` (+ `mkfs/`) | making an image |
//! | `tune` (+ `tune/`) | changing what a closed volume says of itself, its journal among that |
//! | `census` (+ `census/`), `tables` | what each block of a volume is; all inodes of one that is not open |
//! | `core` | what all of these share |
//!
//! # Lock order
//!
//! rename, inode (parent before child, then by number), journal handle, attribute blocks, group, then leaves: folio, buffer. A leaf is
//! held for memory work only: never across I/O, a handle's start or another lock.

pub(crate) mod attribute;
pub(crate) mod awaited;
pub(crate) mod buffers;
pub mod census;
pub(crate) mod core;
pub(crate) mod damage;
pub(crate) mod directory;
pub mod error;
pub(crate) mod file;
pub mod geometry;
pub(crate) mod inode;
pub(crate) mod inodes;
pub(crate) mod mapping;
pub mod mkfs;
pub(crate) mod names;
pub mod options;
pub(crate) mod orphan;
pub(crate) mod space;
pub mod superblock;
pub(crate) mod tables;
pub(crate) mod transaction;
pub mod tune;
pub mod volume;

pub use error::{Corrupt, Error, Result};
pub use file::CacheStalls;
pub use options::MountOptions;
pub use volume::Volume;
