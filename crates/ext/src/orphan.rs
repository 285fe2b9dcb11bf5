//! The orphan list: inodes whose deletion or truncation is not finished, chained on disk from the superblock through
//! `i_dtime`. A crash leaves them there, and the next open finishes what they wait for.
//!
//! ```text
//! s_last_orphan -> newest inode -> ... -> oldest inode -> 0
//! ```
//!
//! The list in memory knows both neighbours of each, so that adding and removing touch the superblock or one neighbour
//! and never walk. While an inode is on the list, its `i_dtime` in the table is written here and nowhere else.

use std::collections::BTreeMap;

use jbd2::Credits;
use layout::InodeNr;
use layout::inode::Inode as Base;
use zerocopy::FromBytes;

use crate::core::Core;
use crate::error::{Corrupt, Result};
use crate::inode::InodeState;
use crate::transaction::Transaction;

/// Journal blocks that adding or removing may dirty: superblock, inode, predecessor's inode.
pub(crate) const CREDITS_ORPHAN: u32 = 3;

/// The list as it stands on disk.
#[derive(Debug, Default)]
pub(crate) struct OrphanList {
    newest: Option<InodeNr>,
    links: BTreeMap<InodeNr, Neighbours>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Neighbours {
    newer: Option<InodeNr>,
    older: Option<InodeNr>,
}

impl OrphanList {
    /// Whether an inode is on the list.
    pub(crate) fn contains(&self, nr: InodeNr) -> bool {
        self.links.contains_key(&nr)
    }

    fn push(&mut self, nr: InodeNr) {
        if let Some(newest) = self.newest {
            self.links.entry(newest).or_default().newer = Some(nr);
        }
        self.links.insert(
            nr,
            Neighbours {
                newer: None,
                older: self.newest,
            },
        );
        self.newest = Some(nr);
    }

    fn take(&mut self, nr: InodeNr) {
        let Some(Neighbours { newer, older }) = self.links.remove(&nr) else {
            return;
        };
        match newer {
            Some(newer) => self.links.entry(newer).or_default().older = older,
            None => self.newest = older,
        }
        if let Some(older) = older {
            self.links.entry(older).or_default().newer = newer;
        }
    }
}

/// Puts an inode on the list; the caller stores the inode afterwards.
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
    set_next(core, transaction, nr, next)?;
    core.with_superblock(transaction, |raw| raw.s_last_orphan.set(nr.get()))?;
    list.push(nr);
    state.is_orphan = true;
    Ok(())
}

/// Takes an inode off the list; the caller stores the inode afterwards.
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
    let neighbours = list.links.get(&nr).copied().unwrap_or_default();
    let next = neighbours.older.map_or(0, InodeNr::get);
    match neighbours.newer {
        Some(newer) => set_next(core, transaction, newer, next)?,
        None => core.with_superblock(transaction, |raw| raw.s_last_orphan.set(next))?,
    }
    list.take(nr);
    state.is_orphan = false;
    state.dtime = 0;
    Ok(())
}

/// Writes the next orphan into an inode's `i_dtime`.
fn set_next(core: &Core, transaction: &mut Transaction<'_>, nr: InodeNr, next: u32) -> Result<()> {
    let (block, offset) = core.inode_location(nr)?;
    let buffer = core.buffers.get(block)?;
    let mut bytes = transaction.write(&buffer)?;
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
        for nr in chain.iter().rev() {
            list.push(*nr);
        }
    }
    let (mut deleted, mut truncated) = (0, 0);
    for nr in chain {
        match finish_one(core, nr) {
            Ok(true) => deleted += 1,
            Ok(false) => truncated += 1,
            Err(crate::Error::Corrupt(error)) => {
                tracing::error!(inode = %nr, %error, "an orphan stays on the list: run fsck");
            }
            Err(error) => return Err(error),
        }
    }
    Ok((deleted, truncated))
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

/// The list on disk, newest first.
fn read_chain(core: &Core) -> Result<Vec<InodeNr>> {
    let mut chain = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    let mut next = core.superblock.raw.s_last_orphan.get();
    while next != 0 {
        let nr = InodeNr::new(next);
        let corrupt = |why| Corrupt::Orphan { inode: nr, why };
        if next > core.geometry.inode_count {
            return Err(corrupt("there is no such inode").into());
        }
        if next < core.geometry.first_inode.get() {
            return Err(corrupt("a reserved inode is never an orphan").into());
        }
        if !seen.insert(next) {
            return Err(corrupt("the list runs in a circle").into());
        }
        chain.push(nr);
        let (block, offset) = core.inode_location(nr)?;
        let buffer = core.buffers.get(block)?;
        let bytes = buffer.read();
        let (base, _) =
            Base::ref_from_prefix(&bytes[offset..]).expect("an inode lies in its block");
        if base.i_mode.get() == 0 {
            return Err(corrupt("the inode is free").into());
        }
        next = base.i_dtime.get();
    }
    Ok(chain)
}

/// Credits for finishing a deletion beside the freeing of its blocks: orphan list, inode, bitmap, descriptor,
/// superblock, attribute block and what freeing it dirties.
pub(crate) const CREDITS_FINISH: Credits = Credits {
    blocks: 14,
    revokes: 1,
};
