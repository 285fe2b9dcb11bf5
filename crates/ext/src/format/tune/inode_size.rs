//! Larger inodes. The inode tables are made anew in free blocks, and one transaction of the journal
//! moves the volume over to them.
//!
//! | durable | after a power cut |
//! |---|---|
//! | the new tables, in blocks that are free | the volume as before |
//! | the mark that the journal has to be replayed | the volume as before: the log is empty |
//! | the transaction in the log | the new volume, after the replay |
//! | descriptors and bitmaps at their final locations | the new volume, after the replay |
//! | the superblock at its final location | the new volume, after the replay |
//! | the log emptied, the superblock without the mark | the new volume |
//!
//! The transaction has the superblock, all group descriptors, the block bitmaps in which new tables
//! are taken and old ones freed, and the copies of superblock and descriptors. So no power cut
//! leaves blocks in use that nothing uses, or a copy that leads to tables of before.
//!
//! Without a journal there is no such instant, and the change is refused.
//!
//! # The inode of the journal
//!
//! An internal log is found through its inode. Before the replay of a change that was cut off, the
//! superblock may have the old size of inodes, and the descriptors the new tables. So a new table
//! has a copy of this inode where an inode of the old size would be, in a part of another inode
//! that is empty or not read before. The superblock is written after the descriptors, and then the
//! block with the copy is written without it. For the opposite, a new superblock and old
//! descriptors, there is no such place: a second power cut in the middle of the replay can leave
//! that, and e2fsck then uses the copy of the inode that the superblock has.
//!
//! The replay is that of e2fsck or of this crate. Linux reads the size of inodes before it replays
//! the log, and then does not find the root directory: that mount fails, and the next one succeeds.
//!
//! # Where this differs from tune2fs
//!
//! - tune2fs moves what lies behind each table, with nothing that undoes a half of it, and refuses
//!   volumes with `flex_bg`. Here the old tables stay until the new ones are used, so that each
//!   group needs contiguous free blocks for its new table: with `flex_bg` anywhere, otherwise
//!   in the group.
//! - Inodes of 128 bytes that are in use get an extra part of 32 bytes, of zeroes: times are the
//!   same, and can have nanoseconds and years after 2038 from then on. tune2fs leaves this to
//!   Linux, which adds the part to an inode when it changes.

mod places;
mod switch;
mod tables;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use block::BlockDevice;
use jbd2::Location;
use jbd2::recovery::{self, Changes as Blocks};
use layout::inode::{BASE_SIZE, EXTRA_SIZE};
use layout::{Block, BlockNr, GroupNr};

use super::journal::location;
use super::{Changes, look, read};
use crate::cache::space::zones::Holder;
use crate::core::Core;
use crate::disk::run::Run;
use crate::disk::superblock::{self, Superblock};
use crate::error::{Error, Result};
use places::Places;

/// Bytes in a MiB.
const MIB: u64 = 1 << 20;

/// The change of a volume's inodes, with a place for each new table.
#[derive(Debug)]
pub(super) struct Plan {
    before: Superblock,
    after: Superblock,
    log: LogPlace,
    tables: Vec<Move>,
    /// The place of the copy of the journal's inode, if the journal is internal.
    copy: Option<tables::JournalCopy>,
    /// The blocks of the transaction, but for the superblock and the block with the copy.
    logged: Blocks,
    /// The superblock of the transaction.
    superblock: (BlockNr, Arc<Block>),
}

/// The log that the change goes through.
struct LogPlace(Location);

impl core::fmt::Debug for LogPlace {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "log of {} blocks", self.0.block_count())
    }
}

/// An inode table that moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Move {
    group: GroupNr,
    from: Run,
    to: Run,
    /// Number of inodes at the start of the table that may have been used.
    used: u32,
}

/// Returns the steps of changes: the size of inodes is one of its own, before others.
pub(super) fn steps(changes: &Changes) -> Vec<Changes> {
    let mut rest = changes.clone();
    let own = Changes {
        inode_bytes: rest.inode_bytes.take(),
        ..Changes::default()
    };
    match own == Changes::default() {
        true => vec![rest],
        false if rest == Changes::default() => vec![own],
        false => vec![own, rest],
    }
}

