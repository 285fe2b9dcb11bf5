//! The orphan list: inodes whose deletion or truncation is not finished, chained on disk from the superblock through
//! `i_dtime`. A crash leaves them there, and the next open finishes what they wait for.
//!
//! ```text
//! s_last_orphan -> newest inode -> ... -> oldest inode -> 0
//! ```
//!
//! The list in memory knows both neighbours of each, so that adding and removing touch the superblock or one neighbour
//! and never walk, and it holds the table blocks of all of them, so that neither has to read. While an inode is on the list, its `i_dtime` in the table is written here and nowhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jbd2::{Buffer, Credits};
use layout::InodeNr;
use layout::inode::Inode as Base;
use zerocopy::FromBytes;

use crate::cache::inode::InodeState;
use crate::core::Core;
use crate::error::{Corrupt, Result};
use crate::handle::Transaction;

/// Journal blocks that adding or removing may dirty: superblock, inode, predecessor's inode.
pub(crate) const CREDITS_ORPHAN: u32 = 3;

/// The list as it stands on disk.
#[derive(Default)]
pub(crate) struct OrphanList {
    newest: Option<InodeNr>,
    links: BTreeMap<InodeNr, Link>,
    /// Those whose deletion has failed, and is to be tried again.
    left: BTreeSet<InodeNr>,
}

struct Link {
    newer: Option<InodeNr>,
    older: Option<InodeNr>,
    /// The block of the inode table that has it.
    table: Arc<Buffer>,
}

impl OrphanList {
    /// Whether an inode is on the list.
    pub(crate) fn contains(&self, nr: InodeNr) -> bool {
        self.links.contains_key(&nr)
    }

    /// How many are on the list.
    pub(crate) fn count(&self) -> usize {
        self.links.len()
    }

    /// The deletion of an inode has failed.
    pub(crate) fn note_left(&mut self, nr: InodeNr) {
        self.left.insert(nr);
    }

    fn numbers(&self) -> Vec<InodeNr> {
        self.links.keys().copied().collect()
    }

    fn push(&mut self, nr: InodeNr, table: Arc<Buffer>) {
        if let Some(newest) = self.newest.and_then(|newest| self.links.get_mut(&newest)) {
            newest.newer = Some(nr);
        }
        let link = Link {
            newer: None,
            older: self.newest,
            table,
        };
        self.links.insert(nr, link);
        self.newest = Some(nr);
    }

    fn take(&mut self, nr: InodeNr) {
        let Some(Link { newer, older, .. }) = self.links.remove(&nr) else {
            return;
        };
        match newer.and_then(|newer| self.links.get_mut(&newer)) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        if let Some(older) = older.and_then(|older| self.links.get_mut(&older)) {
            older.newer = newer;
        }
    }
}

/// Puts an inode on the list; the caller stores the inode afterwards, and holds its table block and the superblock.
pub(crate) fn add(
    core: &Core,
    transaction: &mut Transaction<'_>,
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
    let next = list.newest.map_or(0, InodeNr::get);
    let (block, _) = core.inode_location(nr)?;
    let table = core.buffers.get(block)?;
    set_next(core, transaction, nr, &table, next)?;
    core.with_superblock(transaction, |raw| raw.s_last_orphan.set(nr.get()))?;
    list.push(nr, table);
    state.is_orphan = true;
    Ok(())
}

/// Takes an inode off the list; the caller stores the inode afterwards, and holds its table block and the superblock.
pub(crate) fn remove(
    core: &Core,
    transaction: &mut Transaction<'_>,
    nr: InodeNr,
    state: &mut InodeState,
) -> Result<()> {
    if !state.is_orphan {
        return Ok(());
    }
    let mut list = core.orphans.lock();
    let link = list.links.get(&nr);
    let next = link.and_then(|link| link.older).map_or(0, InodeNr::get);
    let newer = link.and_then(|link| link.newer);
    match newer.and_then(|newer| Some((newer, list.links.get(&newer)?))) {
        Some((newer, link)) => set_next(core, transaction, newer, &link.table, next)?,
        None => core.with_superblock(transaction, |raw| raw.s_last_orphan.set(next))?,
    }
    list.take(nr);
    state.is_orphan = false;
    state.dtime = 0;
    Ok(())
}

/// Writes the next orphan into an inode's `i_dtime`.
fn set_next(
    core: &Core,
    transaction: &mut Transaction<'_>,
    nr: InodeNr,
    table: &Arc<Buffer>,
    next: u32,
) -> Result<()> {
    let (_, offset) = core.inode_location(nr)?;
    let mut bytes = transaction.write(table)?;
    let (base, _) =
        Base::mut_from_prefix(&mut bytes[offset..]).expect("an inode lies in its block");
    base.i_dtime.set(next);
    Ok(())
}

