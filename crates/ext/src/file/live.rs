//! The check that an inode has contents.

use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::error::{Error, Result};

/// Checks that the inode still exists and has contents.
pub(crate) fn check_live(state: &InodeState) -> Result<()> {
    state.check_exists()?;
    match state.kind {
        FileKind::Regular => Ok(()),
        FileKind::Directory => Err(Error::IsDirectory),
        _ => Err(Error::Invalid("only a regular file has contents here")),
    }
}
