//! The share of an inode in the counts of its owners (`quota`).

use layout::inode::{InodeExtra, InodeFlags};
use layout::mode::FileType;
use zerocopy::FromBytes;

use super::{Slot, inline};
use crate::owners::Held;
use crate::state::{Counted, State};

/// `i_extra_isize` of an inode that has a project.
const END_OF_PROJECT: u16 = 32;

/// Adds an inode in use, with the clusters of its contents and with its attributes, to the counts
/// of its owners. The volume's own files have none; nor have the inodes of values, each of which
/// counts as one for every inode with an entry that names it.
pub(super) fn count(state: &mut State<'_>, slot: &Slot<'_>, (clusters, counted): (u64, Counted)) {
    let is_own = slot.number == state.raw.orphan_file_inode.get();
    if !state.has_quota() || is_own || state.is_quota_file(slot.number) {
        return;
    }
    let has_flag = slot.raw.flags().contains(InodeFlags::ATTRIBUTE_INODE);
    if has_flag && state.has_ea_inode() {
        return;
    }
    let clusters = clusters + counted.clusters;
    let inodes = 1 + counted.values;
    let project = InodeExtra::ref_from_prefix(slot.rest).ok();
    let project = project.filter(|(extra, _)| extra.extra_size.get() >= END_OF_PROJECT);
    let project = project.map_or(0, |(extra, _)| extra.project.get());
    let space = (clusters << state.geometry.cluster_log) * state.geometry.block_bytes as u64;
    let owners = [slot.raw.uid(), slot.raw.gid(), project];
    let is_symlink = FileType::from_mode(slot.raw.mode.get()) == FileType::Symlink;
    let is_inline_symlink = is_symlink && inline::is_inline(state, slot.raw);
    let held = Held {
        space,
        inodes,
        inline_symlinks: if is_inline_symlink { inodes } else { 0 },
    };
    state.owners.add(owners, held);
}
