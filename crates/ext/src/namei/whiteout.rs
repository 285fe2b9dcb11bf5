//! What a rename leaves at the old name if it is to hide what lies below: a character device with the number 0:0, as overlay
//! file systems know it.
//!
//! It is made in the rename's own transaction, so that after a crash the name has moved and is hidden, or neither. It inherits nothing of
//! its directory but the group: nobody opens it.

use std::sync::Arc;

use super::create::{self, fresh_state};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::disk::new_inode::NewInode;
use crate::error::Result;
use crate::namei::WhiteoutOwner;

/// A new inode that is not filled and has no name yet.
pub(super) fn allocate(
    core: &Core,
    handle: &mut Handle<'_>,
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
    create::allocate(core, handle, parent, state)
}

/// Stores it. When this fails it has changed nothing that stays.
pub(super) fn store(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
) -> Result<()> {
    // The number 0:0 is what the map of a new inode says.
    let fill = &mut |_: &Core, _: &mut Handle<'_>, _: &Inode, _: &mut InodeState| Ok(());
    create::fill_and_store(core, handle, inode, state, fill, None)
}