impl Plan {
    /// Finds a place for each table, and computes the transaction; none if the size stays. Writes
    /// nothing.
    ///
    /// # Errors
    /// - [`Error::Unsupported`] names the reason why inodes cannot have this size.
    /// - [`Error::Corrupt`] for a damaged bitmap or inode, which would get a good checksum.
    pub(super) fn new(
        device: &Arc<dyn BlockDevice>,
        journal: Option<&Arc<dyn BlockDevice>>,
        before: &Superblock,
        changes: &Changes,
    ) -> Result<Option<Self>> {
        let Some(inode_bytes) = changes.inode_bytes else {
            return Ok(None);
        };
        check_size(before, inode_bytes)?;
        let log = location(device, before, journal)?;
        let log = log.ok_or_else(|| no_log(before))?;
        let after = enlarged(device, before, inode_bytes)?;
        let core = look_beside_log(device, before, &log)?;
        tables::check(device, before)?;
        let mut places = Places::new(&core, after.geometry.inode_table_blocks());
        let tables = tables(&core, &mut places)?;
        let bitmaps = places.into_changed();
        let after = switch::superblock(&core, after, &bitmaps)?;
        let copy = tables::JournalCopy::of(device, before, &after, &tables)?;
        let superblock = switch::head(&core, &after)?;
        let mut logged = switch::blocks(&core, &tables, &bitmaps)?;
        logged.append(&mut switch::copies(&after, &logged));
        let others = 1 + usize::from(copy.is_some());
        let features = log_features(before);
        let room = recovery::check_changes(&log, features, logged.len() + others);
        room.map_err(|error| too_short(error, before))?;
        Ok(Some(Self {
            before: before.clone(),
            after,
            log: LogPlace(log),
            tables,
            copy,
            logged,
            superblock,
        }))
    }

    /// Makes the change.
    pub(super) fn apply(self, device: &Arc<dyn BlockDevice>) -> Result<()> {
        let Self {
            before,
            after,
            log: LogPlace(log),
            tables,
            copy,
            logged,
            superblock,
        } = self;
        for table in &tables {
            tables::make(device, &before, &after, table)?;
        }
        let without_copy = copy.map(|copy| copy.make(device, &before)).transpose()?;
        let (is_64bit, has_checksums) = log_features(&before);
        jbd2::format::add_features(&log, is_64bit, has_checksums)?;
        let mut marked = before.clone();
        marked.set_needs_recovery(true);
        // The flush of the mark is that of the tables, too.
        superblock::write(device, &marked)?;
        let mut stages = vec![logged, vec![superblock]];
        stages.extend(without_copy.map(|block| vec![block]));
        if rt::mutant!("inode-size/superblock-first") {
            stages.swap(0, 1);
        }
        if rt::mutant!("inode-size/changed-in-place") {
            let mut stages = stages.iter();
            stages.try_for_each(|stage| write_in_place(device, &before, stage))?;
        } else {
            recovery::commit_changes(&log, device, &stages)?;
        }
        let mut done = read(device)?;
        done.set_needs_recovery(false);
        superblock::write(device, &done)
    }
}

/// Returns the features of a volume's log: 64-bit block numbers, and checksums.
fn log_features(superblock: &Superblock) -> (bool, bool) {
    (superblock.is_64bit(), superblock.checksums.has_tails())
}

/// Writes blocks at their final locations, durably.
fn write_in_place(
    device: &Arc<dyn BlockDevice>,
    superblock: &Superblock,
    blocks: &Blocks,
) -> Result<()> {
    for (block, image) in blocks {
        let offset = superblock.geometry.byte_offset(*block);
        device.write_blocks(offset, vec![Arc::clone(image)])?;
    }
    Ok(device.flush()?)
}

/// Checks that inodes of a volume can get a size.
fn check_size(superblock: &Superblock, wanted: u16) -> Result<()> {
    let (present, block) = (
        superblock.geometry.inode_bytes,
        superblock.geometry.block_bytes,
    );
    let is_possible =
        wanted.is_power_of_two() && usize::from(wanted) >= BASE_SIZE && u32::from(wanted) <= block;
    let why = if !is_possible {
        format!(
            "inodes of {wanted} bytes are not possible: the size is a power of two from 128 to that of a block, {block}"
        )
    } else if wanted == present {
        format!("the inodes have {wanted} bytes already")
    } else if wanted < present {
        format!(
            "inodes of {present} bytes cannot become smaller: make another file system with mkfs -I {wanted}, and copy the files"
        )
    } else if superblock.geometry.cluster_log > 0 {
        "the size of inodes has to stay on a volume with bigalloc: make another file system with mkfs -I, and copy the files".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::Unsupported(why))
}

