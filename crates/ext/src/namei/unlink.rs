//! Removing directory entries.

use std::sync::Arc;

use jbd2::Credits;
use layout::inode_flags::InodeFlags;
use layout::{FileBlock, InodeNr};

use super::{
    check_loses_names, check_name_changes, check_old_name, delete_if_unused, lose_subdirectory,
};
use crate::alloc::CREDITS_INODE;
use crate::cache::fast_changes::NameChange;
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::credits::Step;
use crate::core::handle::Handle;
use crate::disk::inode::{InodeState, now};
use crate::disk::kind::FileKind;
use crate::error::{Corrupt, Error, Result};
use crate::{dir, file, orphan, writeback};

/// Number of blocks that removing an entry may dirty: leaf, both inodes, the orphan list.
pub(super) const CREDITS_UNLINK: u32 = 3 + orphan::CREDITS_ORPHAN;

/// Removes an entry that is not a directory's.
pub(crate) fn unlink(core: &Core, parent: InodeNr, name: &[u8]) -> Result<()> {
    core.check_writable()?;
    check_old_name(name)?;
    let directory = core.inode(parent)?;
    let mut parent_state = directory.state.write();
    check_loses_names(&parent_state)?;
    let inode = find_child(core, &directory, &parent_state, name)?;
    if inode.kind == FileKind::Directory {
        return Err(Error::IsDirectory);
    }
    let synced = {
        let mut state = inode.state.write();
        check_name_changes(&state)?;
        let _held = core.hold_for_names(&[parent, inode.nr])?;
        // If its bitmap cannot be read, the inode has to wait on the orphan list.
        let is_last = state.links == 1 && file::is_deleted_at_once(core, &inode, &state);
        let bitmap = is_last.then(|| core.hold_inode_bitmap(inode.nr).ok());
        let bitmap = bitmap.flatten();
        let mut credits = Credits::blocks(CREDITS_UNLINK);
        if bitmap.is_some() {
            file::settle_reads(&inode);
            credits = credits.plus(Credits::blocks(CREDITS_INODE));
        }
        let mut handle = core.begin(core.credits(Step::Unlink, credits))?;
        // Tags have names, which a replay would look up as they are shown.
        if !parent_state.flags.contains(InodeFlags::ENCRYPT) {
            handle.describe();
        }
        dir::remove(core, &mut handle, &directory, &mut parent_state, name)?;
        if rt::mutant!("names/unlink-in-two-steps") {
            let blocks = handle.credits_left();
            handle.restart(Credits { blocks, revokes: 0 })?;
        }
        if bitmap.is_some() {
            state.claims(&mut handle).links = 0;
            state.ctime = now();
        } else {
            drop_link(core, &mut handle, inode.nr, &mut state)?;
        }
        let place = (parent, name);
        handle.note_name(NameChange::Unlinked, place, inode.nr, state.links == 0);
        parent_state.mtime = state.ctime;
        parent_state.ctime = state.ctime;
        parent_state.store(core, &mut handle, parent, true)?;
        let deleted = match bitmap {
            Some(_) => file::delete_at_once(core, &mut handle, &inode, &mut state),
            None => Ok(()),
        };
        let tid = handle.finish()?;
        drop(state);
        writeback::sync_operation(core, &parent_state, tid).and(deleted)
    };
    drop(parent_state);
    end_removal(core, &inode, synced)
}

/// Deletes an inode that has lost its entry, if it is not in use, even if the removal could not be
/// made durable.
pub(super) fn end_removal(core: &Core, inode: &Arc<Inode>, synced: Result<()>) -> Result<()> {
    if synced.is_err() && rt::mutant!("names/not-deleted-unless-durable") {
        return synced;
    }
    synced.and(delete_if_unused(core, inode))
}

