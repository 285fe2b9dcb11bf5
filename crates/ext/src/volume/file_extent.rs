//! Extents of a file, as [`Volume::blocks_of`](super::Volume::blocks_of) returns them.

use layout::{BlockNr, FileBlock};

/// Consecutive blocks of the device that belong to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileExtent {
    /// The block of the file that the first block holds; none for blocks of the block map.
    pub file_block: Option<FileBlock>,
    /// The first block on the device.
    pub first: BlockNr,
    /// Number of blocks.
    pub count: u32,
    /// True if the blocks are allocated, and read as zeroes whatever the device has there.
    pub is_unwritten: bool,
}

impl FileExtent {
    /// Returns the blocks on the device.
    pub fn blocks(self) -> impl Iterator<Item = u64> {
        let first = self.first.get();
        first..first + u64::from(self.count)
    }
}
