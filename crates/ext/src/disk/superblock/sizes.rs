//! Sizes and places in the superblock, and their consistency.

use layout::feature::{Compatible, Features, Incompatible, ReadOnlyCompatible};
use layout::superblock::{self as disk, Backups};
use layout::{BlockNr, GroupNr, InodeNr, group};

use super::bad;
use crate::disk::geometry::{BLOCKS_MAX, Geometry};
use crate::error::{Corrupt, Error, Result};

/// Size of the smallest group in clusters.
const GROUP_BITS_MIN: u32 = 256;
/// The logarithm of the largest cluster, in KiB: 512 MiB.
const CLUSTER_LOG_MAX: u32 = 19;

/// Decodes sizes and places, and checks them against each other and the device.
pub(super) fn geometry(
    raw: &disk::Superblock,
    features: Features,
    device_bytes: u64,
) -> Result<Geometry> {
    let block_bytes = block_bytes(raw)?;
    let cluster_log = cluster_log(raw, features)?;
    let blocks_per_group = blocks_per_group(raw, block_bytes, cluster_log)?;
    let inode_bytes = inode_bytes(raw, block_bytes)?;
    let (first_data_block, block_count) = block_count(raw, features, block_bytes, device_bytes)?;
    if !block_count.is_multiple_of(1 << cluster_log) {
        let why = "not a multiple of the blocks of a cluster";
        return Err(bad("s_blocks_count", block_count, why));
    }
    let inodes_per_group = inodes_per_group(raw, block_bytes, inode_bytes)?;
    let group_count =
        (block_count - u64::from(first_data_block)).div_ceil(u64::from(blocks_per_group));
    let group_count = u32::try_from(group_count).map_err(|_| {
        bad(
            "s_blocks_count",
            block_count,
            "there would be more than 2^32 groups",
        )
    })?;
    let inode_count = raw.inodes_count.get();
    if u64::from(inode_count) != u64::from(group_count) * u64::from(inodes_per_group) {
        return Err(bad(
            "s_inodes_count",
            inode_count.into(),
            "not inodes per group times groups",
        ));
    }
    let first_inode = raw.first_inode();
    if first_inode < disk::GOOD_OLD_FIRST_INODE || first_inode > inode_count {
        return Err(bad(
            "s_first_ino",
            first_inode.into(),
            "below 11 or above the last inode",
        ));
    }
    let has_resize_inode = features.compatible.contains(Compatible::RESIZE_INODE);
    let reserved = raw.reserved_descriptor_blocks.get();
    if u32::from(reserved) > block_bytes / 4 {
        return Err(bad(
            "s_reserved_gdt_blocks",
            reserved.into(),
            "more than fit an indirect block",
        ));
    }
    let mut geometry = Geometry {
        block_bytes,
        block_count,
        first_data_block: BlockNr::new(first_data_block.into()),
        cluster_log,
        blocks_per_group,
        group_count,
        inodes_per_group,
        inode_bytes,
        inode_count,
        first_inode: InodeNr::new(first_inode),
        descriptor_bytes: descriptor_bytes(raw, features, block_bytes)?,
        reserved_descriptor_blocks: if has_resize_inode { reserved } else { 0 },
        backups: Backups::of(raw, features),
        first_meta_group: None,
        has_flexible_groups: features.incompatible.contains(Incompatible::FLEX_BG),
    };
    geometry.first_meta_group = first_meta_group(raw, features, &geometry)?;
    check_room(&geometry)?;
    check_counts(raw, features, &geometry)?;
    Ok(geometry)
}

fn block_bytes(raw: &disk::Superblock) -> Result<u32> {
    let log = raw.log_block_size.get();
    let why = "blocks have 1 KiB to 64 KiB";
    let bytes = raw.block_size();
    bytes.ok_or_else(|| bad("s_log_block_size", log.into(), why))
}

/// Returns the logarithm of the number of blocks in a cluster. Without `bigalloc` a cluster is a
/// block.
fn cluster_log(raw: &disk::Superblock, features: Features) -> Result<u32> {
    let (log, block_log) = (raw.log_cluster_size.get(), raw.log_block_size.get());
    let words = features.read_only_compatible;
    let is_clustered = words.contains(ReadOnlyCompatible::BIGALLOC);
    if !is_clustered && log != block_log {
        let why = "not the size of a block";
        return Err(bad("s_log_cluster_size", log.into(), why));
    }
    if log < block_log || log > CLUSTER_LOG_MAX {
        let why = "below the size of a block, or clusters above 512 MiB";
        return Err(bad("s_log_cluster_size", log.into(), why));
    }
    if is_clustered && !features.incompatible.contains(Incompatible::EXTENTS) {
        let bits = words.bits().into();
        let why = "bigalloc is set without extent: clusters need files with extents";
        return Err(bad("s_feature_ro_compat", bits, why));
    }
    Ok(log - block_log)
}

fn blocks_per_group(raw: &disk::Superblock, block_bytes: u32, cluster_log: u32) -> Result<u32> {
    let count = raw.blocks_per_group.get();
    let bits = count >> cluster_log;
    if bits < GROUP_BITS_MIN || bits > block_bytes * 8 || !bits.is_multiple_of(8) {
        let why = match cluster_log {
            0 => "not a multiple of 8 between 256 and the bits of a block",
            _ => "not a multiple of 8 clusters between 256 and the bits of a block",
        };
        return Err(bad("s_blocks_per_group", count.into(), why));
    }
    let clusters = raw.clusters_per_group.get();
    if cluster_log > 0 && u64::from(clusters) << cluster_log != u64::from(count) {
        let why = "not the clusters of the blocks of a group";
        return Err(bad("s_clusters_per_group", clusters.into(), why));
    }
    Ok(count)
}

