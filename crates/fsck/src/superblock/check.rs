//! Checks of the superblock against the device, the groups and what was found.

use layout::feature::{Compatible, Incompatible, ReadOnlyCompatible};
use layout::inode::{BASE_SIZE, EXTRA_SIZE_WITH_CHECKSUM};

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
        if state.is_checksum_wrong {
            let kind = ProblemKind::SuperblockChecksum;
            state.report.add(kind, Location::whole());
        }
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
    check_extra_sizes(state);
    check_features(state);
    check_reserved_descriptors(state);
    true
}

/// Checks the sizes of the extra part that inodes must have, and those that new ones get.
fn check_extra_sizes(state: &mut State<'_>) {
    let most = state.geometry.inode_bytes - BASE_SIZE;
    if most == 0 {
        return;
    }
    for (kind, size) in [
        (
            ProblemKind::MinimumExtraSizeInvalid,
            state.raw.min_extra_inode_size.get(),
        ),
        (
            ProblemKind::WantedExtraSizeInvalid,
            state.raw.wanted_extra_inode_size.get(),
        ),
    ] {
        let is_possible = (EXTRA_SIZE_WITH_CHECKSUM..=most as u16).contains(&size);
        if size != 0 && !(is_possible && size.is_multiple_of(4)) {
            state.report.add_found(kind, Location::whole(), size.into());
        }
    }
}

/// Checks features that need or exclude another one.
fn check_features(state: &mut State<'_>) {
    let (incompatible, read_only) = (
        state.features.incompatible,
        state.features.read_only_compatible,
    );
    let has_checksums = read_only.contains(ReadOnlyCompatible::METADATA_CSUM);
    let has_resize_inode = state.features.compatible.contains(Compatible::RESIZE_INODE);
    let faults = [
        (
            ProblemKind::ChecksumFeaturesTwice,
            has_checksums && read_only.contains(ReadOnlyCompatible::UNINIT_BG),
        ),
        (
            ProblemKind::ChecksumSeedWithoutChecksums,
            !has_checksums && incompatible.contains(Incompatible::METADATA_CSUM_SEED),
        ),
        (
            ProblemKind::ExtentsFeatureMissing,
            state.is_64bit() && !state.has_extents(),
        ),
        (
            ProblemKind::ResizeInodeWithMetaGroups,
            has_resize_inode && incompatible.contains(Incompatible::META_BG),
        ),
    ];
    for (kind, is_wrong) in faults {
        if is_wrong {
            state.problem(kind, Location::whole());
        }
    }
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
