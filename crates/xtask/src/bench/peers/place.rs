//! The places of file systems, and their form.

use crate::compared_type::ComparedType;

/// The place of the images of kernel file systems, and the form of new file systems.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// Memory.
    Memory(MemoryForm),
    /// A file on disk.
    Disk,
    /// No file system is mounted.
    None,
}

/// The form of file systems in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct MemoryForm {
    /// The type of jext's file systems.
    pub(super) file_system: ComparedType,
    pub(super) size_bytes: u64,
    /// Bytes for each inode; `None` for the default.
    pub(super) bytes_per_inode: Option<u32>,
    /// Mount options of jext and of the kernel's ext3 and ext4.
    pub(super) options: &'static str,
}