fn inode_bytes(raw: &disk::Superblock, block_bytes: u32) -> Result<u16> {
    let bytes = raw.inode_size();
    let fits = bytes >= disk::GOOD_OLD_INODE_SIZE && u32::from(bytes) <= block_bytes;
    if !fits || !bytes.is_power_of_two() {
        let why = "not a power of two between 128 and the size of a block";
        return Err(bad("s_inode_size", bytes.into(), why));
    }
    Ok(bytes)
}

/// Returns the first data block and the number of blocks.
fn block_count(
    raw: &disk::Superblock,
    features: Features,
    block_bytes: u32,
    device_bytes: u64,
) -> Result<(u32, u64)> {
    let first = raw.first_data_block.get();
    if first != u32::from(raw.log_cluster_size.get() == 0) {
        let why = "1 with blocks and clusters of 1 KiB, else 0";
        return Err(bad("s_first_data_block", first.into(), why));
    }
    let count = match is_64bit(features) {
        true => raw.blocks_count(),
        false => u64::from(raw.blocks_count_low.get()),
    };
    if count <= u64::from(first) {
        return Err(bad("s_blocks_count", count, "no block is left for data"));
    }
    if count > device_bytes / u64::from(block_bytes) {
        return Err(Corrupt::Truncated {
            file_system_bytes: count.saturating_mul(block_bytes.into()),
            device_bytes,
        }
        .into());
    }
    if count > BLOCKS_MAX {
        return Err(Error::Unsupported(format!(
            "{count} blocks are not supported: a volume has at most 2^48"
        )));
    }
    Ok((first, count))
}

/// Returns the size of a group descriptor in bytes. Without `64bit` the stored size is not used.
fn descriptor_bytes(raw: &disk::Superblock, features: Features, block_bytes: u32) -> Result<u16> {
    if !is_64bit(features) {
        return Ok(group::SIZE as u16);
    }
    let bytes = raw.descriptor_size.get();
    let fits = usize::from(bytes) >= group::SIZE_64BIT && u32::from(bytes) <= block_bytes;
    if !fits || !bytes.is_power_of_two() {
        let why = "not a power of two between 64 and the size of a block";
        return Err(bad("s_desc_size", bytes.into(), why));
    }
    Ok(bytes)
}

/// Returns the first meta block group; `None` without `meta_bg`.
fn first_meta_group(
    raw: &disk::Superblock,
    features: Features,
    geometry: &Geometry,
) -> Result<Option<u32>> {
    if !features.incompatible.contains(Incompatible::META_BG) {
        return Ok(None);
    }
    if features.compatible.contains(Compatible::RESIZE_INODE) {
        let bits = features.incompatible.bits().into();
        let why = "meta_bg excludes resize_inode; e2fsck removes the latter";
        return Err(bad("s_feature_incompat", bits, why));
    }
    let first = raw.first_meta_group.get();
    if first > geometry.descriptor_blocks() {
        let why = "more than there are blocks of descriptors";
        return Err(bad("s_first_meta_bg", first.into(), why));
    }
    Ok(Some(first))
}

/// Returns the number of blocks reserved for privileged callers.
pub(super) fn reserved_blocks(raw: &disk::Superblock, features: Features) -> u64 {
    match is_64bit(features) {
        true => raw.reserved_blocks_count(),
        false => u64::from(raw.reserved_blocks_count_low.get()),
    }
}

fn is_64bit(features: Features) -> bool {
    features.incompatible.contains(Incompatible::IS_64BIT)
}

fn inodes_per_group(raw: &disk::Superblock, block_bytes: u32, inode_bytes: u16) -> Result<u32> {
    let count = raw.inodes_per_group.get();
    let per_block = block_bytes / u32::from(inode_bytes);
    if count < per_block || count > block_bytes * 8 {
        let why = "less than a block of inodes or more than the bits of a block";
        return Err(bad("s_inodes_per_group", count.into(), why));
    }
    Ok(count)
}

/// Checks that every group, the last included, has room for its own metadata. Bitmaps and inode
/// tables of flexible groups may lie elsewhere.
fn check_room(geometry: &Geometry) -> Result<()> {
    let last = GroupNr::new(geometry.group_count - 1);
    for group in [GroupNr::new(0), GroupNr::new(1), last] {
        if group > last {
            continue;
        }
        let elsewhere = match geometry.has_flexible_groups {
            true => 0,
            false => 2 + geometry.inode_table_blocks(),
        };
        let taken = geometry.super_blocks(group) + elsewhere;
        if taken > geometry.blocks_in(group) {
            let why = "a group has no room for its own metadata";
            return Err(bad(
                "s_inodes_per_group",
                geometry.inodes_per_group.into(),
                why,
            ));
        }
    }
    Ok(())
}

/// Rejects impossible counts.
fn check_counts(raw: &disk::Superblock, features: Features, geometry: &Geometry) -> Result<()> {
    let reserved = reserved_blocks(raw, features);
    if reserved > geometry.block_count {
        return Err(bad(
            "s_r_blocks_count",
            reserved,
            "more than there are blocks",
        ));
    }
    let orphan = raw.first_orphan.get();
    if orphan > geometry.inode_count {
        return Err(bad(
            "s_last_orphan",
            orphan.into(),
            "there is no such inode",
        ));
    }
    Ok(())
}
