//! Blocks for a file that will replace another.

use super::Side;
use crate::core::Core;
use crate::namei::RenameMode;
use crate::{dir, file};

/// Gives a file that will replace another its blocks, before any lock is held. Failures are those
/// of the rename itself, or do not concern it.
pub(super) fn settle_source(core: &Core, source: &Side<'_>, target: &Side<'_>, mode: RenameMode) {
    let find = |side: &Side<'_>| {
        let state = side.directory.state.read();
        dir::find(core, &side.directory, &state, side.name)
            .ok()
            .flatten()
    };
    let replaces = mode != RenameMode::Exchange && mode != RenameMode::NoReplace;
    if replaces
        && core.pages.counts.delayed() > 0
        && find(target).is_some()
        && let Some((nr, _)) = find(source)
        && let Ok(moved) = core.inode(nr)
    {
        file::before_rename(core, &moved);
    }
}
