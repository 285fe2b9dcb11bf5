//! The fields of an inode that comes from elsewhere, for a volume that is being made.

use layout::time::InodeTime;

use crate::disk::inode::InodeState;

/// What an inode was elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Permission bits, with set-id and sticky.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last change of contents.
    pub mtime: InodeTime,
    /// Last access, last change of the inode, and birth.
    pub other_times: InodeTime,
    /// Generation.
    pub generation: u32,
}

impl InodeState {
    /// Becomes what it was elsewhere.
    pub(crate) fn restore(&mut self, restored: &Restored) {
        self.permissions = restored.permissions & layout::mode::PERMISSION_MASK;
        (self.uid, self.gid) = (restored.uid, restored.gid);
        self.mtime = restored.mtime;
        (self.atime, self.ctime) = (restored.other_times, restored.other_times);
        self.crtime = self.crtime.map(|_| restored.other_times);
        self.generation = restored.generation;
    }
}
