//! A visit of a block on a walk over the map of a file, and what a map contains.

use crate::reserved_inodes::{BAD_BLOCKS, RESIZE};
use crate::state::State;

/// Maximum size of a directory in bytes without `large_dir`.
const DIRECTORY_BYTES_MAX: u64 = 1 << 31;

/// Returns the first block that a directory cannot have.
pub(crate) fn directory_end(state: &State<'_>) -> u64 {
    match state.has_large_directories() {
        true => 1 << 32,
        false => DIRECTORY_BYTES_MAX / state.geometry.block_bytes as u64,
    }
}

/// A visited block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visit {
    /// Block number on the device.
    pub(crate) block: u64,
    /// First file block that it holds or maps.
    pub(crate) file_block: u64,
    /// 0 for data, else the number of levels of pointers from here.
    pub(crate) level: u8,
}

/// The next step of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The blocks below this one, if there are any.
    Below,
    /// The block after this one.
    Skip,
    /// No further block.
    Stop,
}

/// The contents of a file's block map.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mapped {
    /// Number of clusters: those of data, and one for each block of the map. Without bad blocks.
    pub(crate) clusters: u64,
    /// The last mapped cluster of the file, and that of the device.
    pub(crate) last_cluster: Option<(u64, u64)>,
    /// Last mapped file block.
    pub(crate) last: Option<u64>,
    /// Last mapped file block that is not unwritten.
    pub(crate) last_written: Option<u64>,
    /// Number of invalid block numbers.
    pub(crate) bad: u32,
}

/// True unless an inode lists the block without owning it. Blocks listed by the resize inode are
/// metadata already, and bad blocks of an inode table stay part of it.
pub(crate) fn is_claimed(state: &State<'_>, inode: u32, visit: Visit) -> bool {
    match inode {
        RESIZE => visit.level == 2,
        BAD_BLOCKS => visit.level > 0 || !state.is_in_inode_table(visit.block),
        _ => true,
    }
}
