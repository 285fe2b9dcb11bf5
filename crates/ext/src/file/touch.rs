//! The times of a file whose contents have changed without a change of its block map.

use jbd2::Credits;

use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::inode::{InodeState, now};
use crate::error::Result;

/// Notes a change of contents, in one transaction. What is needed to read the file stays as it is.
pub(super) fn touch(core: &Core, inode: &Inode, state: &mut InodeState) -> Result<()> {
    let _table = core.hold_table(inode.nr)?;
    let mut handle = core.begin(Credits {
        blocks: 1,
        revokes: 0,
    })?;
    handle.describe();
    state.mtime = now();
    state.ctime = state.mtime;
    state.store(core, &mut handle, inode.nr, false)?;
    handle.finish().map(drop)
}
