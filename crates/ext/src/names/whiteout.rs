//! What a rename leaves at the old name if it is to hide what lies below: a character device with the number 0:0, as overlay
//! file systems know it.
//!
//! It is made in the rename's own transaction, so that after a crash the name has moved and is hidden, or neither. It inherits nothing of
//! its directory but the group: nobody opens it.

use std::sync::Arc;

use super::create::{fresh_state, make_inode};
use crate::core::Core;
use crate::error::Result;
use crate::inode::{FileKind, Inode, InodeState};
use crate::transaction::Transaction;
use crate::volume::{NewInode, WhiteoutOwner};

/// A new inode that has no name yet. When this fails it has changed nothing that stays.
pub(super) fn make(
    core: &Core,
    transaction: &mut Transaction<'_>,
    parent: &Inode,
    parent_state: &InodeState,
    owner: WhiteoutOwner,
) -> Result<Arc<Inode>> {
    let new = NewInode {
        permissions: 0,
        umask: 0,
        uid: owner.uid,
        gid: owner.gid,
    };
    let state = fresh_state(parent_state, FileKind::CharacterDevice, &new, 0);
    // The number 0:0 is what the map of a new inode says.
    make_inode(
        core,
        transaction,
        parent,
        state,
        &mut |_, _, _, _| Ok(()),
        None,
    )
}
