//! What a new inode gets from the list that its directory hands down.
//!
//! | directory hands down | new inode | its permissions | its list | its list to inherit |
//! |---|---|---|---|---|
//! | nothing | any | asked for, without the umask | none | none |
//! | a list | symbolic link | asked for | none | none |
//! | a list | directory | what both have | the same, if a mode does not say it all | the list |
//! | a list | other | what both have | the same, if a mode does not say it all | none |
//!
//! The umask counts only where nothing is handed down. Nothing is inherited on a volume that is being made (`is_being_made`).

use layout::InodeNr;

use super::change::{self, Change};
use super::list::List;
use super::name::AttributeName;
use super::placement::{Placed, Room};
use crate::core::Core;
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::disk::new_inode::NewInode;
use crate::error::Result;

/// What becomes of a new inode.
pub(crate) struct Inherited {
    /// Its permission bits.
    pub(crate) permissions: u16,
    /// Its attributes, if it gets any.
    pub(crate) change: Option<Change>,
}

/// What a new inode in this directory gets. Nothing is changed.
pub(crate) fn inherit(
    core: &Core,
    parent: InodeNr,
    parent_state: &InodeState,
    kind: FileKind,
    new: &NewInode,
) -> Result<Inherited> {
    let plain = |permissions| Inherited {
        permissions,
        change: None,
    };
    // A volume that is being made restores a tree: an inode has what the tree says, and no more.
    let is_restored = core.options.is_being_made && !rt::mutant!("inherit/while-being-made");
    if kind == FileKind::Symlink || is_restored {
        return Ok(plain(new.permissions));
    }
    let name = AttributeName::of_list(true);
    let (of_parent, _) = change::read(core, parent, parent_state)?;
    let Some(handed_down) = of_parent.get(&name) else {
        return Ok(plain(new.permissions & !new.umask));
    };
    let list = List::from_ext(parent, handed_down);
    let mut list = list.map_err(|damage| core.damaged(damage))?;
    let permissions = list.restrict(new.permissions);
    let room = Room::of_new(&core.geometry);
    let mut placed = Placed::default();
    if !list.is_minimal() {
        placed.put(&AttributeName::of_list(false), &list.to_ext(), room)?;
    }
    if kind == FileKind::Directory {
        placed.put(&name, handed_down, room)?;
    }
    let fresh = InodeState::fresh(kind, permissions, new.uid, new.gid, 0);
    let change = if placed == Placed::default() {
        None
    } else {
        Some(Change::new(core, &fresh, &Placed::default(), placed)?)
    };
    Ok(Inherited {
        permissions,
        change,
    })
}
