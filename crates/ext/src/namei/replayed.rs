//! Directory entries of fast commits. They name inodes by number, and may have been replayed
//! before; link counts of files come from elsewhere.
//!
//! | entry | in the directory | result |
//! |---|---|---|
//! | added | no such name | added |
//! | added | the name, of any inode | nothing |
//! | removed | the name, of the same inode | removed |
//! | removed | no such name, or of another inode | nothing |
//!
//! In a directory that does not exist, nothing happens. Linux does the same.
//!
//! A directory that changes gets a time of the fast commits, or keeps its own, so that recovery
//! depends on nothing but the image.

use std::sync::Arc;

use layout::InodeNr;
use layout::inode_flags::InodeFlags;
use layout::time::InodeTime;

use super::{
    LINKS_OF_DIRECTORY, check_new_name, check_takes_subdirectory, gain_subdirectory,
    remove_directory,
};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::dir;
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::error::{Corrupt, Error, Result};

/// A directory, the name of an entry in it, and the time of a change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named<'n> {
    pub(crate) parent: InodeNr,
    pub(crate) name: &'n [u8],
    /// The time; none to leave the times of the directory alone.
    pub(crate) when: Option<InodeTime>,
}

/// Adds an entry of a file. Returns true if the directory has changed.
pub(crate) fn enter(core: &Core, named: Named<'_>, nr: InodeNr, kind: FileKind) -> Result<bool> {
    let name = named.name;
    change(core, named, &mut |handle, directory, state| {
        if dir::find(core, directory, state, name)?.is_some() {
            return Ok(false);
        }
        dir::add(core, handle, directory, state, name, nr, kind)?;
        Ok(true)
    })
}

/// Adds a new directory: its first block, and its entry. The inode table has it as a directory of 0
/// bytes.
pub(crate) fn enter_directory(core: &Core, named: Named<'_>, nr: InodeNr) -> Result<()> {
    let Named { parent, name, .. } = named;
    change(core, named, &mut |handle, directory, state| {
        if nr == directory.nr || dir::find(core, directory, state, name)?.is_some() {
            return Err(contradiction(
                nr,
                "a new directory has the name of another file",
            ));
        }
        check_takes_subdirectory(core, state)?;
        let inode = core.inode(nr)?;
        let mut child = inode.state.write();
        child.claims(handle).links = LINKS_OF_DIRECTORY;
        dir::initialise(core, handle, &inode, &mut child, parent)?;
        child.store(core, handle, nr, true)?;
        dir::add(
            core,
            handle,
            directory,
            state,
            name,
            nr,
            FileKind::Directory,
        )?;
        gain_subdirectory(core, handle, state);
        Ok(true)
    })
    .map(drop)
}

/// Removes the entry of an inode; a directory is deleted. Returns true if the entry was there.
pub(crate) fn leave(
    core: &Core,
    named: Named<'_>,
    nr: InodeNr,
    is_directory: bool,
) -> Result<bool> {
    let Named { parent, name, .. } = named;
    if !is_directory {
        return change(core, named, &mut |handle, directory, state| {
            match dir::find(core, directory, state, name)? {
                Some((found, _)) if found == nr => {}
                _ => return Ok(false),
            }
            dir::remove(core, handle, directory, state, name)?;
            Ok(true)
        });
    }
    let Some(directory) = directory_of(core, parent)? else {
        return Ok(false);
    };
    let (found, times) = {
        let state = directory.state.read();
        check_names(parent, &state)?;
        let found = dir::find(core, &directory, &state, name)?;
        (found, (state.mtime, state.ctime))
    };
    if found.is_none_or(|(found, _)| found != nr) {
        return Ok(false);
    }
    match remove_directory(core, parent, name) {
        Ok(()) => {}
        Err(Error::NotEmpty) => {
            return Err(contradiction(nr, "a directory with entries is removed"));
        }
        Err(error) => return Err(error),
    }
    let mut state = directory.state.write();
    let mut handle = core.begin(jbd2::Credits::default())?;
    (state.mtime, state.ctime) = named.when.map_or(times, |when| (when, when));
    state.store(core, &mut handle, parent, true)?;
    handle.finish()?;
    Ok(true)
}

/// A change of a directory, which returns true if there is one.
type Change<'c> = &'c mut dyn FnMut(&mut Handle<'_>, &Arc<Inode>, &mut InodeState) -> Result<bool>;

/// Changes a directory, if it exists.
fn change(core: &Core, named: Named<'_>, change: Change<'_>) -> Result<bool> {
    let Named { parent, name, when } = named;
    if check_new_name(name).is_err() {
        return Err(contradiction(parent, "the name of an entry is invalid"));
    }
    let Some(directory) = directory_of(core, parent)? else {
        return Ok(false);
    };
    let mut state = directory.state.write();
    check_names(parent, &state)?;
    let mut handle = core.begin(jbd2::Credits::default())?;
    let has_changed = change(&mut handle, &directory, &mut state)?;
    if has_changed {
        if let Some(when) = when {
            (state.mtime, state.ctime) = (when, when);
        }
        state.store(core, &mut handle, parent, true)?;
    }
    handle.finish()?;
    Ok(has_changed)
}

/// Checks that the names of a directory can be changed.
///
/// # Errors
/// - [`Error::CaseFolded`]: Linux logs changes of such directories.
fn check_names(nr: InodeNr, state: &InodeState) -> Result<()> {
    if state.flags.contains(InodeFlags::CASEFOLD) {
        return Err(Error::CaseFolded);
    }
    match state.flags.contains(InodeFlags::ENCRYPT) {
        true => Err(contradiction(nr, "an entry lies in an encrypted directory")),
        false => Ok(()),
    }
}

/// Returns a directory; none if there is no such inode.
fn directory_of(core: &Core, nr: InodeNr) -> Result<Option<Arc<Inode>>> {
    match core.inode(nr) {
        Err(Error::NotFound) => Ok(None),
        Ok(inode) if inode.kind != FileKind::Directory => Err(contradiction(
            nr,
            "an entry lies in a file that is no directory",
        )),
        found => found.map(Some),
    }
}

fn contradiction(inode: InodeNr, why: &'static str) -> Error {
    Corrupt::FastCommit { inode, why }.into()
}
