//! The orphan list: inodes whose deletion or truncation is not complete. A crash leaves them there,
//! and the next open completes the operations.
//!
//! On disk they are in slots of the orphan file, or chained from the superblock through `i_dtime`:
//!
//! ```text
//! s_last_orphan -> newest inode -> ... -> oldest inode -> 0
//! ```
//!
//! | volume | a new orphan |
//! |---|---|
//! | without an orphan file, or without a journal | is chained |
//! | with both | takes a free slot; is chained if all slots are in use |
//!
//! Linux fills slots only with a journal, too. An open reads the slots in every case.
//!
//! While an inode is on the list, only this module writes its `i_dtime` in the table. That of an
//! inode in a slot is 0: with another one, an inode without links would be a free one.
//!
//! Source: Linux `Documentation/filesystems/ext4/orphan.rst`.

use std::collections::BTreeSet;
use std::sync::Arc;

use jbd2::{Buffer, Credits};
use layout::inode::Inode as Base;
use layout::{BlockNr, InodeNr};
use zerocopy::FromBytes;

use crate::cache::buffers::Refused;
use crate::cache::orphan_slots::{OrphanSlots, Slot, Stale};
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::disk::metadata::Label;
use crate::error::{Corrupt, Error, Result};

/// Number of journal blocks that adding or removing may dirty: superblock, inode, predecessor's
/// inode; or a block of the orphan file, and the inode.
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
    if core.journal.is_some()
        && let Some(slot) = list.slots.free()
    {
        let (table, _) = core.table_of(nr)?;
        put(handle, &list.slots, slot, nr.get())?;
        set_next(core, handle, nr, &table, 0)?;
        list.slots.take(nr, slot);
        state.is_orphan = true;
        handle.note_listed(nr);
        return Ok(());
    }
    let next = list.newest().map_or(0, InodeNr::get);
    let (table, _) = core.table_of(nr)?;
    set_next(core, handle, nr, &table, next)?;
    core.with_superblock(handle, |raw| raw.first_orphan.set(nr.get()))?;
    list.push(nr, table);
    state.is_orphan = true;
    handle.note_listed(nr);
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
    handle.note_unlisted(nr);
    let mut list = core.orphans.lock();
    if let Some(slot) = list.slots.find(nr) {
        if !rt::mutant!("orphan/slot-not-cleared") {
            put(handle, &list.slots, slot, 0)?;
        }
        list.slots.leave(nr);
        state.is_orphan = false;
        state.dtime = 0;
        return Ok(());
    }
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

/// Writes the number of an inode, or 0, into a slot of the orphan file.
fn put(handle: &mut Handle<'_>, slots: &OrphanSlots, slot: Slot, number: u32) -> Result<()> {
    let mut block = handle.write(slots.buffer(slot))?;
    block[slot.bytes()].copy_from_slice(&number.to_le_bytes());
    Ok(())
}

/// Writes the next orphan, or 0, into an inode's `i_dtime`.
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

/// Reads the list when a volume is opened. Returns its inodes: chained ones, newest first, then
/// those in slots of the orphan file, whose blocks are given.
///
/// # Errors
/// - [`Corrupt::Orphan`] for an invalid list.
pub(crate) fn load(core: &Core, file: &[(BlockNr, Label)]) -> Result<Vec<InodeNr>> {
    if rt::mutant!("orphan/not-finished-at-open") {
        return Ok(Vec::new());
    }
    let chain = read_chain(core)?;
    let mut seen: BTreeSet<InodeNr> = chain.iter().map(|(nr, _)| *nr).collect();
    let slots = read_slots(core, file, &mut seen)?;
    let mut numbers: Vec<InodeNr> = chain.iter().map(|(nr, _)| *nr).collect();
    numbers.extend(slots.numbers());
    let mut list = core.orphans.lock();
    for (nr, table) in chain.into_iter().rev() {
        list.push(nr, table);
    }
    list.slots = slots;
    Ok(numbers)
}

/// Checks the list and the slots of the orphan file before the volume is changed.
///
/// # Errors
/// - [`Corrupt::Orphan`] for an invalid list.
pub(crate) fn check(core: &Core, file: &[(BlockNr, Label)]) -> Result<()> {
    let chain = read_chain(core)?;
    let mut seen = chain.iter().map(|(nr, _)| *nr).collect();
    read_slots(core, file, &mut seen).map(drop)
}

