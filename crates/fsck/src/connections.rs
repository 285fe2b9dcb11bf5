//! Connections: every directory is reached from the root through its parents, `..` leads back, and every inode has as many
//! links as entries.

use crate::bitset::BitSet;
use crate::directories::find;
use crate::inodes::{BAD_BLOCKS, ROOT};
use crate::kind::ProblemKind;
use crate::problem::Place;
use crate::state::State;

/// Follows the parents of every directory, and counts links.
pub(crate) fn check(state: &mut State<'_>) {
    check_root(state);
    check_parents(state);
    check_links(state);
}

fn check_root(state: &mut State<'_>) {
    if !state.inodes[ROOT as usize].is_used {
        state.problem(ProblemKind::RootMissing, Place::inode(ROOT));
    }
}

fn check_parents(state: &mut State<'_>) {
    let count = state.directories.len();
    let mut is_done = BitSet::new(count);
    // Whose walk a directory was last seen on: its own walk meets a directory twice only in a circle.
    let mut seen_by = vec![usize::MAX; count];
    for start in 0..count {
        let mut at = start;
        while is_done.insert(at) {
            seen_by[at] = start;
            let directory = state.directories[at];
            if directory.inode == ROOT {
                break;
            }
            let place = Place::inode(directory.inode);
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
            let place = Place::inode(directory.inode);
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
    for number in 1..=state.geometry.inode_count {
        let inode = state.inodes[number as usize];
        if !inode.is_used || number == BAD_BLOCKS || reserved.contains(&number) {
            continue;
        }
        if inode.references == 0 {
            state.problem(ProblemKind::InodeUnattached, Place::inode(number));
        } else if u32::from(inode.links) != inode.references {
            let (found, expected) = (inode.links.into(), inode.references.into());
            let kind = ProblemKind::LinkCountWrong;
            let place = Place::inode(number);
            state.report.add_differing(kind, place, found, expected);
        }
    }
}
