//! The orphan list: inodes with an unfinished deletion or truncation. The superblock names the
//! first, each deletion time the next.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::inodes;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::state::State;

/// Follows the list.
pub(crate) fn check(state: &mut State<'_>) -> Result<(), Error> {
    let mut number = state.raw.first_orphan.get();
    if number == 0 {
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    while number != 0 {
        if !state.geometry.has_inode(number) || number < state.geometry.first_inode {
            let kind = ProblemKind::OrphanOutOfRange;
            state
                .report
                .add_found(kind, Location::whole(), number.into());
            break;
        }
        if !seen.insert(number) {
            state.problem(ProblemKind::OrphansInCircle, Location::inode(number));
            break;
        }
        let inode = inodes::read(state, number)?;
        let Some(inode) = inode.filter(|inode| inode.mode.get() != 0) else {
            state.problem(ProblemKind::OrphanFree, Location::inode(number));
            break;
        };
        state.report.statistics.orphans += 1;
        number = inode.deletion_time.get();
    }
    Ok(())
}
