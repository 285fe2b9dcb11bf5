//! The changed names of a rename, for fast commits. Those of directories are not described.

use layout::InodeNr;

use super::Side;
use crate::cache::fast_changes::NameChange;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;

/// Notes the changed names. `replaced` is the inode that lost its name, after the change.
pub(super) fn describe(
    handle: &mut Handle<'_>,
    source: &Side<'_>,
    target: &Side<'_>,
    moved: InodeNr,
    replaced: Option<(InodeNr, &InodeState)>,
) {
    let old = (source.directory.nr, source.name);
    let new = (target.directory.nr, target.name);
    handle.describe();
    if let Some((nr, state)) = replaced {
        handle.note_name(NameChange::Unlinked, new, nr, state.links == 0);
    }
    handle.note_name(NameChange::Linked, new, moved, false);
    handle.note_name(NameChange::Unlinked, old, moved, false);
}
