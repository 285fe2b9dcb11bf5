//! The reserved inodes, 1 to 10: bad blocks, root (checked as a directory), quotas, boot loader,
//! undelete, resize and journal.

use layout::feature::Compatible;
use layout::mode::{FileType, TYPE_MASK};

use super::{Slot, extra, fields};
use crate::error::Error;
use crate::inode_states::{InodeState, Usage};
use crate::kind::ProblemKind;
use crate::map::{self, Root};
use crate::problem::Location;
use crate::reserved_inodes::{BAD_BLOCKS, JOURNAL, RESIZE};
use crate::state::State;

/// Inodes of user and group quotas.
const QUOTA_FIRST: u32 = 3;
const QUOTA_LAST: u32 = 4;
/// Inode of the boot loader, which may be anything but a directory.
const BOOT_LOADER: u32 = 5;

/// Checks a reserved inode, which always counts as in use.
pub(super) fn check(state: &mut State<'_>, slot: &Slot<'_>) -> Result<(), Error> {
    let raw = slot.raw;
    let file_type = FileType::from_mode(raw.mode.get());
    let has_resize_inode = state.features.compatible.contains(Compatible::RESIZE_INODE);
    // An inode without a file type has no block map, except for bad blocks. Without its feature the
    // resize inode is ignored.
    let has_map = match slot.number {
        BAD_BLOCKS => true,
        RESIZE => has_resize_inode && fields::has_map(state, raw, file_type),
        _ => fields::has_map(state, raw, file_type),
    };
    state.inodes[slot.number] = InodeState {
        references: 0,
        links: raw.links_count.get(),
        file_type: file_type.raw(),
        usage: if has_map { Usage::Mapped } else { Usage::Used },
    };
    state.report.statistics.used_inodes += 1;
    check_mode(state, slot, file_type);
    // As in e2fsck, nothing else is judged of inodes without a use.
    let is_unused_quota =
        (QUOTA_FIRST..=QUOTA_LAST).contains(&slot.number) && raw.links_count.get() == 0;
    if is_unused_quota || (slot.number == RESIZE && !has_resize_inode) {
        return Ok(());
    }
    let attributes = match slot.number {
        BAD_BLOCKS => 0,
        _ => extra::check_block(state, slot)?.clusters,
    };
    let root = has_map.then(|| Root::of(state, raw));
    let mapped = map::check(state, slot.number, root.as_ref(), FileType::Regular)?;
    match slot.number {
        BAD_BLOCKS => {}
        JOURNAL | RESIZE => {
            fields::check_sizes(state, slot, FileType::Regular, &mapped, attributes)
        }
        _ => fields::check_held(state, slot, mapped.clusters + attributes),
    }
    Ok(())
}

fn check_mode(state: &mut State<'_>, slot: &Slot<'_>, file_type: FileType) {
    let raw = slot.raw;
    let mode = raw.mode.get();
    let is_regular = file_type == FileType::Regular;
    let has_blocks = raw.map().iter().any(|word| *word != 0);
    let is_in_use = raw.links_count.get() != 0 || raw.blocks_low.get() != 0 || has_blocks;
    let has_resize_inode = state.features.compatible.contains(Compatible::RESIZE_INODE);
    let kind = match slot.number {
        BAD_BLOCKS => {
            let has_attributes = mode != 0
                || raw.uid() != 0
                || raw.gid() != 0
                || raw.links_count.get() != 0
                || raw.attribute_block_low.get() != 0;
            has_attributes.then_some(ProblemKind::BadBlocksInodeInvalid)
        }
        JOURNAL if state.raw.journal_inode.get() == JOURNAL => {
            (!is_regular).then_some(ProblemKind::JournalInodeMode)
        }
        JOURNAL => is_in_use.then_some(ProblemKind::JournalInodeNotClear),
        RESIZE if !has_resize_inode => has_blocks.then_some(ProblemKind::ResizeInodeNotClear),
        RESIZE => (mode & TYPE_MASK != 0 && !is_regular).then_some(ProblemKind::ReservedInodeMode),
        QUOTA_FIRST..=QUOTA_LAST if state.is_quota_file(slot.number) => None,
        QUOTA_FIRST..=QUOTA_LAST => is_in_use.then_some(ProblemKind::QuotaInodeNotClear),
        BOOT_LOADER => (file_type == FileType::Directory).then_some(ProblemKind::ReservedInodeMode),
        _ => (mode != 0).then_some(ProblemKind::ReservedInodeMode),
    };
    if let Some(kind) = kind {
        let place = Location::inode(slot.number);
        state.report.add_found(kind, place, mode.into());
    }
}
