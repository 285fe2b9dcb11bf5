//! Rename, in one transaction.
//!
//! | source | target | mode | result |
//! |---|---|---|---|
//! | absent | any | any | not found |
//! | any | same inode | replace | nothing happens |
//! | any | exists | no-replace | exists |
//! | any | absent | exchange | not found |
//! | directory | absent or empty directory | replace | moved; `..` and the parents' links follow |
//! | directory | directory with entries | replace | not empty |
//! | directory | not a directory | replace | not a directory |
//! | not a directory | directory | replace | is a directory |
//! | not a directory | absent or not a directory | replace | moved; the target loses a link |
//! | directory | inside itself | replace, no-replace, exchange | invalid |
//! | any | any | exchange | exchanged; `..` and links follow if the kinds differ |
//! | any | any | whiteout | as replace; then the old name is a whiteout's |
//!
//! The lock order is that of [`super`].

mod children;
mod credits;
mod described;
mod settle;

use std::sync::Arc;

use jbd2::{Buffer, Credits};
use layout::InodeNr;
use rt::RwLockWriteGuard;

use self::children::lock_children;
use self::credits::credits_to_rename;
use super::create::{publish, undo_inode};
use super::unlink::{drop_directory, drop_link, end_removal, find_child};
use super::{
    check_has_key, check_loses_names, check_moves, check_name_changes, check_new_name,
    check_old_name, check_project, check_takes_names, check_takes_subdirectory, gain_subdirectory,
    lose_subdirectory, whiteout,
};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::{InodeState, now};
use crate::disk::kind::FileKind;
use crate::error::{Error, Result};
use crate::map::FileMap;
use crate::namei::RenameMode;
use crate::{dir, file, writeback};

/// Depth of a directory at which the tree counts as damaged.
const DEPTH_MAX: u32 = 65_536;
/// One side of a rename: a directory and a name in it.
struct Side<'a> {
    directory: Arc<Inode>,
    name: &'a [u8],
}

/// The locked directories: one guard if they are the same.
struct Directories<'a> {
    source: RwLockWriteGuard<'a, InodeState>,
    target: Option<RwLockWriteGuard<'a, InodeState>>,
}

impl Directories<'_> {
    fn source(&mut self) -> &mut InodeState {
        &mut self.source
    }

    fn target(&mut self) -> &mut InodeState {
        match &mut self.target {
            Some(target) => target,
            None => &mut self.source,
        }
    }

    fn target_ref(&self) -> &InodeState {
        self.target.as_ref().unwrap_or(&self.source)
    }

    fn is_same(&self) -> bool {
        self.target.is_none()
    }
}

/// Renames an entry.
pub(crate) fn rename(
    core: &Core,
    parent: InodeNr,
    name: &[u8],
    new_parent: InodeNr,
    new_name: &[u8],
    mode: RenameMode,
) -> Result<()> {
    core.check_writable()?;
    check_old_name(name)?;
    if mode == RenameMode::Exchange {
        check_old_name(new_name)?;
    } else {
        match check_new_name(new_name) {
            Err(Error::Exists) if mode != RenameMode::NoReplace => {
                return Err(Error::Invalid("\".\" and \"..\" cannot be replaced"));
            }
            checked => checked?,
        }
    }
    let source = Side {
        directory: core.inode(parent)?,
        name,
    };
    let target = Side {
        directory: core.inode(new_parent)?,
        name: new_name,
    };
    settle::settle_source(core, &source, &target, mode);
    let (replaced, synced) = file::with_space(core, || {
        loop {
            let moves_directory = parent != new_parent
                || mode == RenameMode::Exchange
                || names_directory(core, &source)?;
            let _moves = moves_directory.then(|| core.rename.lock());
            if moves_directory {
                check_no_loop(core, &source, &target, mode)?;
            }
            let outcome = step(core, &source, &target, mode, moves_directory)?;
            if let Outcome::Done(replaced, synced) = outcome {
                return Ok((replaced, synced));
            }
        }
    })?;
    match replaced {
        Some(inode) => end_removal(core, &inode, synced),
        None => synced,
    }
}

