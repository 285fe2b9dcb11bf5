//! Completion of the deletions and truncations on the orphan list: at open those that a crash
//! interrupted, and later those that failed with a device.

use layout::{BlockNr, InodeNr};

use super::truncate::{delete, finish_truncation};
use crate::core::Core;
use crate::disk::metadata::Label;
use crate::error::{Corrupt, Error, Result};
use crate::orphan;

/// Completes every deletion and truncation on the list, at open, and clears stale slots of the
/// orphan file, whose blocks are given. Returns the number of deletions and of truncations.
///
/// # Errors
/// - [`Corrupt::Orphan`] for an invalid list: no orphan is completed. On a volume with an orphan
///   file the open has checked the list before, when nothing was changed.
pub(crate) fn clean_up(core: &Core, orphan_file: &[(BlockNr, Label)]) -> Result<(usize, usize)> {
    let (mut deleted, mut truncated) = (0, 0);
    let listed = orphan::load(core, orphan_file)?;
    orphan::clear_stale(core)?;
    for nr in listed {
        match finish_one(core, nr) {
            Ok(true) => deleted += 1,
            Ok(false) => truncated += 1,
            // It was a value of the orphan before it, and went with that.
            Err(Error::NotFound) if core.superblock.has_ea_inode() => {}
            // Damage that was noted on the way has made the volume read-only.
            Err(error @ (Error::Corrupt(_) | Error::ReadOnly)) => {
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

/// Retries, at close, the operations that a failed device has left on the list. Those that fail
/// again are left to the next open, and the volume is not marked clean.
pub(crate) fn finish_left(core: &Core) {
    let listed = orphan::listed(core);
    for nr in listed {
        if core.check_writable().is_err() {
            break;
        }
        if let Err(error) = finish_one(core, nr) {
            tracing::error!(inode = %nr, %error, "an inode stays on the orphan list");
            if error.is_device_full() {
                // Nothing is wrong with the volume. The log is kept, and the next open continues.
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

/// Completes one orphan; returns true if it was deleted.
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
