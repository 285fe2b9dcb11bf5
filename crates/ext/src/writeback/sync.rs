//! fsync and its family.
//!
//! | object | action |
//! |---|---|
//! | data | dirty pages are written and waited for; few new ones are left to the commit |
//! | metadata, with a journal | the inode's last transaction becomes durable; see below |
//! | the same, with fast commits | the changes of that transaction so far |
//! | metadata, without one | all dirty metadata of the volume is written |
//! | the device's cache | flushed, unless a flush since the file's last write has completed |
//!
//! For fdatasync, the last transaction is that with metadata needed to read the data back. A flush
//! covers the last write if it was submitted after the write completed.

use std::sync::Arc;

use layout::Tid;
use layout::inode_flags::InodeFlags;
use rt::atomic::Ordering;

use super::flush::flush;
use super::pages::{write_everything, write_file};
use crate::cache::fast_changes::FastChanges;
use crate::cache::file_pages::Which;
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::error::{Error, Result};

/// Largest number of pages that are left to the commit: others wait for it, too.
const COMMITTED_PAGES_MAX: u64 = 16;

/// Makes a file (or directory) durable. `data_only` is fdatasync.
///
/// If the commit has to write all dirty pages, as those of a small new file, it does so: beside the
/// log, and together with the pages of other callers. What it could not write is written here.
///
/// # Errors
/// - [`Error::DataLost`] if its data cannot be written: it stays dirty, and the next attempt writes
///   it again.
pub(crate) fn sync(core: &Core, inode: &Arc<Inode>, data_only: bool) -> Result<()> {
    core.pages.flushes.check()?;
    let committed = commit_with_data(core, inode, data_only);
    let written = if rt::mutant!("fsync/data-not-written") {
        Ok(())
    } else {
        write_file(core, inode, Which::All)
    };
    written.map_err(|cause| Error::DataLost {
        inode: inode.nr,
        cause,
    })?;
    committed?;
    commit_inode(core, inode, needed_by(inode, data_only), data_only)?;
    flush_file(core, inode)
}

/// Commits the inode if that writes all of its dirty pages, and they are few.
fn commit_with_data(core: &Core, inode: &Arc<Inode>, data_only: bool) -> Result<()> {
    let tid = needed_by(inode, data_only);
    let is_written = |tid: &Tid| inode.pages.lock().waits_for(*tid, COMMITTED_PAGES_MAX);
    if core.tuning.commits_write_beside && tid.as_ref().is_some_and(is_written) {
        commit_inode(core, inode, tid, data_only)?;
    }
    Ok(())
}

/// Returns the last transaction that fsync or fdatasync waits for.
fn needed_by(inode: &Inode, data_only: bool) -> Option<Tid> {
    let state = inode.state.read();
    if data_only && rt::mutant!("fdatasync/size-not-committed") {
        None
    } else if data_only {
        state.data_tid
    } else {
        state.last_tid
    }
}

fn commit_inode(core: &Core, inode: &Arc<Inode>, tid: Option<Tid>, data_only: bool) -> Result<()> {
    make_durable(core, tid, |tid, changes| {
        changes.has_changes(tid, inode.nr, data_only)
    })
}

/// Makes a transaction durable, or with fast commits its changes so far; without a journal, all
/// metadata. `has_changes` returns false if a fast commit has been started with all that the caller
/// needs.
fn make_durable(
    core: &Core,
    tid: Option<Tid>,
    has_changes: impl FnOnce(Tid, &FastChanges) -> bool,
) -> Result<()> {
    if rt::mutant!("fsync/transaction-not-committed") {
        return Ok(());
    }
    let Some(journal) = &core.journal else {
        return write_metadata(core);
    };
    match tid {
        Some(tid) if !journal.is_durable(tid) => match &core.fast_changes {
            Some(changes) => Ok(journal.commit_fast(tid, has_changes(tid, changes))?),
            None => Ok(journal.commit(tid)?),
        },
        _ => match journal.error() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        },
    }
}

/// Writes all metadata, without a journal. A volume that has become read-only since it was opened
/// still has to write its earlier changes.
///
/// # Errors
/// - [`Error::ReadOnly`] after an abort: the state in memory may be half of a change.
fn write_metadata(core: &Core) -> Result<()> {
    if core.is_aborted.load(Ordering::Acquire) {
        return Err(Error::ReadOnly);
    }
    let is_dropped = rt::mutant!("sync/nothing-written-after-damage");
    if is_dropped && core.is_read_only.load(Ordering::Acquire) {
        return Ok(());
    }
    core.buffers.write_everything()
}

/// Flushes the device if data of the file may still be in its cache.
fn flush_file(core: &Core, inode: &Arc<Inode>) -> Result<()> {
    if rt::mutant!("fsync/device-not-flushed") {
        return Ok(());
    }
    if core.journal.is_some() && inode.pages.lock().is_flushed(&core.pages.flushes) {
        return Ok(());
    }
    flush(core)
}

/// Makes the whole volume durable.
pub(crate) fn sync_all(core: &Core) -> Result<()> {
    if core.is_opened_read_only && core.journal.is_none() {
        return Ok(());
    }
    core.pages.flushes.check()?;
    let written = write_everything(core);
    if let Some(journal) = &core.journal {
        if let Some(error) = journal.error() {
            return Err(error.into());
        }
        core.store_counts()?;
        if !rt::mutant!("sync/running-transaction-left-out") {
            journal.commit_running()?;
        }
        if core.pages.flushes.is_owed() {
            flush(core)?;
        }
    } else {
        // The counts in the superblock are corrected at the next open.
        if !core.is_aborted.load(Ordering::Acquire) {
            core.store_counts()?;
        }
        // What could be written is durable, whatever became of the rest.
        let metadata = write_metadata(core);
        flush(core)?;
        metadata?;
    }
    Ok(written?)
}

/// Waits until `tid` is durable, after a change of a directory or inode, if the volume or the inode
/// is `sync` or `dirsync`.
pub(crate) fn sync_operation(core: &Core, state: &InodeState, tid: Option<Tid>) -> Result<()> {
    sync_if_asked(core, &[state], tid)
}

/// Does the same after a change of two directories, which may be one: either may ask for it.
pub(crate) fn sync_directories(
    core: &Core,
    states: [&InodeState; 2],
    tid: Option<Tid>,
) -> Result<()> {
    let from = usize::from(rt::mutant!("sync/first-directory-ignored"));
    sync_if_asked(core, &states[from..], tid)
}

fn sync_if_asked(core: &Core, states: &[&InodeState], tid: Option<Tid>) -> Result<()> {
    let options = &core.options;
    let asks = |state: &&InodeState| {
        let is_synchronous = options.sync || state.flags.contains(InodeFlags::SYNC);
        let is_directory = state.kind == FileKind::Directory;
        let is_dirsync = options.directory_sync || state.flags.contains(InodeFlags::DIRSYNC);
        is_synchronous || is_directory && is_dirsync
    };
    if rt::mutant!("sync/mount-option-ignored") || !states.iter().any(asks) {
        return Ok(());
    }
    make_durable(core, tid, |_, _| true)?;
    if core.journal.is_none() {
        flush(core)?;
    }
    Ok(())
}
