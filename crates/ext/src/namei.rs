//! Changes of the tree: create, mkdir, mknod, symlink, link, unlink, rmdir, rename. Each is one
//! transaction, and so atomic across a crash.
//!
//! # Rules
//!
//! - Steps that can fail precede the first change: look-ups, reads of blocks, allocation. If space
//!   runs out and a commit would release freed blocks, the step leaves nothing changed and is
//!   retried after a commit.
//! - A file that loses its last link goes onto the orphan list in the same transaction. If it is
//!   not open it is deleted at once, in separate steps; otherwise when the last handle closes.

//! # Lock order
//!
//! The order is that of Linux's VFS, in `Documentation/filesystems/directory-locking`:
//!
//! 1. The rename lock of the volume, for operations that move an entry between directories, move
//!    the entry of a directory, or exchange two entries. The tree of directories changes only under
//!    it, except for new and removed leaves.
//! 2. Directories, before everything else: an ancestor before its descendants. Two that are not
//!    related are locked by number, which only the holder of the rename lock does; so no cycle of
//!    waiting threads arises.
//! 3. Other inodes, by number.
//!
//! An inode's kind never changes and is known without its lock, so that no inode that may lie above
//! a locked directory is locked just to find out its kind. A thread that reads a directory locks
//! nothing else meanwhile.

mod create;
mod link;
mod rename;
mod rename_mode;
mod replayed;
mod symlink;
mod unlink;
mod whiteout;

use std::sync::Arc;

use layout::InodeNr;
use layout::inode_flags::InodeFlags;

pub(crate) use create::{create, make_directory};
pub(crate) use link::link;
pub(crate) use rename::rename;
pub use rename_mode::{RenameMode, WhiteoutOwner};
pub(crate) use replayed::{Named, enter, enter_directory, leave};
pub(crate) use symlink::{read_link, symlink};
pub(crate) use unlink::{remove_directory, unlink};

use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::error::{Error, Result};

/// Largest link count of an inode.
const LINKS_MAX: u16 = 32_000;
/// Largest link count of an inode with `dir_nlink`.
const LINKS_MAX_EXT4: u16 = 65_000;
/// Length of the longest name in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Link count of a directory without subdirectories: its name and its `.`.
const LINKS_OF_DIRECTORY: u16 = 2;
/// Link count of a directory with too many subdirectories to count (`dir_nlink`).
const LINKS_UNCOUNTED: u16 = 1;

/// Checks that an inode may get a name in a directory: one that hands its project on takes only
/// inodes of that project.
fn check_project(directory: &InodeState, inode: &InodeState) -> Result<()> {
    let hands_on = directory.flags.contains(InodeFlags::PROJECT_INHERIT);
    if hands_on && directory.project != inode.project {
        return Err(Error::OtherProject);
    }
    Ok(())
}

/// Looks up a name in a directory.
pub(crate) fn lookup(core: &Core, parent: InodeNr, name: &[u8]) -> Result<InodeNr> {
    look_up(core, parent, name, Ok)
}

/// Looks up a name and pins its inode, before another thread can remove the entry.
pub(crate) fn look_up_and_pin(core: &Core, parent: InodeNr, name: &[u8]) -> Result<Arc<Inode>> {
    look_up(core, parent, name, |nr| {
        let inode = core.fetch_inode(nr)?;
        core.inodes.pin(&inode);
        Ok(inode)
    })
}

/// Looks up a name, and calls `then` with its inode while the directory is locked.
fn look_up<T>(
    core: &Core,
    parent: InodeNr,
    name: &[u8],
    then: impl FnOnce(InodeNr) -> Result<T>,
) -> Result<T> {
    rt::charge(rt::Cost::Lookup);
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::NameTooLong);
    }
    let directory = core.inode(parent)?;
    let state = directory.state.read();
    check_is_directory(&state)?;
    match crate::dir::find(core, &directory, &state, name)? {
        Some((nr, _)) => then(nr),
        None => Err(Error::NotFound),
    }
}

/// Checks a name to be added: neither empty, nor too long, nor one of the two that every directory
/// has.
fn check_new_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::NameTooLong);
    }
    if name == b"." || name == b".." {
        return Err(Error::Exists);
    }
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        return Err(Error::Invalid(
            "a name is not empty and holds neither '/' nor a zero byte",
        ));
    }
    Ok(())
}

/// Checks a name to be removed.
fn check_old_name(name: &[u8]) -> Result<()> {
    match name {
        b"." => Err(Error::Invalid("\".\" cannot be removed or renamed")),
        b".." => Err(Error::NotEmpty),
        name if name.len() > NAME_BYTES_MAX => Err(Error::NameTooLong),
        _ => Ok(()),
    }
}