/// The outcome of an attempt.
enum Outcome {
    /// The entries are changed: the inode that lost one, and the result of making it durable.
    Done(Option<Arc<Inode>>, Result<()>),
    /// The name is now a directory's, which needs the rename lock.
    Again,
}

/// Returns true if a name is a directory's. It may change until the directory is locked: `step`
/// checks again.
fn names_directory(core: &Core, side: &Side<'_>) -> Result<bool> {
    let nr = super::lookup(core, side.directory.nr, side.name)?;
    Ok(core.inode(nr)?.kind == FileKind::Directory)
}

/// Checks that a directory does not move into itself, and does not replace one of its ancestors.
/// The check precedes the locks of the directories; the rename lock keeps its result valid.
fn check_no_loop(
    core: &Core,
    source: &Side<'_>,
    target: &Side<'_>,
    mode: RenameMode,
) -> Result<()> {
    let moved = super::lookup(core, source.directory.nr, source.name)?;
    if is_ancestor(core, moved, &target.directory)? {
        return Err(Error::Invalid("a directory cannot be moved into itself"));
    }
    match super::lookup(core, target.directory.nr, target.name) {
        Ok(existing) if is_ancestor(core, existing, &source.directory)? => match mode {
            RenameMode::Replace | RenameMode::Whiteout(_) => Err(Error::NotEmpty),
            RenameMode::NoReplace => Err(Error::Exists),
            RenameMode::Exchange => Err(Error::Invalid("a directory cannot be moved into itself")),
        },
        Ok(_) | Err(Error::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes one attempt.
fn step(
    core: &Core,
    source: &Side<'_>,
    target: &Side<'_>,
    mode: RenameMode,
    holds_rename_lock: bool,
) -> Result<Outcome> {
    let mut directories = lock_directories(core, source, target)?;
    check_loses_names(&directories.source)?;
    check_takes_names(directories.target_ref())?;
    let moved = find_child(core, &source.directory, &directories.source, source.name)?;
    let found = dir::find(
        core,
        &target.directory,
        directories.target_ref(),
        target.name,
    )?;
    let existing = match (found, mode) {
        (Some(_), RenameMode::NoReplace) => return Err(Error::Exists),
        (None, RenameMode::Exchange) => return Err(Error::NotFound),
        (Some((nr, _)), _) if nr == moved.nr => return Ok(Outcome::Done(None, Ok(()))),
        (Some((nr, _)), _) if nr == target.directory.nr => {
            return Err(Error::Invalid("the entry names its directory"));
        }
        (Some((nr, _)), _) => Some(core.inode(nr)?),
        (None, _) => None,
    };
    check_has_key(&directories.source)?;
    check_has_key(directories.target_ref())?;
    if !holds_rename_lock && moved.kind == FileKind::Directory {
        return Ok(Outcome::Again);
    }
    if let Some(existing) = &existing {
        check_loses_names(directories.target_ref())?;
        if mode == RenameMode::Exchange {
            let synced = exchange(core, source, target, &mut directories, &moved, existing)?;
            return Ok(Outcome::Done(None, synced));
        }
    }
    let synced = replace(
        core,
        source,
        target,
        &mut directories,
        &moved,
        existing.as_ref(),
        mode,
    )?;
    Ok(Outcome::Done(existing, synced))
}

fn lock_directories<'a>(
    core: &Core,
    source: &'a Side<'_>,
    target: &'a Side<'_>,
) -> Result<Directories<'a>> {
    let (from, to) = (&source.directory, &target.directory);
    if from.nr == to.nr {
        return Ok(Directories {
            source: from.state.write(),
            target: None,
        });
    }
    let source_first = if is_ancestor(core, from.nr, to)? {
        true
    } else if is_ancestor(core, to.nr, from)? {
        false
    } else {
        from.nr < to.nr
    };
    if source_first {
        let source = from.state.write();
        let target = Some(to.state.write());
        Ok(Directories { source, target })
    } else {
        let target = Some(to.state.write());
        Ok(Directories {
            source: from.state.write(),
            target,
        })
    }
}

/// Returns true if `ancestor` lies on the path from `from` to the root (or is `from`). The rename
/// lock keeps the path as it is.
fn is_ancestor(core: &Core, ancestor: InodeNr, from: &Arc<Inode>) -> Result<bool> {
    let mut current = Arc::clone(from);
    for _ in 0..DEPTH_MAX {
        if current.nr == ancestor {
            return Ok(true);
        }
        if current.nr == InodeNr::ROOT {
            return Ok(false);
        }
        let state = current.state.read();
        if state.links == 0 {
            return Err(Error::NotFound);
        }
        let up = dir::find(core, &current, &state, b"..")?.map(|(nr, _)| nr);
        drop(state);
        let Some(up) = up else {
            return Err(Error::NotFound);
        };
        current = core.inode(up)?;
    }
    Err(Error::TooManySymlinks)
}

fn check_kinds(
    core: &Core,
    moved: &InodeState,
    existing: &Inode,
    existing_state: &InodeState,
) -> Result<()> {
    let is_directory = moved.kind == FileKind::Directory;
    check_name_changes(existing_state)?;
    match (is_directory, existing_state.kind == FileKind::Directory) {
        (true, false) => Err(Error::NotDirectory),
        (false, true) => Err(Error::IsDirectory),
        (true, true) if !dir::is_empty(core, existing, existing_state)? => Err(Error::NotEmpty),
        _ => Ok(()),
    }
}

/// Sets or adds the target's entry, and removes the source's. Returns the result of making it
/// durable.
fn replace(
    core: &Core,
    source: &Side<'_>,
    target: &Side<'_>,
    directories: &mut Directories<'_>,
    moved: &Arc<Inode>,
    existing: Option<&Arc<Inode>>,
    mode: RenameMode,
) -> Result<Result<()>> {
    let (mut state, mut existing_state) = lock_children(moved, existing);
    check_name_changes(&state)?;
    check_project(directories.target_ref(), &state)?;
    if let (Some(existing), Some(existing_state)) = (existing, &existing_state) {
        check_kinds(core, &state, existing, existing_state)?;
    }
    if existing.is_some() {
        file::before_rename_locked(core, moved, &mut state);
    } else {
        let into = directories.target();
        dir::make_room(core, &target.directory, into, target.name)?;
    }
    let is_directory = state.kind == FileKind::Directory;
    let changes_parent = is_directory && !directories.is_same();
    if changes_parent {
        check_moves(&state)?;
    }
    let mut held = hold(core, source, target, directories, &[Some(moved), existing])?;
    if changes_parent {
        held.push(dir::hold_parent(core, moved, &state)?);
    }
    let gains_link = changes_parent && existing.is_none();
    if gains_link {
        check_takes_subdirectory(core, directories.target_ref())?;
    }
    let _claims = match mode {
        RenameMode::Whiteout(owner) => Some(whiteout::prepare(core, directories.source(), owner)?),
        _ => None,
    };
    let mut handle = core.begin(Credits {
        blocks: credits_to_rename(core, FileMap::of(directories.target_ref())),
        revokes: 0,
    })?;
    let t = &mut handle;
    let kind = state.kind;
    let left = match leave(core, t, source, directories, mode) {
        Ok(left) => left,
        Err(error) => {
            handle.finish()?;
            return Err(error);
        }
    };
    let mut left_state = left.as_ref().map(|left| publish(core, left));
    if let (Some(left), Some(left_state)) = (&left, &mut left_state)
        && let Err(error) = whiteout::store(core, t, left, left_state)
    {
        handle.finish()?;
        return Err(error);
    }
    if existing.is_some() {
        let into = directories.target();
        dir::set(
            core,
            t,
            &target.directory,
            into,
            target.name,
            moved.nr,
            kind,
        )?;
    } else {
        let into = directories.target();
        let added = dir::add(
            core,
            t,
            &target.directory,
            into,
            target.name,
            moved.nr,
            kind,
        );
        if let Err(error) = added {
            if let (Some(left), Some(left_state)) = (&left, &mut left_state) {
                undo_inode(core, t, left, (left_state, None))?;
            }
            handle.finish()?;
            return Err(error);
        }
    }
    if rt::mutant!("names/rename-in-two-steps") {
        let blocks = credits_to_rename(core, FileMap::of(directories.target_ref()));
        t.tear(Credits { blocks, revokes: 0 })?;
    }
    take_old_name(core, t, source, directories.source(), left.as_deref())?;
    if changes_parent && !rt::mutant!("names/parent-not-changed") {
        let up = target.directory.nr;
        dir::set(core, t, moved, &mut state, b"..", up, FileKind::Directory)?;
        lose_subdirectory(t, directories.source());
        gain_subdirectory(core, t, directories.target());
    }
    if let (Some(existing), Some(existing_state)) = (existing, &mut existing_state) {
        if is_directory {
            lose_subdirectory(t, directories.target());
            drop_directory(core, t, existing.nr, existing_state)?;
        } else {
            drop_link(core, t, existing.nr, existing_state)?;
        }
    }
    if !is_directory && left.is_none() {
        let replaced = existing
            .map(|existing| existing.nr)
            .zip(existing_state.as_deref());
        described::describe(t, source, target, moved.nr, replaced);
    }
    state.ctime = now();
    state.store(core, t, moved.nr, is_directory)?;
    store_parents(core, t, source, target, directories)?;
    let tid = handle.finish()?;
    drop((state, existing_state, left_state));
    let states = [&*directories.source, directories.target_ref()];
    Ok(writeback::sync_directories(core, states, tid))
}

/// Allocates the whiteout for the old name, if the mode leaves one.
fn leave(
    core: &Core,
    handle: &mut Handle<'_>,
    source: &Side<'_>,
    directories: &mut Directories<'_>,
    mode: RenameMode,
) -> Result<Option<Arc<Inode>>> {
    let RenameMode::Whiteout(owner) = mode else {
        return Ok(None);
    };
    let parent = &source.directory;
    whiteout::allocate(core, handle, parent, directories.source(), owner).map(Some)
}

/// Removes the old entry, or changes it to the inode left there.
fn take_old_name(
    core: &Core,
    handle: &mut Handle<'_>,
    source: &Side<'_>,
    state: &mut InodeState,
    left: Option<&Inode>,
) -> Result<()> {
    let (parent, name) = (&source.directory, source.name);
    match left {
        None => dir::remove(core, handle, parent, state, name).map(drop),
        Some(left) => {
            let kind = FileKind::CharacterDevice;
            dir::set(core, handle, parent, state, name, left.nr, kind).map(drop)
        }
    }
}

/// Exchanges the inodes of both entries. Returns the result of making it durable.
fn exchange(
    core: &Core,
    source: &Side<'_>,
    target: &Side<'_>,
    directories: &mut Directories<'_>,
    moved: &Arc<Inode>,
    existing: &Arc<Inode>,
) -> Result<Result<()>> {
    let (mut state, other) = lock_children(moved, Some(existing));
    let Some(mut other) = other else {
        return Err(Error::NotFound);
    };
    check_name_changes(&state)?;
    check_name_changes(&other)?;
    check_project(directories.target_ref(), &state)?;
    check_project(directories.source(), &other)?;
    if !directories.is_same() {
        check_moves(&state)?;
        check_moves(&other)?;
    }
    let (kind, other_kind) = (state.kind, other.kind);
    check_gain(core, directories, kind, other_kind)?;
    let inodes = [Some(moved), Some(existing)];
    let mut held = hold(core, source, target, directories, &inodes)?;
    for (inode, state) in [(moved, &state), (existing, &other)] {
        if state.kind == FileKind::Directory && !directories.is_same() {
            held.push(dir::hold_parent(core, inode, state)?);
        }
    }
    let mut handle = core.begin(Credits {
        blocks: credits_to_rename(core, FileMap::of(directories.target_ref())),
        revokes: 0,
    })?;
    let t = &mut handle;
    let into = directories.target();
    dir::set(
        core,
        t,
        &target.directory,
        into,
        target.name,
        moved.nr,
        kind,
    )?;
    let from = directories.source();
    dir::set(
        core,
        t,
        &source.directory,
        from,
        source.name,
        existing.nr,
        other_kind,
    )?;
    if !directories.is_same() {
        if kind == FileKind::Directory {
            let up = target.directory.nr;
            dir::set(core, t, moved, &mut state, b"..", up, FileKind::Directory)?;
            lose_subdirectory(t, directories.source());
            gain_subdirectory(core, t, directories.target());
        }
        if other_kind == FileKind::Directory {
            let up = source.directory.nr;
            dir::set(
                core,
                t,
                existing,
                &mut other,
                b"..",
                up,
                FileKind::Directory,
            )?;
            lose_subdirectory(t, directories.target());
            gain_subdirectory(core, t, directories.source());
        }
    }
    state.ctime = now();
    other.ctime = state.ctime;
    state.store(core, t, moved.nr, kind == FileKind::Directory)?;
    other.store(core, t, existing.nr, other_kind == FileKind::Directory)?;
    store_parents(core, t, source, target, directories)?;
    let tid = handle.finish()?;
    drop((state, other));
    let states = [&*directories.source, directories.target_ref()];
    Ok(writeback::sync_directories(core, states, tid))
}

/// Checks that the directory that gets another subdirectory by an exchange, if there is one, may
/// have one more.
fn check_gain(
    core: &Core,
    directories: &mut Directories<'_>,
    kind: FileKind,
    other_kind: FileKind,
) -> Result<()> {
    let is_directory = |kind| kind == FileKind::Directory;
    match (is_directory(kind), is_directory(other_kind)) {
        _ if directories.is_same() => Ok(()),
        (true, false) => check_takes_subdirectory(core, directories.target_ref()),
        (false, true) => check_takes_subdirectory(core, directories.source()),
        _ => Ok(()),
    }
}

/// Reads the blocks that a rename will change, before anything changes. The caller holds the result
/// until it is done.
fn hold(
    core: &Core,
    source: &Side<'_>,
    target: &Side<'_>,
    directories: &mut Directories<'_>,
    inodes: &[Option<&Arc<Inode>>],
) -> Result<Vec<Arc<Buffer>>> {
    let sides = [source.directory.nr, target.directory.nr];
    let inodes = inodes.iter().flatten().map(|inode| inode.nr);
    let mut held = core.hold_for_names(&sides.into_iter().chain(inodes).collect::<Vec<_>>())?;
    let old = dir::hold(core, &source.directory, directories.source(), source.name)?;
    let new = dir::hold(core, &target.directory, directories.target(), target.name)?;
    held.extend(old.into_iter().chain(new));
    Ok(held)
}

fn store_parents(
    core: &Core,
    handle: &mut Handle<'_>,
    source: &Side<'_>,
    target: &Side<'_>,
    directories: &mut Directories<'_>,
) -> Result<()> {
    let present = now();
    let state = directories.source();
    state.mtime = present;
    state.ctime = present;
    state.store(core, handle, source.directory.nr, true)?;
    if !directories.is_same() {
        let state = directories.target();
        state.mtime = present;
        state.ctime = present;
        state.store(core, handle, target.directory.nr, true)?;
    }
    Ok(())
}
