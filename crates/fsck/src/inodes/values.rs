//! Values of attributes in inodes of their own (`ea_inode`): the entries that name them, and their
//! counts of references.
//!
//! An inode counts the clusters of its values among its own. An attribute block that several inodes
//! share is one reference to each of its values, and each of the inodes counts their clusters.

use layout::attribute::ValueInode;
use layout::inode::{Inode, InodeFlags};
use layout::mode::FileType;

use super::Slot;
use crate::attributes::NamedValue;
use crate::error::Error;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::state::{Counted, State};

/// Notes an inode in use that has the flag.
pub(super) fn note(state: &mut State<'_>, slot: &Slot<'_>) {
    if !state.has_ea_inode() || !slot.raw.flags().contains(InodeFlags::ATTRIBUTE_INODE) {
        return;
    }
    // Those of Lustre have no count: both times are equal.
    let is_counted = slot.raw.change_time.get() != slot.raw.access_time.get();
    let said = ValueInode::of(slot.raw).references;
    let value = state.values.entry(slot.number).or_default();
    value.is_marked = true;
    value.said = is_counted.then_some(said);
}

/// The place of attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Area {
    Inode,
    Block,
}

/// Checks the entries of one area, and counts their references. Returns what an inode with the area
/// counts for them: nothing if one of the entries is wrong, as in e2fsck.
pub(super) fn check(
    state: &mut State<'_>,
    slot: &Slot<'_>,
    (area, values): (Area, &[NamedValue]),
) -> Result<Counted, Error> {
    let mut counted = Counted::default();
    let mut are_good = true;
    for value in values {
        match check_one(state, slot, (area, value))? {
            Some(clusters) => {
                counted.clusters += clusters;
                counted.values += 1;
            }
            None => are_good = false,
        }
    }
    Ok(if are_good {
        counted
    } else {
        Counted::default()
    })
}

fn check_one(
    state: &mut State<'_>,
    slot: &Slot<'_>,
    (area, named): (Area, &NamedValue),
) -> Result<Option<u64>, Error> {
    let place = || Location::inode(slot.number);
    let number = named.inode;
    let found = |state: &mut State<'_>, kind| {
        state.report.add_found(kind, place(), number.into());
    };
    if number < state.geometry.first_inode || number > state.geometry.inode_count {
        found(state, ProblemKind::ValueInodeWrong);
        return Ok(None);
    }
    state.values.entry(number).or_default().references += 1;
    let Some(raw) = super::read(state, number)? else {
        found(state, ProblemKind::ValueInodeWrong);
        return Ok(None);
    };
    let value = ValueInode::of(&raw);
    let is_marked = raw.flags().contains(InodeFlags::ATTRIBUTE_INODE);
    let is_counted = value.has_entry(&named.name, named.hash);
    if !is_counted && !value.is_owned_by(slot.number, slot.raw.generation.get()) {
        let kind = match is_marked {
            true => ProblemKind::ValueHashWrong,
            false => ProblemKind::ValueInodeWrong,
        };
        found(state, kind);
        return Ok(None);
    }
    if !is_marked {
        found(state, ProblemKind::ValueInodeFlagMissing);
        // Attributes within an inode are invalid to e2fsck then, those of a block are not.
        if area == Area::Inode {
            return Ok(None);
        }
    }
    if !holds(state, &raw, named) {
        found(state, ProblemKind::ValueInodeWrong);
    }
    let cluster_bytes = (state.geometry.block_bytes as u64) << state.geometry.cluster_log;
    let counted = u64::from(named.size).div_ceil(cluster_bytes);
    Ok(Some(if is_counted { counted } else { 0 }))
}

/// True if an inode is in use as a file of the value's size.
fn holds(state: &State<'_>, raw: &Inode, named: &NamedValue) -> bool {
    let is_file = FileType::from_mode(raw.mode.get()) == FileType::Regular;
    let size = raw.size(state.has_large_directories());
    raw.links_count.get() > 0 && is_file && size == u64::from(named.size)
}
