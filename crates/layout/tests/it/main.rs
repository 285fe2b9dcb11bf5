//! The structures against e2fsprogs: images are created with mke2fs and debugfs, and the structures
//! must decode to what dumpe2fs and debugfs print.

#![expect(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

mod checksums;
mod directory;
mod dirhash;
mod features;
mod format_document;
mod image;
mod inode;
mod journal;
mod offsets;
mod superblock;