/// Removes an empty directory.
pub(crate) fn remove_directory(core: &Core, parent: InodeNr, name: &[u8]) -> Result<()> {
    core.check_writable()?;
    if name == b"." || name == b".." {
        check_old_name(name)?;
    }
    let directory = core.inode(parent)?;
    let (mut parent_state, inode) = loop {
        let nr = check_lies_in(core, parent, name)?;
        let parent_state = directory.state.write();
        check_loses_names(&parent_state)?;
        let inode = find_child(core, &directory, &parent_state, name)?;
        if inode.kind != FileKind::Directory {
            return Err(Error::NotDirectory);
        }
        if inode.nr == nr {
            break (parent_state, inode);
        }
    };
    let synced = {
        let mut state = inode.state.write();
        check_name_changes(&state)?;
        if !dir::is_empty(core, &inode, &state)? {
            return Err(Error::NotEmpty);
        }
        let _held = core.hold_for_names(&[parent, inode.nr])?;
        let mut handle = core.begin(core.credits(Step::Unlink, Credits::blocks(CREDITS_UNLINK)))?;
        dir::remove(core, &mut handle, &directory, &mut parent_state, name)?;
        drop_directory(core, &mut handle, inode.nr, &mut state)?;
        lose_subdirectory(&mut handle, &mut parent_state);
        parent_state.mtime = state.ctime;
        parent_state.ctime = state.ctime;
        parent_state.store(core, &mut handle, parent, true)?;
        let tid = handle.finish()?;
        drop(state);
        writeback::sync_operation(core, &parent_state, tid)
    };
    drop(parent_state);
    end_removal(core, &inode, synced)
}

/// Checks that the `..` of a directory refers to the directory with its entry, and returns its
/// number. On a damaged volume an entry may refer to an ancestor, and a thread that locks along it
/// could deadlock with one that locks downwards.
fn check_lies_in(core: &Core, parent: InodeNr, name: &[u8]) -> Result<InodeNr> {
    let look = || {
        let nr = super::lookup(core, parent, name)?;
        let inode = core.inode(nr)?;
        if inode.kind != FileKind::Directory {
            return Err(Error::NotDirectory);
        }
        if nr == InodeNr::ROOT {
            return Err(Error::Invalid("the root directory cannot be removed"));
        }
        let state = inode.state.read();
        let up = dir::find(core, &inode, &state, b"..")?;
        Ok((nr, up.is_some_and(|(up, _)| up == parent)))
    };
    if let (nr, true) = look()? {
        return Ok(nr);
    }
    // The directory may have been moved between the two look-ups. The rename lock prevents that.
    let _moves = core.rename.lock();
    let (nr, lies_in) = look()?;
    if lies_in {
        return Ok(nr);
    }
    let why = "its \"..\" is not the directory that names it";
    let (file_block, offset) = (FileBlock::new(0), 0);
    Err(core.damaged(Corrupt::Directory {
        inode: nr,
        file_block,
        offset,
        why,
    }))
}

/// Returns the inode of a name.
pub(super) fn find_child(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    name: &[u8],
) -> Result<Arc<Inode>> {
    match dir::find(core, directory, state, name)? {
        Some((nr, _)) if nr == directory.nr => Err(Error::Invalid("the entry names its directory")),
        Some((nr, _)) => core.inode(nr),
        None => Err(Error::NotFound),
    }
}

/// Decrements the link count; an inode without links goes onto the orphan list. Stores the inode.
pub(super) fn drop_link(
    core: &Core,
    handle: &mut Handle<'_>,
    nr: InodeNr,
    state: &mut InodeState,
) -> Result<()> {
    let links = state.links.saturating_sub(1);
    state.claims(handle).links = links;
    state.ctime = now();
    if state.links == 0 {
        orphan::add(core, handle, nr, state)?;
    }
    if rt::mutant!("names/link-count-not-stored") && state.links > 0 {
        state.discard(handle);
        return Ok(());
    }
    state.store(core, handle, nr, true)
}

/// Removes the links of an empty directory and puts it onto the orphan list. Stores the inode.
pub(super) fn drop_directory(
    core: &Core,
    handle: &mut Handle<'_>,
    nr: InodeNr,
    state: &mut InodeState,
) -> Result<()> {
    state.claims(handle).links = 0;
    state.ctime = now();
    orphan::add(core, handle, nr, state)?;
    state.store(core, handle, nr, true)
}
