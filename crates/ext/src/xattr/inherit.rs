//! Attributes that a new inode inherits from the default ACL of its directory.
//!
//! | default ACL | new inode | its permissions | its access ACL | its default ACL |
//! |---|---|---|---|---|
//! | no | any | requested, without the umask | none | none |
//! | yes | symbolic link | requested | none | none |
//! | yes | directory | common to request and ACL | restricted | inherited |
//! | yes | other | common to request and ACL | restricted | none |
//!
//! A restricted ACL grants what both the request and the default ACL grant; it is stored only if a
//! mode is not equivalent. The umask counts only without a default ACL. Nothing is inherited on a
//! volume that is being created (`is_being_made`).

use layout::InodeNr;

use super::change::{self, Change};
use super::contents;
use super::list::List;
use super::name::AttributeName;
use super::placement::{Placed, Room};
use crate::cache::quotas::Owners;
use crate::core::Core;
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::disk::new_inode::NewInode;
use crate::error::Result;

/// The inherited part of a new inode.
pub(crate) struct Inherited {
    /// Its permission bits.
    pub(crate) permissions: u16,
    /// Its attributes, if it gets any.
    pub(crate) change: Option<Change>,
    /// True if it keeps its contents within itself (`inline_data`).
    pub(crate) is_inline: bool,
}

/// Returns the inherited part of a new inode of these owners in this directory. Values in inodes of
/// their own are stored, and nothing else changes; the owners have entries in the quota files.
pub(crate) fn inherit(
    core: &Core,
    parent: InodeNr,
    parent_state: &InodeState,
    kind: FileKind,
    (new, owners): (&NewInode, Owners),
) -> Result<Inherited> {
    let room = Room::of_new(&core.superblock);
    let own = contents::of_new(core, kind, room);
    let is_inline = own.is_some();
    let mut placed = Placed {
        inode: own.unwrap_or_default(),
        ..Placed::default()
    };
    let permissions = hand_down(core, (parent, parent_state), kind, new, (&mut placed, room))?;
    let [uid, gid, project] = owners;
    let mut fresh = InodeState::fresh(kind, permissions, uid, gid, 0);
    fresh.project = project;
    let change = if placed == Placed::default() {
        None
    } else {
        Some(Change::new(
            core,
            parent,
            &fresh,
            &Placed::default(),
            placed,
        )?)
    };
    Ok(Inherited {
        permissions,
        change,
        is_inline,
    })
}

/// Adds the attributes that the directory hands down. Returns the permission bits.
fn hand_down(
    core: &Core,
    (parent, parent_state): (InodeNr, &InodeState),
    kind: FileKind,
    new: &NewInode,
    (placed, room): (&mut Placed, Room),
) -> Result<u16> {
    // While a volume is created from a tree, an inode gets the attributes of the original and no
    // others.
    let is_restored = core.options.is_being_made && !rt::mutant!("inherit/while-being-made");
    if kind == FileKind::Symlink || is_restored {
        return Ok(new.permissions);
    }
    let name = AttributeName::of_list(true);
    let (of_parent, _) = change::read(core, parent, parent_state)?;
    let Some(handed_down) = of_parent.get(&name) else {
        return Ok(new.permissions & !new.umask);
    };
    let handed_down = super::bytes_of(core, (parent, parent_state), &name, handed_down)?;
    let list = List::from_ext(parent, &handed_down);
    let mut list = list.map_err(|damage| core.damaged(damage))?;
    let permissions = list.restrict(new.permissions);
    if !list.is_minimal() {
        placed.put(&AttributeName::of_list(false), &list.to_ext(), room)?;
    }
    if kind == FileKind::Directory {
        placed.put(&name, &handed_down, room)?;
    }
    Ok(permissions)
}
