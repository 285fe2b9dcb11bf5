//! Creating inodes with a first name: files, nodes and directories.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use jbd2::Credits;
use layout::device::DeviceNumber;
use layout::inode_flags::InodeFlags;
use layout::{InodeNr, Tid};
use rt::RwLockWriteGuard;

use super::{
    check_has_key, check_new_name, check_takes_names, check_takes_subdirectory, delete_if_unused,
    gain_subdirectory,
};
use crate::cache::fast_changes::NameChange;
use crate::cache::inode::Inode;
use crate::cache::quotas::Owners;
use crate::core::Core;
use crate::core::credits::Step;
use crate::core::handle::{CREDITS_MAX, CREDITS_MAX_EXTENTS, Handle};
use crate::disk::inode::{InodeState, now};
use crate::disk::kind::FileKind;
use crate::disk::new_inode::NewInode;
use crate::error::{Error, Result};
use crate::map::FileMap;
use crate::xattr::{self, Change, Inherited};
use crate::{alloc, dir, file, quota, writeback};

/// The set-gid bit of a directory: new entries inherit its group, and new directories also the bit.
const SET_GID: u16 = layout::mode::SET_GID;
/// Returns the number of blocks that adding one entry may dirty: leaf and index blocks, their
/// allocation, the directory's block map and inode.
pub(super) fn credits_to_name(core: &Core, directory: FileMap) -> u32 {
    credits_to_name_with(core.superblock.has_large_dir(), directory)
}

/// Returns the number of blocks that adding one entry may dirty, by the depth of indexes.
pub(super) const fn credits_to_name_with(has_large_dir: bool, directory: FileMap) -> u32 {
    let more = if has_large_dir {
        dir::CREDITS_ADD_LARGE
    } else {
        0
    };
    dir::CREDITS_ADD + more + directory.credits_to_map_entry() + 1
}
/// Number of blocks that creating an inode may dirty, including its first block, to which the inode
/// points directly, and one block of inherited attributes.
pub(super) const CREDITS_NEW_INODE: u32 = alloc::CREDITS_INODE + 2 * (alloc::CREDITS_PER_GROUP + 1);

/// Number of blocks freed again if the entry cannot be added: the first block and the attribute
/// block.
const REVOKES: u32 = 2;

const _: () =
    assert!(CREDITS_NEW_INODE + credits_to_name_with(false, FileMap::Indirect) <= CREDITS_MAX);
const _: () = assert!(
    CREDITS_NEW_INODE + credits_to_name_with(true, FileMap::DEEPEST) <= CREDITS_MAX_EXTENTS
);

/// Number of values that a new inode inherits at most: those of two access control lists.
const INHERITED_VALUES_MAX: u32 = 2;
const _: () = assert!(
    CREDITS_NEW_INODE
        + credits_to_name_with(true, FileMap::DEEPEST)
        + xattr::credits_of_values(INHERITED_VALUES_MAX)
        <= CREDITS_MAX_EXTENTS
);

/// Creates a regular file, device node, fifo or socket. It is pinned, so that it is not deleted
/// before the caller has it.
pub(crate) fn create(
    core: &Core,
    parent: InodeNr,
    name: &[u8],
    kind: FileKind,
    device: DeviceNumber,
    new: &NewInode,
) -> Result<Arc<Inode>> {
    make(core, parent, name, kind, new, &mut |_, handle, _, state| {
        if matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice) {
            let words = device.encode();
            let words = words.ok_or(Error::Invalid("the device number is too large"))?;
            state.claims(handle).words.set_device(words);
        }
        Ok(())
    })
}

/// Creates a directory, which is pinned.
pub(crate) fn make_directory(
    core: &Core,
    parent: InodeNr,
    name: &[u8],
    new: &NewInode,
) -> Result<Arc<Inode>> {
    make(
        core,
        parent,
        name,
        FileKind::Directory,
        new,
        &mut |core, handle, inode, state| {
            state.claims(handle).links = 2;
            dir::initialise(core, handle, inode, state, parent)
        },
    )
}

/// A callback that writes a new inode's first contents, within the transaction that creates it.
pub(super) type Fill<'f> =
    &'f mut dyn FnMut(&Core, &mut Handle<'_>, &Inode, &mut InodeState) -> Result<()>;

