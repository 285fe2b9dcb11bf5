//! Finishing the deletions and truncations on the orphan list: at open those that a crash
//! interrupted, and later those that a failed device has left.

use layout::InodeNr;

use super::truncate::{delete, delete_or_leave, finish_truncation};
use crate::core::Core;
use crate::error::{Corrupt, Error, Result};
use crate::orphan;

/// At open: finishes every deletion and truncation on the list. Returns how many (deleted, truncated).
///
/// # Errors
/// - [`Corrupt::Orphan`] for a list that cannot be believed: nothing is changed.
pub(crate) fn clean_up(core: &Core) -> Result<(usize, usize)> {
    let (mut deleted, mut truncated) = (0, 0);
    for nr in orphan::load(core)? {
        match finish_one(core, nr) {
            Ok(true) => deleted += 1,
            Ok(false) => truncated += 1,
            Err(Error::Corrupt(error)) => {
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
    let left = orphan::take_left(core);
    if rt::mutant!("orphan/left-until-close") {
        return Ok(());
    }
    let mut result = Ok(());
    for nr in left {
        // Whatever has been done with it since, it is deleted only if it has no name and nobody has it open.
        let inode = core.inode(nr);
        match inode.and_then(|inode| delete_or_leave(core, &inode)) {
            Ok(()) | Err(Error::NotFound) => {}
            Err(error) => result = result.and(Err(error)),
        }
    }
    result
}

/// At close: tries once more what a device that failed has left on the list. What it refuses again is left to the next open, and the
/// volume is not called clean.
pub(crate) fn finish_left(core: &Core) {
    let listed = orphan::listed(core);
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
    let left = orphan::listed(core);
    if let Some(inode) = left.into_iter().next() {
        let why = "it stays on the list of a volume that is closed";
        core.note_damage(&Corrupt::Orphan { inode, why });
    }
}

/// Finishes one orphan; whether it was deleted.
fn finish_one(core: &Core, nr: InodeNr) -> Result<bool> {
    let inode = core.inode(nr)?;
    let has_links = {
        let mut state = inode.state.write();
        state.is_orphan = true;
        state.dtime = 0;
        state.links > 0
    };
    if has_links {
        finish_truncation(core, &inode)?;
    } else {
        delete(core, &inode)?;
    }
    Ok(!has_links)
}
