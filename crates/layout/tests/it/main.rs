//! What the structures say, against e2fsprogs: images are made with mke2fs and debugfs, and what dumpe2fs and debugfs
//! print about them has to be what the structures decode to.

#![expect(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

mod directory;
mod dirhash;
mod image;
mod inode;
mod journal;
mod offsets;
mod superblock;
