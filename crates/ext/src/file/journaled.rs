//! Switching a file's data journaling (`chattr +j`, `-j`).
//!
//! In either direction nothing of the file may remain in the old mode. Dirty pages are written, the
//! log is committed and checkpointed until its durable tail is empty, and the buffers of the file's
//! data leave the cache, so that no old image can come back from recovery or from memory. Then the
//! flag is switched in a transaction that is made durable. All this happens under the inode lock.

use std::sync::Arc;

use jbd2::Credits;
use layout::inode_flags::InodeFlags;

use super::{ahead, delayed};
use crate::cache::file_pages::Which;
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::inode::now;
use crate::disk::kind::FileKind;
use crate::error::{Error, Result};
use crate::map::{FileMap, Visited};
use crate::writeback::pages::write_file;

/// Switches data journaling of a file on or off (`chattr +j`, `-j`): commits and checkpoints
/// everything, then sets the flag, under the inode lock.
pub(crate) fn set_journaled(core: &Core, inode: &Arc<Inode>, on: bool) -> Result<()> {
    core.check_writable()?;
    let mut state = inode.state.write();
    state.check_exists()?;
    if state.flags.contains(InodeFlags::ENCRYPT) {
        return Err(Error::NoKey);
    }
    if state.flags.contains(InodeFlags::JOURNAL_DATA) == on {
        return Ok(());
    }
    ahead::settle(inode);
    let _table = core.hold_table(inode.nr)?;
    if state.kind == FileKind::Regular
        && let Some(journal) = &core.journal
    {
        delayed::allocate(core, inode, &mut state)?;
        write_file(core, inode, Which::All).map_err(|cause| Error::DataLost {
            inode: inode.nr,
            cause,
        })?;
        if !rt::mutant!("journaled/switched-without-checkpoint") {
            journal.checkpoint_all()?;
        }
        FileMap::of(&state).walk(core, inode, &state, &mut |visited, run| {
            if matches!(visited, Visited::Data(_)) {
                for step in 0..u64::from(run.count) {
                    core.buffers.remove(run.first + step);
                }
            }
            Ok(())
        })?;
    }
    let mut handle = core.begin(Credits {
        blocks: 1,
        revokes: 0,
    })?;
    state.flags.set(InodeFlags::JOURNAL_DATA, on);
    state.ctime = now();
    state.store(core, &mut handle, inode.nr, true)?;
    core.commit(handle.finish()?)
}