/// Creates an inode and its entry in one transaction; `fill` writes its first contents. The inode
/// is pinned.
pub(super) fn make(
    core: &Core,
    parent: InodeNr,
    name: &[u8],
    kind: FileKind,
    new: &NewInode,
    fill: Fill<'_>,
) -> Result<Arc<Inode>> {
    core.check_writable()?;
    check_new_name(name)?;
    let directory = core.inode(parent)?;
    let (inode, synced) = file::with_values(core, || {
        let mut parent_state = directory.state.write();
        check_takes(core, &directory, &parent_state, name, kind)?;
        dir::make_room(core, &directory, &mut parent_state, name)?;
        let owners = owners_of(core, &parent_state, new);
        let _claims = quota::prepare(core, owners)?;
        let inherited = xattr::inherit(core, parent, &parent_state, kind, (new, owners))?;
        let place = (&directory, &mut *parent_state);
        let made = make_within(core, place, (name, kind, new), &mut *fill, &inherited);
        if let Some(change) = &inherited.change {
            change.end(core);
        }
        let (inode, tid) = made?;
        Ok((inode, writeback::sync_operation(core, &parent_state, tid)))
    })?;
    if let Err(error) = synced {
        // The caller gets no inode, so that nothing else would end the pin.
        let is_kept = rt::mutant!("names/pin-of-undurable-kept");
        if !is_kept && core.inodes.unpin(&inode) {
            delete_if_unused(core, &inode)?;
        }
        return Err(error);
    }
    Ok(inode)
}

/// Creates an inode and its entry in one transaction, in a directory that is locked. Its owners
/// have entries in the quota files. The inode is pinned.
fn make_within(
    core: &Core,
    (directory, parent_state): (&Arc<Inode>, &mut InodeState),
    (name, kind, new): (&[u8], FileKind, &NewInode),
    fill: Fill<'_>,
    inherited: &Inherited,
) -> Result<(Arc<Inode>, Option<Tid>)> {
    let parent = directory.nr;
    let change = inherited.change.as_ref();
    let of_values = change.map_or(0, Change::credits_for_values);
    let named = credits_to_name(core, FileMap::of(parent_state)) + of_values;
    let credits = Credits {
        blocks: CREDITS_NEW_INODE + named,
        revokes: REVOKES,
    };
    let _held = core.hold_for_names(&[parent])?;
    let mut handle = core.begin(core.credits(Step::Create, credits))?;
    let mut state = fresh_state(core, parent_state, kind, new, inherited.permissions);
    let has_map = matches!(kind, FileKind::Regular | FileKind::Directory);
    let has_flag = has_map || rt::mutant!("extents/flag-without-tree");
    if inherited.is_inline {
        state.use_inline();
    } else if has_flag && core.superblock.has_extents() {
        state.use_extents();
    }
    let inode = match allocate(core, &mut handle, directory, state) {
        Ok(inode) => inode,
        Err(error) => {
            handle.finish()?;
            return Err(error);
        }
    };
    let mut state = publish(core, &inode);
    let t = &mut handle;
    if let Err(error) = fill_and_store(core, t, &inode, &mut state, fill, change) {
        handle.finish()?;
        return Err(error);
    }
    if rt::mutant!("names/create-in-two-steps") {
        handle.restart(credits)?;
    }
    let added = dir::add(
        core,
        &mut handle,
        directory,
        parent_state,
        name,
        inode.nr,
        kind,
    );
    if let Err(error) = added {
        undo_inode(core, &mut handle, &inode, (&mut state, change))?;
        handle.finish()?;
        return Err(error);
    }
    match kind {
        FileKind::Directory => gain_subdirectory(core, &mut handle, parent_state),
        FileKind::Regular if change.is_none() => {
            handle.describe();
            handle.note_name(NameChange::Created, (parent, name), inode.nr, false);
        }
        _ => {}
    }
    parent_state.mtime = now();
    parent_state.ctime = parent_state.mtime;
    parent_state.store(core, &mut handle, parent, true)?;
    let tid = handle.finish()?;
    core.inodes.pin(&inode);
    drop(state);
    Ok((inode, tid))
}

/// Checks that a directory accepts a new inode with this name.
fn check_takes(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    name: &[u8],
    kind: FileKind,
) -> Result<()> {
    check_takes_names(state)?;
    if dir::find(core, directory, state, name)?.is_some() {
        return Err(Error::Exists);
    }
    check_has_key(state)?;
    match kind {
        FileKind::Directory => check_takes_subdirectory(core, state),
        _ => Ok(()),
    }
}

/// Allocates an inode, which no other thread can reach yet.
pub(super) fn allocate(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    mut state: InodeState,
) -> Result<Arc<Inode>> {
    let is_directory = state.kind == FileKind::Directory;
    let nr = core.allocate_inode(handle, directory.nr, is_directory)?;
    if let Some(generation) = core.made_generation(nr) {
        state.generation = generation;
    }
    Ok(Arc::new(Inode::new(nr, state)))
}