/// Clears the stale slots.
pub(crate) fn clear_stale(core: &Core) -> Result<()> {
    let stale = core.orphans.lock().slots.take_stale();
    for Stale { slot, inode, why } in stale {
        tracing::warn!(%inode, why, "a stale slot of the orphan file is cleared");
        let mut handle = core.begin(Credits {
            blocks: 1,
            revokes: 0,
        })?;
        put(&mut handle, &core.orphans.lock().slots, slot, 0)?;
        handle.finish()?;
    }
    Ok(())
}

/// Returns the inodes on the list.
pub(crate) fn listed(core: &Core) -> Vec<InodeNr> {
    core.orphans.lock().numbers()
}

/// Returns true if slots of the orphan file are in use.
pub(crate) fn has_slots(core: &Core) -> bool {
    core.orphans.lock().slots.count() > 0
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
        if !seen.insert(next) {
            return Err(corrupt(core, nr, "the list runs in a circle"));
        }
        let (table, base) = read_listed(core, nr)?;
        if base.mode.get() == 0 {
            return Err(corrupt(core, nr, "the inode is free"));
        }
        next = base.deletion_time.get();
        chain.push((nr, table));
    }
    Ok(chain)
}

/// Reads the blocks of the orphan file. `seen` are the inodes that are chained.
///
/// A slot is stale if its inode is free, chained, or in an earlier slot. e2fsck 1.47.0 leaves slots
/// of inodes that it has freed; Linux skips such slots, too.
fn read_slots(
    core: &Core,
    file: &[(BlockNr, Label)],
    seen: &mut BTreeSet<InodeNr>,
) -> Result<OrphanSlots> {
    let of_volume = |refused: Refused| core.noted(refused.of_volume());
    let mut slots = OrphanSlots::default();
    core.buffers.prefetch(file).map_err(of_volume)?;
    for (block, label) in file {
        let buffer = core.buffers.get(*block, *label).map_err(of_volume)?;
        for (slot, number) in slots.add_block(buffer) {
            if rt::mutant!("orphan/slots-not-finished-at-open") {
                continue;
            }
            let nr = InodeNr::new(number);
            if number == label.owner {
                return Err(corrupt(core, nr, "the orphan file is never an orphan"));
            }
            let (_, base) = read_listed(core, nr)?;
            let is_deleted = base.links_count.get() == 0 && base.deletion_time.get() != 0;
            if !seen.insert(nr) {
                slots.note_stale(slot, nr, "the inode is an orphan twice");
            } else if base.mode.get() == 0 || is_deleted {
                slots.note_stale(slot, nr, "the inode is free");
            } else {
                slots.take(nr, slot);
            }
        }
    }
    Ok(slots)
}

/// Reads an inode that an orphan list names, with its block of the table.
fn read_listed(core: &Core, nr: InodeNr) -> Result<(Arc<Buffer>, Base)> {
    if nr.get() > core.geometry().inode_count {
        return Err(corrupt(core, nr, "there is no such inode"));
    }
    if nr < core.geometry().first_inode {
        return Err(corrupt(core, nr, "a reserved inode is never an orphan"));
    }
    let (buffer, offset) = core.table_of(nr)?;
    let block = buffer.read();
    let bytes = &block[offset..offset + usize::from(core.geometry().inode_bytes)];
    let sealed = core.superblock.checksums.check_inode(nr, bytes);
    sealed.map_err(|damage| core.damaged(damage))?;
    let (base, _) = Base::read_from_prefix(bytes).expect("an inode has at least its base");
    drop(block);
    Ok((buffer, base))
}

fn corrupt(core: &Core, inode: InodeNr, why: &'static str) -> Error {
    core.damaged(Corrupt::Orphan { inode, why })
}

/// Credits for completing a deletion besides freeing its blocks: orphan list, inode, bitmap,
/// descriptor, superblock, attribute block and the blocks that freeing it dirties.
pub(crate) const CREDITS_FINISH: Credits = Credits {
    blocks: 14,
    revokes: 1,
};
