//! Multiple mount protection: the volume is taken while it is tuned, and the block of the
//! protection is made, freed and released.

use std::sync::Arc;

use block::BlockDevice;
use jbd2::Credits;
use layout::feature::Incompatible;
use layout::multi_mount::SEQUENCE_CLEAN;
use layout::{BlockNr, InodeNr};

use super::own_files::with_core;
use super::{Changes, Word, read, take_over, write};
use crate::alloc::{BlockRequest, CREDITS_PER_GROUP};
use crate::cache::multi_mount::{MultiMount, Purpose};
use crate::disk::multi_mount::{Place, Record};
use crate::disk::run::Run;
use crate::disk::superblock::Superblock;
use crate::error::{Error, Result};
use crate::format::mkfs::mmp_interval;

/// `mmp`.
const MMP: (Word, u32) = (Word::Incompatible, Incompatible::MMP.bits());

/// The change of the protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// No change.
    Keep,
    /// Makes the block, which is renewed at this interval in seconds.
    Make(u16),
    /// Frees this block.
    Free(BlockNr),
}

/// Returns the two steps of changes that make or remove the protection and do more: the protection
/// is there for all the rest.
pub(super) fn steps(superblock: &Superblock, changes: &Changes) -> Option<(Changes, Changes)> {
    let has = superblock.features.incompatible.contains(Incompatible::MMP);
    let is_made = !has && changes.features.contains(&MMP);
    let is_removed = has && changes.features_removed.contains(&MMP);
    let mut rest = changes.clone();
    let mut own = Changes::default();
    if is_made {
        rest.features.retain(|feature| *feature != MMP);
        own.features.push(MMP);
        own.mmp_update_seconds = rest.mmp_update_seconds.take();
    }
    if is_removed {
        rest.features_removed.retain(|feature| *feature != MMP);
        own.features_removed.push(MMP);
    }
    if rest == Changes::default() || own == Changes::default() {
        return None;
    }
    Some(if is_made { (own, rest) } else { (rest, own) })
}

/// Takes a volume, if it has the protection.
///
/// # Errors
/// - [`Error::InUse`] names the node that uses the volume.
pub(super) fn hold(
    device: &Arc<dyn BlockDevice>,
    superblock: &Superblock,
) -> Result<Option<Arc<MultiMount>>> {
    let place = Place::of(superblock)?;
    place
        .map(|place| MultiMount::take(device, place, Purpose::Offline))
        .transpose()
}

/// Releases a volume, unless the protection was removed.
pub(super) fn release(device: &Arc<dyn BlockDevice>, held: &MultiMount) -> Result<()> {
    let Some(place) = Place::of(&read(device)?)? else {
        return Ok(());
    };
    held.release()?;
    // Its checksum is of what the volume was when it was taken.
    match place.read(device)?.is_whole {
        true => Ok(()),
        false => write_clean(device, &place),
    }
}

/// Applies the changes to the superblock, and returns what is left to do.
pub(super) fn change_fields(superblock: &mut Superblock, changes: &Changes) -> Result<Change> {
    let has = superblock.features.incompatible.contains(Incompatible::MMP);
    let is_asked = changes.features.contains(&MMP);
    let is_removed = changes.features_removed.contains(&MMP);
    if changes.mmp_update_seconds.is_some() && (is_removed || !has && !is_asked) {
        return Err(Error::Invalid(
            "mmp_update_interval is of use with mmp only",
        ));
    }
    let seconds = mmp_interval(changes.mmp_update_seconds)?;
    let raw = &mut superblock.raw;
    if has && is_removed {
        let block = BlockNr::new(raw.mmp_block.get());
        raw.mmp_block.set(0);
        raw.mmp_update_interval.set(0);
        return Ok(Change::Free(block));
    }
    if !has && is_asked {
        if raw.free_blocks_count() == 0 {
            return Err(Error::NoSpace);
        }
        return Ok(Change::Make(seconds));
    }
    if changes.mmp_update_seconds.is_some() {
        raw.mmp_update_interval.set(seconds);
    }
    Ok(Change::Keep)
}

/// Makes the block, before the superblock names it.
pub(super) fn make(
    device: &Arc<dyn BlockDevice>,
    superblock: &mut Superblock,
    seconds: u16,
) -> Result<()> {
    let block = with_core(device, |core| {
        let mut handle = core.begin(credits())?;
        let request = BlockRequest {
            owner: InodeNr::ROOT,
            goal: core.geometry().first_data_block,
            count_max: 1,
            window: None,
            place: None,
            is_narrow: false,
        };
        let run = core.allocate_blocks(&mut handle, &request)?;
        handle.finish()?;
        Ok(run.first)
    })?;
    superblock.raw.mmp_block.set(block.get());
    superblock.raw.mmp_update_interval.set(seconds);
    let place = Place::at(superblock, block);
    write_clean(device, &place)?;
    take_over(device, superblock)
}

/// Frees the block, after the superblock has ceased to name it.
pub(super) fn free(
    device: &Arc<dyn BlockDevice>,
    superblock: &mut Superblock,
    block: BlockNr,
) -> Result<()> {
    write(device, superblock)?;
    with_core(device, |core| {
        let mut handle = core.begin(credits())?;
        let run = Run {
            first: block,
            count: 1,
        };
        core.free_blocks(&mut handle, run)?;
        handle.finish().map(drop)
    })?;
    take_over(device, superblock)
}

fn credits() -> Credits {
    Credits {
        blocks: CREDITS_PER_GROUP,
        revokes: 0,
    }
}

/// Marks a volume as used by no node, whatever its block of the protection says. The caller knows
/// that no node uses it.
///
/// # Errors
/// - [`Error::Invalid`] if the volume has no multiple mount protection.
/// - [`Error::Unsupported`] if the block that the superblock names does not look like it.
/// - [`Error::Device`] if the device fails.
pub fn clear_multi_mount(device: &Arc<dyn BlockDevice>) -> Result<()> {
    let superblock = crate::disk::superblock::read_before_replay(device)?;
    if let Some(why) = superblock.only_read_because() {
        return Err(Error::Unsupported(why));
    }
    let place = Place::of(&superblock)?;
    let place = place.ok_or(Error::Invalid(
        "the volume has no multiple mount protection",
    ))?;
    if let Err(Error::Corrupt(_)) = place.read(device) {
        return Err(Error::Unsupported(format!(
            "block {} is no block of multiple mount protection: e2fsck finds out which one is",
            place.block
        )));
    }
    write_clean(device, &place)
}

fn write_clean(device: &Arc<dyn BlockDevice>, place: &Place) -> Result<()> {
    let record = Record {
        seconds: rt::wall().seconds.max(0).cast_unsigned(),
        ..Record::own(device, SEQUENCE_CLEAN)
    };
    place.write(device, &record)?;
    Ok(device.flush()?)
}
