//! What an open volume keeps in memory.

pub(crate) mod buffers;
pub(crate) mod inode;
pub(crate) mod inodes;
