//! Adding a link to an inode.

use jbd2::Credits;
use layout::InodeNr;

use super::create::credits_to_name;
use super::{
    check_has_key, check_name_changes, check_new_name, check_project, check_takes_link,
    check_takes_names,
};
use crate::cache::fast_changes::NameChange;
use crate::core::Core;
use crate::disk::inode::now;
use crate::disk::kind::FileKind;
use crate::error::{Error, Result};
use crate::map::FileMap;
use crate::{dir, file, writeback};

/// Adds a directory entry for an inode that is not a directory.
pub(crate) fn link(core: &Core, nr: InodeNr, parent: InodeNr, name: &[u8]) -> Result<()> {
    core.check_writable()?;
    check_new_name(name)?;
    let directory = core.inode(parent)?;
    let inode = core.inode(nr)?;
    // A directory is not locked for this: it may lie above the parent.
    if inode.kind == FileKind::Directory {
        if rt::mutant!("names/link-locks-directory") && nr != parent {
            let _parent = directory.state.write();
            let _inode = inode.state.write();
        }
        return Err(Error::IsDirectory);
    }
    file::with_space(core, || {
        let mut parent_state = directory.state.write();
        check_takes_names(&parent_state)?;
        if dir::find(core, &directory, &parent_state, name)?.is_some() {
            return Err(Error::Exists);
        }
        check_has_key(&parent_state)?;
        let mut state = inode.state.write();
        check_name_changes(&state)?;
        if state.links == 0 {
            return Err(Error::NotFound);
        }
        check_takes_link(core, &state)?;
        check_project(&parent_state, &state)?;
        dir::make_room(core, &directory, &mut parent_state, name)?;
        let _held = core.hold_for_names(&[parent, nr])?;
        let credits = Credits {
            blocks: credits_to_name(core, FileMap::of(&parent_state)) + 1,
            revokes: 0,
        };
        let mut handle = core.begin(credits)?;
        let kind = state.kind;
        let added = dir::add(
            core,
            &mut handle,
            &directory,
            &mut parent_state,
            name,
            nr,
            kind,
        );
        if let Err(error) = added {
            handle.finish()?;
            return Err(error);
        }
        if rt::mutant!("names/link-in-two-steps") {
            handle.tear(credits)?;
        }
        handle.describe();
        handle.note_name(NameChange::Linked, (parent, name), nr, false);
        state.claims(&mut handle).links += 1;
        state.ctime = now();
        state.store(core, &mut handle, nr, false)?;
        parent_state.mtime = state.ctime;
        parent_state.ctime = state.ctime;
        parent_state.store(core, &mut handle, parent, true)?;
        let tid = handle.finish()?;
        writeback::sync_operation(core, &parent_state, tid)
    })
}
