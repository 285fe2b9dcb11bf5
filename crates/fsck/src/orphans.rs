//! Inodes with an unfinished deletion or truncation: those of the orphan list, whose first one the
//! superblock names, and each deletion time the next; and those in the orphan file (`file`).

mod file;

use std::collections::BTreeSet;

use layout::inode::Inode;

use crate::error::Error;
use crate::inodes;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::state::State;

/// Follows the list, and checks the orphan file.
pub(crate) fn check(state: &mut State<'_>) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    follow_list(state, &mut seen)?;
    file::check(state, &mut seen)
}

fn follow_list(state: &mut State<'_>, seen: &mut BTreeSet<u32>) -> Result<(), Error> {
    let mut number = state.raw.first_orphan.get();
    while number != 0 {
        if seen.contains(&number) {
            state.problem(ProblemKind::OrphansInCircle, Location::inode(number));
            break;
        }
        let Some(inode) = read(state, number, Location::whole())? else {
            break;
        };
        seen.insert(number);
        state.report.statistics.orphans += 1;
        number = inode.deletion_time.get();
    }
    Ok(())
}

/// Reads an inode that is named as an orphan at a place. Reports one that cannot be one.
fn read(state: &mut State<'_>, number: u32, place: Location) -> Result<Option<Inode>, Error> {
    if !state.geometry.has_inode(number) || number < state.geometry.first_inode {
        let kind = ProblemKind::OrphanOutOfRange;
        state.report.add_found(kind, place, number.into());
        return Ok(None);
    }
    let inode = inodes::read(state, number)?.filter(|inode| inode.mode.get() != 0);
    if inode.is_none() {
        state.problem(ProblemKind::OrphanFree, Location::inode(number));
    }
    Ok(inode)
}
