//! The checks that an inode has contents, and that they can be read and changed.
//!
//! Every change of contents calls [`begin_change`] with the inode's lock, before its first handle.

use layout::inode_flags::InodeFlags;

use crate::core::Core;
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::error::{Error, Result};

/// Checks that the inode still exists and has contents that can be read: there are no keys here.
pub(crate) fn check_live(state: &InodeState) -> Result<()> {
    state.check_exists()?;
    match state.kind {
        FileKind::Regular if state.flags.contains(InodeFlags::ENCRYPT) => Err(Error::NoKey),
        FileKind::Regular => Ok(()),
        FileKind::Directory => Err(Error::IsDirectory),
        _ => Err(Error::Invalid("only a regular file has contents here")),
    }
}

/// Checks that the inode still exists and has contents that can be changed.
pub(crate) fn check_changeable(state: &InodeState) -> Result<()> {
    check_live(state)?;
    match state.flags.contains(InodeFlags::VERITY) {
        true => Err(Error::Verity),
        false => Ok(()),
    }
}

/// Checks that contents can be changed now, and makes a move of blocks durable that is not yet.
///
/// # Errors
/// - [`Error::ReadOnly`] if another thread's failure has made the volume read-only while the caller
///   waited for the lock.
/// - The error of the commit.
pub(crate) fn begin_change(core: &Core, state: &mut InodeState) -> Result<()> {
    check_changeable(state)?;
    core.check_writable()?;
    if state.has_moved {
        core.commit(state.last_tid)?;
        state.has_moved = false;
    }
    Ok(())
}
