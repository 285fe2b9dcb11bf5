//! The locks of the inodes whose names a rename changes.

use std::sync::Arc;

use rt::RwLockWriteGuard;

use crate::cache::inode::Inode;
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;

pub(super) type Guard<'a> = RwLockWriteGuard<'a, InodeState>;

/// Locks the moved inode and the existing one: a directory first, two of a kind by number.
pub(super) fn lock_children<'a>(
    moved: &'a Arc<Inode>,
    existing: Option<&'a Arc<Inode>>,
) -> (Guard<'a>, Option<Guard<'a>>) {
    let place = |inode: &Inode| {
        let by_number = rt::mutant!("names/children-locked-by-number");
        (by_number || inode.kind != FileKind::Directory, inode.nr)
    };
    match existing {
        Some(existing) if place(existing) < place(moved) => {
            let other = existing.state.write();
            (moved.state.write(), Some(other))
        }
        Some(existing) => {
            let state = moved.state.write();
            (state, Some(existing.state.write()))
        }
        None => (moved.state.write(), None),
    }
}