/// Inserts a new inode into the cache, locked: a thread that finds it by its number waits until it
/// has a name or is gone.
pub(super) fn publish<'i>(core: &Core, inode: &'i Arc<Inode>) -> RwLockWriteGuard<'i, InodeState> {
    let state = inode.state.try_write();
    let state = state.expect("nobody else can reach the inode");
    core.insert_inode(Arc::clone(inode));
    state
}

/// Writes the contents of a new inode and stores it. If it fails it has changed nothing that stays.
pub(super) fn fill_and_store(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    fill: Fill<'_>,
    change: Option<&Change>,
) -> Result<()> {
    let nr = inode.nr;
    let mut fill_and_store = || {
        fill(core, handle, inode, state)?;
        if let Some(change) = change {
            change.change_blocks(core, handle, nr, state)?;
        }
        state.store(core, handle, nr, true)?;
        match change {
            Some(change) => change.change_inode(core, handle, nr),
            None => Ok(()),
        }
    };
    if let Err(error) = fill_and_store() {
        // The unreadable block may be the inode's block of the table: then the first contents have
        // a block already.
        give_up(core, handle, inode, (state, change))?;
        if state.is_fresh {
            state.discard(handle);
        } else {
            // It was stored: checkers look at links, whatever the bitmap says.
            state.store(core, handle, nr, true)?;
            if !rt::mutant!("quota/undone-inode-kept") {
                core.release_share(handle, nr)?;
            }
        }
        free_number(core, handle, inode)?;
        return Err(error);
    }
    Ok(())
}

/// Undoes a new inode whose entry could not be added.
pub(super) fn undo_inode(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    (state, change): (&mut InodeState, Option<&Change>),
) -> Result<()> {
    give_up(core, handle, inode, (state, change))?;
    if rt::mutant!("names/undone-number-freed-first") {
        free_number(core, handle, inode)?;
        return state.store(core, handle, inode.nr, true);
    }
    state.store(core, handle, inode.nr, true)?;
    core.release_share(handle, inode.nr)?;
    free_number(core, handle, inode)
}

/// Frees the blocks of a new inode. The new state is not stored yet.
fn give_up(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    (state, change): (&mut InodeState, Option<&Change>),
) -> Result<()> {
    match change {
        Some(change) => change.undo(core, handle, inode.nr, state)?,
        None => xattr::release(core, handle, inode.nr, state)?,
    }
    FileMap::of(state).free_first(core, handle, inode, state)?;
    state.forget_map(handle);
    state.claims(handle).links = 0;
    core.note_deletion(state);
    Ok(())
}

/// Frees the number of a new inode, which another inode may get at once: that one must neither be
/// removed from the cache nor overwritten in the table.
fn free_number(core: &Core, handle: &mut Handle<'_>, inode: &Inode) -> Result<()> {
    core.inodes.remove(inode.nr);
    core.free_inode(handle, inode.nr, inode.kind == FileKind::Directory)
}

/// Returns the owners of a new inode: those that [`fresh_state`] gives it.
pub(super) fn owners_of(core: &Core, parent: &InodeState, new: &NewInode) -> Owners {
    let has_group = core.options.directory_groups || parent.permissions & SET_GID != 0;
    let gid = if has_group { parent.gid } else { new.gid };
    let inherits = parent.flags.contains(InodeFlags::PROJECT_INHERIT);
    let project = if inherits { parent.project } else { 0 };
    [new.uid, gid, project]
}

/// Returns the initial state of a new inode.
pub(super) fn fresh_state(
    core: &Core,
    parent: &InodeState,
    kind: FileKind,
    new: &NewInode,
    permissions: u16,
) -> InodeState {
    let mut permissions = permissions & 0o7777;
    let mut gid = new.gid;
    if core.options.directory_groups {
        gid = parent.gid;
    } else if parent.permissions & SET_GID != 0 {
        gid = parent.gid;
        if kind == FileKind::Directory {
            permissions |= SET_GID;
        }
    }
    let generation = match rt::mutant!("inode/generation-kept") {
        true => 1,
        false => rt::random_u64() as u32,
    };
    let mut state = InodeState::fresh(kind, permissions, new.uid, gid, generation);
    if parent.flags.contains(InodeFlags::PROJECT_INHERIT) {
        state.project = parent.project;
    }
    state.flags |= parent
        .flags
        .intersection(InodeFlags::INHERITED)
        .masked_for(kind.mode());
    state
}