/// Returns the error of a volume without a log, or without the device of it.
fn no_log(superblock: &Superblock) -> Error {
    let text = match superblock.journal_uuid {
        Some(_) => {
            "the journal is on another device, and the size of inodes changes by way of it: name it with --journal"
        }
        None => {
            "the size of inodes changes by way of a journal, so that a power cut leaves no half of it, and there is none: add one with tune -j, and remove it afterwards with tune -O ^has_journal"
        }
    };
    Error::Unsupported(text.to_owned())
}

/// Returns the error of a log that is too short for the transaction.
fn too_short(error: jbd2::Error, superblock: &Superblock) -> Error {
    let jbd2::Error::TooSmall { blocks, least } = error else {
        return error.into();
    };
    let mebibytes = (u64::from(least) * u64::from(superblock.geometry.block_bytes)).div_ceil(MIB);
    Error::Unsupported(format!(
        "the size of inodes changes in one transaction, for which a journal of {blocks} blocks is too short; nothing has changed: with one of {least} blocks it does: tune -O ^has_journal, and then tune -J size={mebibytes}"
    ))
}

/// Returns the superblock with another size of inodes, and checks that the volume can have it.
fn enlarged(
    device: &Arc<dyn BlockDevice>,
    before: &Superblock,
    inode_bytes: u16,
) -> Result<Superblock> {
    let mut after = before.clone();
    let raw = &mut after.raw;
    raw.dynamic_inode_size.set(inode_bytes);
    if usize::from(before.geometry.inode_bytes) == BASE_SIZE {
        raw.min_extra_inode_size.set(EXTRA_SIZE as u16);
        raw.wanted_extra_inode_size.set(EXTRA_SIZE as u16);
    }
    let decoded = Superblock::decode(&after.encode(), device.geometry().size_bytes);
    decoded.map_err(|_| {
        let groups = "a group has no room for a table of such inodes";
        Error::Unsupported(format!(
            "inodes of {inode_bytes} bytes are not possible: {groups}; make another file system with mkfs -I {inode_bytes}, and copy the files"
        ))
    })
}

/// Opens a volume for reading only. Its log is a system zone.
fn look_beside_log(
    device: &Arc<dyn BlockDevice>,
    superblock: &Superblock,
    log: &Location,
) -> Result<Core> {
    let mut core = look(device, superblock)?;
    if superblock.journal_inode.is_some() {
        core.space.protect(Holder::Log, &log.extents)?;
    }
    Ok(core)
}

/// Returns the number of inodes at the start of a group's table that may have been used. An inode
/// behind them that the bitmap has is damage: its contents would be lost.
fn used_inodes(core: &Core, nr: GroupNr) -> Result<u32> {
    let group = core.space.group(nr);
    if !group.lacks_inode_bitmap.load(Ordering::Relaxed) {
        let bitmap = core.inode_bitmap(group)?;
        let known = group.inodes(&mut group.maps.lock(), &bitmap).map(drop);
        known?;
    }
    Ok(group.used_inodes())
}

/// Returns all tables with their new places. Places of old tables become free when all new ones
/// are taken.
fn tables(core: &Core, places: &mut Places<'_>) -> Result<Vec<Move>> {
    let geometry = core.geometry();
    let mut tables = Vec::new();
    for nr in geometry.groups() {
        let group = core.space.group(nr);
        if let Some(damage) = &group.damage {
            return Err(damage.clone().into());
        }
        let from = Run {
            first: group.inode_table,
            count: geometry.inode_table_blocks(),
        };
        let used = match core.superblock.checksums.has_group_flags() {
            true => used_inodes(core, nr)?,
            false => geometry.inodes_per_group,
        };
        let to = places.take(nr)?;
        tables.push(Move {
            group: nr,
            from,
            to,
            used,
        });
    }
    for table in &tables {
        places.free(table.from)?;
    }
    Ok(tables)
}
