//! What only those may set who make a volume from something else: all times, and the generation.

use jbd2::Credits;
use layout::InodeNr;
use layout::time::InodeTime;

use super::Volume;
use crate::error::Result;

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

impl Volume {
    /// Sets what an inode was elsewhere, in one step. An access control list is left as it is.
    pub fn restore(&self, nr: InodeNr, restored: &Restored) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        self.core.check_writable()?;
        let inode = self.core.inodes.get(&self.core, nr)?;
        let mut state = inode.state.write();
        let _table = self.core.hold_table(nr)?;
        let mut transaction = self.core.begin(Credits {
            blocks: 1,
            revokes: 0,
        })?;
        state.permissions = restored.permissions & layout::mode::PERMISSION_MASK;
        (state.uid, state.gid) = (restored.uid, restored.gid);
        state.mtime = restored.mtime;
        (state.atime, state.ctime) = (restored.other_times, restored.other_times);
        state.crtime = state.crtime.map(|_| restored.other_times);
        state.generation = restored.generation;
        state.store(&self.core, &mut transaction, nr, false)?;
        transaction.finish().map(drop)
    }
}