/// At open: finishes every deletion and truncation on the list. Returns how many (deleted, truncated).
///
/// # Errors
/// - [`Corrupt::Orphan`] for a list that cannot be believed: nothing is changed.
pub(crate) fn clean_up(core: &Core) -> Result<(usize, usize)> {
    let chain = if rt::mutant!("orphan/not-finished-at-open") {
        Vec::new()
    } else {
        read_chain(core)?
    };
    {
        let mut list = core.orphans.lock();
        for (nr, table) in chain.iter().rev() {
            list.push(*nr, Arc::clone(table));
        }
    }
    let (mut deleted, mut truncated) = (0, 0);
    for (nr, _) in chain {
        match finish_one(core, nr) {
            Ok(true) => deleted += 1,
            Ok(false) => truncated += 1,
            Err(crate::Error::Corrupt(error)) => {
                tracing::error!(inode = %nr, %error, "an orphan stays on the list: run fsck");
                if core.check_writable().is_err() {
                    break;
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok((deleted, truncated))
}

/// Tries deletions again that have failed.
pub(crate) fn delete_left(core: &Core) -> Result<()> {
    let left = core::mem::take(&mut core.orphans.lock().left);
    if rt::mutant!("orphan/left-until-close") {
        return Ok(());
    }
    let mut result = Ok(());
    for nr in left {
        // Whatever has been done with it since, it is deleted only if it has no name and nobody has it open.
        let inode = core.inodes.get(core, nr);
        match inode.and_then(|inode| crate::file::delete_or_leave(core, &inode)) {
            Ok(()) | Err(crate::Error::NotFound) => {}
            Err(error) => result = result.and(Err(error)),
        }
    }
    result
}

/// At close: tries once more what a device that failed has left on the list. What it refuses again is left to the next open, and the
/// volume is not called clean.
pub(crate) fn finish_left(core: &Core) {
    let listed = core.orphans.lock().numbers();
    for nr in listed {
        if core.check_writable().is_err() {
            break;
        }
        if let Err(error) = finish_one(core, nr) {
            tracing::error!(inode = %nr, %error, "an inode stays on the orphan list");
            if error.is_device_full() {
                // Nothing is wrong with the volume. The log is kept, and the next open goes on.
                return;
            }
        }
    }
    let left = core.orphans.lock().numbers();
    if let Some(inode) = left.into_iter().next() {
        let why = "it stays on the list of a volume that is closed";
        core.note_damage(&Corrupt::Orphan { inode, why });
    }
}

/// Finishes one orphan; whether it was deleted.
fn finish_one(core: &Core, nr: InodeNr) -> Result<bool> {
    let inode = core.inodes.get(core, nr)?;
    let has_links = {
        let mut state = inode.state.write();
        state.is_orphan = true;
        state.dtime = 0;
        state.links > 0
    };
    if has_links {
        crate::file::finish_truncation(core, &inode)?;
    } else {
        crate::file::delete(core, &inode)?;
    }
    Ok(!has_links)
}

/// The list on disk, newest first, each with its table block.
fn read_chain(core: &Core) -> Result<Vec<(InodeNr, Arc<Buffer>)>> {
    let mut chain = Vec::new();
    let mut seen = BTreeSet::new();
    let mut next = core.superblock.raw.s_last_orphan.get();
    while next != 0 {
        let nr = InodeNr::new(next);
        let corrupt = |why| core.damaged(Corrupt::Orphan { inode: nr, why });
        if next > core.geometry.inode_count {
            return Err(corrupt("there is no such inode"));
        }
        if next < core.geometry.first_inode.get() {
            return Err(corrupt("a reserved inode is never an orphan"));
        }
        if !seen.insert(next) {
            return Err(corrupt("the list runs in a circle"));
        }
        let (block, offset) = core.inode_location(nr)?;
        let buffer = core.buffers.get(block)?;
        let bytes = buffer.read();
        let (base, _) =
            Base::ref_from_prefix(&bytes[offset..]).expect("an inode lies in its block");
        if base.i_mode.get() == 0 {
            return Err(corrupt("the inode is free"));
        }
        next = base.i_dtime.get();
        drop(bytes);
        chain.push((nr, buffer));
    }
    Ok(chain)
}

/// Credits for finishing a deletion beside the freeing of its blocks: orphan list, inode, bitmap, descriptor,
/// superblock, attribute block and what freeing it dirties.
pub(crate) const CREDITS_FINISH: Credits = Credits {
    blocks: 14,
    revokes: 1,
};
