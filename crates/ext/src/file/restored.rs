//! The fields of an inode copied from elsewhere, for a volume that is being created.

use layout::time::InodeTime;

use crate::disk::inode::InodeState;

/// The fields of the original inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Permission bits, with set-id and sticky.
    pub permissions: u16,
    /// Owning user.
    pub uid: u32,
    /// Owning group.
    pub gid: u32,
    /// Time of the last change of contents.
    pub mtime: InodeTime,
    /// Time of last access, of the last change of the inode, and of birth.
    pub other_times: InodeTime,
}

impl InodeState {
    /// Sets the fields to those of the original.
    pub(crate) fn restore(&mut self, restored: &Restored) {
        self.permissions = restored.permissions & layout::mode::PERMISSION_MASK;
        (self.uid, self.gid) = (restored.uid, restored.gid);
        self.mtime = restored.mtime;
        (self.atime, self.ctime) = (restored.other_times, restored.other_times);
        self.crtime = self.crtime.map(|_| restored.other_times);
    }
}
