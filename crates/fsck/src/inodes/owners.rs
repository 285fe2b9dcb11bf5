//! The share of an inode in the counts of its owners (`quota`).

use layout::inode::InodeExtra;
use layout::mode::FileType;
use zerocopy::FromBytes;

use super::{Slot, inline};
use crate::owners::Held;
use crate::state::State;

/// `i_extra_isize` of an inode that has a project.
const END_OF_PROJECT: u16 = 32;

/// Adds an inode in use, with the clusters that it holds, to the counts of its owners. The volume's
/// own files have none.
pub(super) fn count(state: &mut State<'_>, slot: &Slot<'_>, clusters: u64) {
    let is_own = slot.number == state.raw.orphan_file_inode.get();
    if !state.has_quota() || is_own || state.is_quota_file(slot.number) {
        return;
    }
    let project = InodeExtra::ref_from_prefix(slot.rest).ok();
    let project = project.filter(|(extra, _)| extra.extra_size.get() >= END_OF_PROJECT);
    let project = project.map_or(0, |(extra, _)| extra.project.get());
    let space = (clusters << state.geometry.cluster_log) * state.geometry.block_bytes as u64;
    let owners = [slot.raw.uid(), slot.raw.gid(), project];
    let is_symlink = FileType::from_mode(slot.raw.mode.get()) == FileType::Symlink;
    let is_inline_symlink = is_symlink && inline::is_inline(state, slot.raw);
    let held = Held {
        space,
        inodes: 1,
        inline_symlinks: is_inline_symlink.into(),
    };
    state.owners.add(owners, held);
}
