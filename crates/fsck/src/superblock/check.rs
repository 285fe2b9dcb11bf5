//! Checks of the superblock against the device, the groups and what was found.

use layout::feature::{Compatible, Incompatible, ReadOnlyCompatible};

use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::state::State;

/// Checks an accepted superblock. Returns `false` if the rest cannot be checked.
pub(crate) fn check(state: &mut State<'_>) -> bool {
    let geometry = &state.geometry;
    let statistics = &mut state.report.statistics;
    statistics.block_bytes = geometry.block_bytes as u32;
    statistics.blocks = geometry.block_count;
    statistics.inodes = geometry.inode_count;
    if let Some(block) = state.copy {
        let place = Location::group(1).at_block(block);
        state.report.add(ProblemKind::CopyChecked, place);
    }
    let statistics = &mut state.report.statistics;
    statistics.needs_recovery = state
        .features
        .incompatible
        .contains(Incompatible::NEEDS_RECOVERY);
    let on_device = state.image.block_count(geometry.block_bytes);
    if geometry.block_count > on_device {
        let (kind, count) = (ProblemKind::DeviceTooSmall, geometry.block_count);
        state
            .report
            .add_differing(kind, Location::whole(), count, on_device);
        return false;
    }
    let said = state.raw.inodes_count.get();
    if said != geometry.inode_count {
        let (kind, expected) = (ProblemKind::InodeCountWrong, geometry.inode_count);
        let place = Location::whole();
        state
            .report
            .add_differing(kind, place, said.into(), expected.into());
    }
    check_times(state);
    check_reserved_descriptors(state);
    true
}

fn check_times(state: &mut State<'_>) {
    let Some(now) = state.options.now else {
        return;
    };
    for (kind, seconds) in [
        (ProblemKind::MountTimeInFuture, state.raw.mount_time.get()),
        (ProblemKind::WriteTimeInFuture, state.raw.write_time.get()),
    ] {
        if i64::from(seconds) > now {
            state
                .report
                .add_found(kind, Location::whole(), seconds.into());
        }
    }
}

/// Checks for reserved GDT blocks without the resize inode.
fn check_reserved_descriptors(state: &mut State<'_>) {
    let reserved = state.geometry.reserved_descriptor_blocks;
    let has_inode = state.features.compatible.contains(Compatible::RESIZE_INODE);
    if reserved != 0 && !has_inode {
        let kind = ProblemKind::ReservedDescriptorsWithoutInode;
        let place = Location::whole();
        state.report.add_differing(kind, place, reserved.into(), 0);
    }
}

/// Checks for a large file without its feature, after all inodes were read.
pub(crate) fn check_large_files(state: &mut State<'_>) {
    let features = state.features.read_only_compatible;
    if state.has_large_file && !features.contains(ReadOnlyCompatible::LARGE_FILE) {
        state.problem(ProblemKind::LargeFileFeatureMissing, Location::whole());
    }
}