fn check_is_directory(state: &InodeState) -> Result<()> {
    if state.kind == FileKind::Directory {
        Ok(())
    } else {
        Err(Error::NotDirectory)
    }
}

/// Checks that names of a directory can be encrypted: there are no keys here.
fn check_has_key(state: &InodeState) -> Result<()> {
    match state.flags.contains(InodeFlags::ENCRYPT) {
        true => Err(Error::NoKey),
        false => Ok(()),
    }
}

/// Checks that a directory may get another parent: its `..` changes.
fn check_moves(state: &InodeState) -> Result<()> {
    let is_folded = state.flags.contains(InodeFlags::CASEFOLD);
    match is_folded && state.kind == FileKind::Directory {
        true => Err(Error::CaseFolded),
        false => Ok(()),
    }
}

/// Checks that a directory accepts new entries: still linked, not immutable, and its names can be
/// changed without Unicode.
fn check_takes_names(state: &InodeState) -> Result<()> {
    check_is_directory(state)?;
    if state.links == 0 {
        return Err(Error::NotFound);
    }
    if state.flags.contains(InodeFlags::CASEFOLD) {
        return Err(Error::CaseFolded);
    }
    if state.flags.contains(InodeFlags::IMMUTABLE) {
        Err(Error::NotPermitted)
    } else {
        Ok(())
    }
}

/// Checks that entries of a directory may be removed: neither immutable nor append-only.
fn check_loses_names(state: &InodeState) -> Result<()> {
    check_takes_names(state)?;
    if state.flags.contains(InodeFlags::APPEND) {
        Err(Error::NotPermitted)
    } else {
        Ok(())
    }
}

/// Checks that an inode's links may change: neither immutable nor append-only.
fn check_name_changes(state: &InodeState) -> Result<()> {
    if state
        .flags
        .intersects(InodeFlags::IMMUTABLE | InodeFlags::APPEND)
    {
        Err(Error::NotPermitted)
    } else {
        Ok(())
    }
}

/// Returns the largest link count of an inode.
fn links_max(core: &Core) -> u16 {
    if core.superblock.has_dir_nlink() {
        LINKS_MAX_EXT4
    } else {
        LINKS_MAX
    }
}

/// Checks that an inode that is no directory may have one more link.
fn check_takes_link(core: &Core, state: &InodeState) -> Result<()> {
    if state.links < links_max(core) {
        Ok(())
    } else {
        Err(Error::TooManyLinks)
    }
}

/// Checks that a directory may have one more subdirectory.
fn check_takes_subdirectory(core: &Core, state: &InodeState) -> Result<()> {
    if stops_counting(core, state) {
        return Ok(());
    }
    check_takes_link(core, state)
}

/// Returns true if the directory's links are counted no more once they are too many: with
/// `dir_nlink`, if it is indexed.
fn stops_counting(core: &Core, state: &InodeState) -> bool {
    core.superblock.has_dir_nlink() && state.flags.contains(InodeFlags::INDEX)
}

/// Increments the link count for a new subdirectory, or ends the count of a directory that has too
/// many.
fn gain_subdirectory(core: &Core, handle: &mut Handle<'_>, state: &mut InodeState) {
    if state.links == LINKS_UNCOUNTED {
        return;
    }
    let is_last = state.links >= links_max(core) && stops_counting(core, state);
    let is_last = is_last && !rt::mutant!("names/links-counted-on");
    let links = if is_last {
        LINKS_UNCOUNTED
    } else {
        state.links + 1
    };
    state.claims(handle).links = links;
}

/// Decrements the link count for a removed subdirectory. A wrong count on a damaged volume never
/// drops below the directory's own two links, so that a directory with a name keeps its links.
fn lose_subdirectory(handle: &mut Handle<'_>, state: &mut InodeState) {
    let is_damaged = rt::mutant!("names/damaged-links-reach-zero") && state.links > 0;
    if state.links > LINKS_OF_DIRECTORY || is_damaged {
        state.claims(handle).links -= 1;
    }
}

/// Deletes the inode after an entry was removed, if it has no links left and is not open. Freeing
/// its blocks is not part of the operation: if they cannot be read, the inode stays on the orphan
/// list, and the next open deletes it.
fn delete_if_unused(core: &Core, inode: &Arc<Inode>) -> Result<()> {
    let has_links = inode.state.read().links > 0;
    if has_links || core.inodes.is_pinned(inode) {
        return Ok(());
    }
    crate::file::delete_or_leave(core, inode)
}
