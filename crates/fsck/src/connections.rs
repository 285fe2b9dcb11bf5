//! Connections: every directory is reachable from the root through its parents, `..` leads back,
//! and every inode has as many links as entries.

use layout::feature::ReadOnlyCompatible;

use crate::bitset::BitSet;
use crate::directories::find;
use crate::inode_states::{InodeState, Usage};
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::reserved_inodes::{BAD_BLOCKS, ROOT};
use crate::state::{Directory, State};

/// Maximum link count of a directory before it is no longer counted.
const LINKS_MAX: u32 = 65_000;
/// Link count of a directory that has, or once had, more links than that.
const UNCOUNTED: u16 = 1;

/// Follows the parents of every directory, and counts links.
pub(crate) fn check(state: &mut State<'_>) {
    check_root(state);
    check_parents(state);
    check_values(state);
    check_links(state);
}

/// Checks that inodes of values have no entries, and count the attributes that name them. One that
/// an attribute names counts as linked once; others are unattached, whatever their count.
fn check_values(state: &mut State<'_>) {
    for (number, value) in std::mem::take(&mut state.values) {
        if !value.is_marked || !state.inodes[number].is_used() {
            continue;
        }
        let place = || Location::inode(number);
        if state.inodes[number].references > 0 {
            state.problem(ProblemKind::ValueInodeNamed, place());
            continue;
        }
        if value.references == 0 {
            continue;
        }
        state.inodes[number].references = 1;
        if let Some(said) = value.said
            && said != value.references
        {
            let kind = ProblemKind::ValueReferencesWrong;
            let found = value.references;
            state.report.add_differing(kind, place(), said, found);
        }
    }
}

fn check_root(state: &mut State<'_>) {
    if !state.inodes[ROOT].is_used() {
        state.problem(ProblemKind::RootMissing, Location::inode(ROOT));
    }
}

fn check_parents(state: &mut State<'_>) {
    let count = state.directories.len();
    let mut is_done = BitSet::new(count);
    // The start of the walk that last reached a directory: a walk meets its own directories again
    // only in a cycle.
    let mut seen_by = vec![usize::MAX; count];
    for start in 0..count {
        let mut at = start;
        while is_done.insert(at) {
            seen_by[at] = start;
            let directory = state.directories[at];
            if directory.inode == ROOT {
                break;
            }
            let place = Location::inode(directory.inode);
            let Some(parent) = find_parent(state, directory.parent) else {
                state.problem(ProblemKind::DirectoryUnconnected, place);
                break;
            };
            if seen_by[parent] == start {
                state.problem(ProblemKind::DirectoryInCircle, place);
                break;
            }
            at = parent;
        }
        let directory = state.directories[start];
        if directory.dotdot != directory.parent {
            let place = Location::inode(directory.inode);
            let (found, expected) = (directory.dotdot.into(), directory.parent.into());
            let kind = ProblemKind::DotDotWrong;
            state.report.add_differing(kind, place, found, expected);
        }
    }
}

fn find_parent(state: &State<'_>, parent: u32) -> Option<usize> {
    if parent == 0 {
        None
    } else {
        find(state, parent)
    }
}

fn check_links(state: &mut State<'_>) {
    let reserved = ROOT + 1..state.geometry.first_inode;
    let orphan_file = state.raw.orphan_file_inode.get();
    let known = state.inodes.known(1..=state.geometry.inode_count);
    let wrong = known.filter(|(number, inode)| {
        matches!(inode.usage, Usage::Used | Usage::Mapped)
            && *number != BAD_BLOCKS
            && !reserved.contains(number)
            && *number != orphan_file
            && !state.nameless.contains(number)
            && !state.is_quota_file(*number)
            && (inode.references == 0 || u32::from(inode.links) != inode.references)
    });
    let wrong: Vec<u32> = wrong.map(|(number, _)| number).collect();
    for number in wrong {
        if state.inodes[number].references == 0 {
            state.problem(ProblemKind::InodeUnattached, Location::inode(number));
        } else {
            check_count(state, number);
        }
    }
}

/// Reports a link count that differs from the number of entries.
fn check_count(state: &mut State<'_>, number: u32) {
    let inode = state.inodes[number];
    let directory = find(state, number).map(|index| state.directories[index]);
    let features = state.features.read_only_compatible;
    let has_feature = features.contains(ReadOnlyCompatible::DIR_NLINK);
    if directory.is_some() && inode.references > LINKS_MAX && !has_feature {
        let kind = ProblemKind::LinksFeatureMissing;
        state.problem(kind, Location::inode(number));
    }
    if let Some(expected) = links_wanted(inode, directory) {
        let kind = ProblemKind::LinkCountWrong;
        let place = Location::inode(number);
        state
            .report
            .add_differing(kind, place, inode.links.into(), expected.into());
    }
}

/// Returns the link count that an inode should have, if it differs.
fn links_wanted(inode: InodeState, directory: Option<Directory>) -> Option<u32> {
    let is_beyond = directory.is_some() && inode.references > LINKS_MAX;
    // Removing entries keeps the index, and likewise a count that was once too large.
    let was_beyond = directory.is_some_and(|directory| directory.is_indexed);
    if inode.links == UNCOUNTED && (is_beyond || was_beyond) {
        return None;
    }
    Some(if is_beyond {
        UNCOUNTED.into()
    } else {
        inode.references
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_more_links_than_are_counted_has_one() {
        let directory = |is_indexed| {
            Some(Directory {
                inode: 12,
                parent: 2,
                dotdot: 2,
                first_block: 0,
                block_count: 1,
                is_indexed,
                has_extents: false,
                generation: 0,
                is_encrypted: false,
                is_folded: false,
            })
        };
        let wanted = |links, references, directory| {
            let inode = InodeState {
                links,
                references,
                ..InodeState::LOST
            };
            links_wanted(inode, directory)
        };
        assert_eq!(wanted(1, LINKS_MAX + 1, directory(false)), None);
        assert_eq!(wanted(1, LINKS_MAX, directory(false)), Some(LINKS_MAX));
        assert_eq!(wanted(1, 5, directory(true)), None);
        assert_eq!(wanted(7, LINKS_MAX + 1, directory(true)), Some(1));
        assert_eq!(wanted(1, LINKS_MAX + 1, None), Some(LINKS_MAX + 1));
    }
}
