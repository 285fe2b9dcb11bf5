//! The orphan list: inodes whose deletion or truncation is not complete, chained on disk from the
//! superblock through `i_dtime`. A crash leaves them there, and the next open completes the
//! operations.
//!
//! ```text
//! s_last_orphan -> newest inode -> ... -> oldest inode -> 0
//! ```
//!
//! While an inode is on the list, only this module writes its `i_dtime` in the table.

use std::collections::BTreeSet;
use std::sync::Arc;

use jbd2::{Buffer, Credits};
use layout::InodeNr;
use layout::inode::Inode as Base;
use zerocopy::FromBytes;

use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::error::{Corrupt, Result};

/// Number of journal blocks that adding or removing may dirty: superblock, inode, predecessor's
/// inode.
pub(crate) const CREDITS_ORPHAN: u32 = 3;

/// Adds an inode to the list; the caller stores the inode afterwards, and holds its table block and
/// the superblock.
pub(crate) fn add(
    core: &Core,
    handle: &mut Handle<'_>,
    nr: InodeNr,
    state: &mut InodeState,
) -> Result<()> {
    let is_skipped = match state.links {
        0 => rt::mutant!("orphan/deleted-file-not-listed"),
        _ => rt::mutant!("orphan/truncated-file-not-listed"),
    };
    if is_skipped {
        state.is_orphan = true;
    }
    if state.is_orphan {
        return Ok(());
    }
    let mut list = core.orphans.lock();
    let next = list.newest().map_or(0, InodeNr::get);
    let (table, _) = core.table_of(nr)?;
    set_next(core, handle, nr, &table, next)?;
    core.with_superblock(handle, |raw| raw.first_orphan.set(nr.get()))?;
    list.push(nr, table);
    state.is_orphan = true;
    Ok(())
}

/// Removes an inode from the list; the caller stores the inode afterwards, and holds its table
/// block and the superblock.
pub(crate) fn remove(
    core: &Core,
    handle: &mut Handle<'_>,
    nr: InodeNr,
    state: &mut InodeState,
) -> Result<()> {
    if !state.is_orphan {
        return Ok(());
    }
    let mut list = core.orphans.lock();
    let next = list.older(nr).map_or(0, InodeNr::get);
    match list.newer(nr) {
        Some((newer, table)) => set_next(core, handle, newer, table, next)?,
        None => core.with_superblock(handle, |raw| raw.first_orphan.set(next))?,
    }
    list.take(nr);
    state.is_orphan = false;
    state.dtime = 0;
    Ok(())
}

/// Writes the next orphan into an inode's `i_dtime`.
fn set_next(
    core: &Core,
    handle: &mut Handle<'_>,
    nr: InodeNr,
    table: &Arc<Buffer>,
    next: u32,
) -> Result<()> {
    core.change_in_table(handle, nr, table, |bytes| {
        let (base, _) = Base::mut_from_prefix(bytes).expect("an inode has at least its base");
        base.deletion_time.set(next);
    })
}

/// Reads the list when a volume is opened. Returns its inodes, newest first.
///
/// # Errors
/// - [`Corrupt::Orphan`] for an invalid list: nothing is changed.
pub(crate) fn load(core: &Core) -> Result<Vec<InodeNr>> {
    if rt::mutant!("orphan/not-finished-at-open") {
        return Ok(Vec::new());
    }
    let chain = read_chain(core)?;
    let mut list = core.orphans.lock();
    for (nr, table) in chain.iter().rev() {
        list.push(*nr, Arc::clone(table));
    }
    Ok(chain.into_iter().map(|(nr, _)| nr).collect())
}

/// Returns the inodes on the list.
pub(crate) fn listed(core: &Core) -> Vec<InodeNr> {
    core.orphans.lock().numbers()
}

/// Returns the number of inodes on the list.
pub(crate) fn count(core: &Core) -> usize {
    core.orphans.lock().count()
}

/// Notes an inode whose deletion has failed, so that it is retried.
pub(crate) fn note_left(core: &Core, nr: InodeNr) {
    core.orphans.lock().note_left(nr);
}

/// Takes the inodes whose deletion has failed.
pub(crate) fn take_left(core: &Core) -> BTreeSet<InodeNr> {
    core.orphans.lock().take_left()
}

/// Reads the list on disk, newest first, each inode with its table block.
fn read_chain(core: &Core) -> Result<Vec<(InodeNr, Arc<Buffer>)>> {
    let mut chain = Vec::new();
    let mut seen = BTreeSet::new();
    let mut next = core.superblock.raw.first_orphan.get();
    while next != 0 {
        let nr = InodeNr::new(next);
        let corrupt = |why| core.damaged(Corrupt::Orphan { inode: nr, why });
        if next > core.geometry().inode_count {
            return Err(corrupt("there is no such inode"));
        }
        if next < core.geometry().first_inode.get() {
            return Err(corrupt("a reserved inode is never an orphan"));
        }
        if !seen.insert(next) {
            return Err(corrupt("the list runs in a circle"));
        }
        let (buffer, offset) = core.table_of(nr)?;
        let block = buffer.read();
        let bytes = &block[offset..offset + usize::from(core.geometry().inode_bytes)];
        let sealed = core.superblock.checksums.check_inode(nr, bytes);
        sealed.map_err(|damage| core.damaged(damage))?;
        let (base, _) = Base::ref_from_prefix(bytes).expect("an inode has at least its base");
        if base.mode.get() == 0 {
            return Err(corrupt("the inode is free"));
        }
        next = base.deletion_time.get();
        drop(block);
        chain.push((nr, buffer));
    }
    Ok(chain)
}

/// Credits for completing a deletion besides freeing its blocks: orphan list, inode, bitmap,
/// descriptor, superblock, attribute block and the blocks that freeing it dirties.
pub(crate) const CREDITS_FINISH: Credits = Credits {
    blocks: 14,
    revokes: 1,
};
