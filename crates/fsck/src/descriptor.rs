//! A group descriptor, decoded.

/// The locations in a group descriptor. An invalid location is 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    pub(crate) block_bitmap: u64,
    pub(crate) inode_bitmap: u64,
    pub(crate) inode_table: u64,
    pub(crate) free_blocks: u32,
    pub(crate) free_inodes: u32,
    pub(crate) directories: u32,
}
