//! What changes the tree: create, mkdir, mknod, symlink, link, unlink, rmdir, rename. Each is one transaction, so that after
//! a crash it has happened or has not.
//!
//! # Rules
//!
//! - What can fail is done before the first change: look-ups, reads of blocks, allocation. When space runs out and blocks
//!   freed by uncommitted transactions would help, the step is given up unchanged, committed, and tried again.
//! - A file that loses its last name goes onto the orphan list in the same transaction. If nobody has it open it is deleted
//!   at once, in steps of its own; otherwise when the last handle closes.

//! # The order of locks
//!
//! That of Linux's VFS, as `Documentation/filesystems/directory-locking` has it:
//!
//! 1. The rename lock of the volume, for what moves a name between directories, moves a directory's name, or exchanges two names. The tree of directories
//!    changes only under it, but for new and removed leaves.
//! 2. Directories, before everything else: an ancestor before what lies in it. Two that do not lie in each other are locked by number,
//!    which only the holder of the rename lock does; so nobody waits for him in a circle.
//! 3. Other inodes, by number.
//!
//! An inode's kind never changes and is known without its lock: what may lie above a locked directory is not locked to be asked.
//! Whoever reads a directory locks nothing else meanwhile.

mod create;
mod link;
mod rename;
mod rename_mode;
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
pub(crate) use symlink::{read_link, symlink};
pub(crate) use unlink::{remove_directory, unlink};

use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::error::{Error, Result};

/// Links that an inode may have.
const LINKS_MAX: u16 = 32_000;
/// Bytes that a name may have.
const NAME_BYTES_MAX: usize = 255;

/// The links of a directory without subdirectories: its name and its `.`.
const LINKS_OF_DIRECTORY: u16 = 2;
/// The link count of a directory whose subdirectories are too many to count (`dir_nlink`).
const LINKS_UNCOUNTED: u16 = 1;

/// Looks a name up in a directory.
pub(crate) fn lookup(core: &Core, parent: InodeNr, name: &[u8]) -> Result<InodeNr> {
    look_up(core, parent, name, Ok)
}

/// Looks a name up and pins what it names, before anybody can take the name away.
pub(crate) fn look_up_and_pin(core: &Core, parent: InodeNr, name: &[u8]) -> Result<Arc<Inode>> {
    look_up(core, parent, name, |nr| {
        let inode = core.fetch_inode(nr)?;
        core.inodes.pin(&inode);
        Ok(inode)
    })
}

/// Looks a name up, and does something with what it names while the directory is locked.
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

/// A name that may be made: neither empty, nor too long, nor one of the two that every directory has.
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

/// A name that may be removed.
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

/// A directory that takes new names: still linked, not immutable.
fn check_takes_names(state: &InodeState) -> Result<()> {
    check_is_directory(state)?;
    if state.links == 0 {
        return Err(Error::NotFound);
    }
    if state.flags.contains(InodeFlags::IMMUTABLE) {
        Err(Error::NotPermitted)
    } else {
        Ok(())
    }
}

/// A directory that lets names go: neither immutable nor append-only.
fn check_loses_names(state: &InodeState) -> Result<()> {
    check_takes_names(state)?;
    if state.flags.contains(InodeFlags::APPEND) {
        Err(Error::NotPermitted)
    } else {
        Ok(())
    }
}

/// An inode whose names may change: neither immutable nor append-only.
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

/// Counts one subdirectory more.
fn gain_subdirectory(handle: &mut Handle<'_>, state: &mut InodeState) {
    if state.links != LINKS_UNCOUNTED {
        state.claims(handle).links += 1;
    }
}

/// Counts one subdirectory less. Whatever the count was, the directory keeps its own links: a directory that has a name is never
/// without links.
fn lose_subdirectory(handle: &mut Handle<'_>, state: &mut InodeState) {
    let is_damaged = rt::mutant!("names/damaged-links-reach-zero") && state.links > 0;
    if state.links > LINKS_OF_DIRECTORY || is_damaged {
        state.claims(handle).links -= 1;
    }
}

/// After a name is gone: deletes the inode if it has no name left and nobody has it open. Freeing what it held is no part of
/// the operation: if that cannot be read, the inode stays on the orphan list, and the next open deletes it.
fn delete_if_unused(core: &Core, inode: &Arc<Inode>) -> Result<()> {
    let has_links = inode.state.read().links > 0;
    if has_links || core.inodes.is_pinned(inode) {
        return Ok(());
    }
    crate::file::delete_or_leave(core, inode)
}
