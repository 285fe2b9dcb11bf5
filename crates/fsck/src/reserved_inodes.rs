//! Numbers of the reserved inodes that a check uses.

/// Inode of bad blocks.
pub(crate) const BAD_BLOCKS: u32 = 1;
/// Root directory.
pub(crate) const ROOT: u32 = 2;
/// Inode that holds the reserved GDT blocks.
pub(crate) const RESIZE: u32 = 7;
/// Inode of an internal journal.
pub(crate) const JOURNAL: u32 = 8;
