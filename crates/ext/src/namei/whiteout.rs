//! The whiteout that a rename leaves at the old name to hide an entry of a lower layer: a character
//! device with the number 0:0, which overlay file systems recognize.
//!
//! It is created in the rename's transaction, so that after a crash the entry has moved and is
//! hidden, or neither. It inherits nothing of its directory but the group, because it is never
//! opened.

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
use crate::quota::{self, Claims};

/// Adds entries for the owners of a whiteout to the quota files.
pub(super) fn prepare<'c>(
    core: &'c Core,
    parent_state: &InodeState,
    owner: WhiteoutOwner,
) -> Result<Claims<'c>> {
    let owners = create::owners_of(core, parent_state, &new_inode(owner));
    quota::prepare(core, owners)
}

fn new_inode(owner: WhiteoutOwner) -> NewInode {
    NewInode {
        permissions: 0,
        umask: 0,
        uid: owner.uid,
        gid: owner.gid,
    }
}

/// Allocates an inode without contents and name.
pub(super) fn allocate(
    core: &Core,
    handle: &mut Handle<'_>,
    parent: &Inode,
    parent_state: &InodeState,
    owner: WhiteoutOwner,
) -> Result<Arc<Inode>> {
    let new = new_inode(owner);
    let state = fresh_state(core, parent_state, FileKind::CharacterDevice, &new, 0);
    create::allocate(core, handle, parent, state)
}

/// Stores the whiteout. If it fails it has changed nothing that stays.
pub(super) fn store(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
) -> Result<()> {
    // The words of a new inode already encode the number 0:0.
    let fill = &mut |_: &Core, _: &mut Handle<'_>, _: &Inode, _: &mut InodeState| Ok(());
    create::fill_and_store(core, handle, inode, state, fill, None)
}
