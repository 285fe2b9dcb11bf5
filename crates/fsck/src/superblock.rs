//! The superblock: its sizes and features, accepted only if consistent with each other and with the
//! device.

pub(crate) mod check;

use layout::checksum;
use layout::feature::table::{Uses, with_uses};
use layout::feature::{Features, Incompatible, ReadOnlyCompatible, Word, word_names};
use layout::superblock::{self as disk, Backups, Superblock};
use zerocopy::FromBytes;

use crate::error::{Error, SuperblockFault};
use crate::geometry::Geometry;
use crate::image::Image;

/// Minimum size of a group in clusters.
const GROUP_CLUSTERS_MIN: u32 = 8;
/// Maximum `s_log_cluster_size`: clusters of 512 MiB.
const LOG_CLUSTER_MAX: u32 = 19;
/// Maximum block size in bytes.
const BLOCK_BYTES_MAX: u32 = 65536;
/// Maximum `s_log_groups_per_flex`.
const LOG_GROUPS_PER_FLEX_MAX: u32 = 31;
/// Minimum size of a group descriptor with the feature `64bit` in bytes.
const DESCRIPTOR_BYTES_MIN: u32 = layout::group::SIZE_64BIT as u32;
/// Maximum size of a group descriptor in bytes.
const DESCRIPTOR_BYTES_MAX: u32 = 1024;

/// A usable superblock.
pub(crate) struct Decoded {
    pub(crate) raw: Superblock,
    pub(crate) features: Features,
    pub(crate) geometry: Geometry,
    /// Block that it was read from, if it is a backup.
    pub(crate) copy: Option<u64>,
    /// True if the primary superblock has a wrong checksum.
    pub(crate) is_checksum_wrong: bool,
}

/// Finds a usable superblock: the primary one, or a backup.
pub(crate) fn find(image: &mut Image<'_>) -> Result<Decoded, Error> {
    let raw = read(image, disk::OFFSET)?;
    match decode(raw) {
        Err(Error::NoSuperblock { why }) => {
            let copy = find_copy(image, &raw).ok_or(Error::NoSuperblock { why })?;
            Ok(Decoded {
                is_checksum_wrong: matches!(why, SuperblockFault::Checksum { .. }),
                ..copy
            })
        }
        result => result,
    }
}

/// Finds the backup in the second group. The primary superblock gives the size of groups if its
/// magic is valid, else groups have their usual size.
pub(crate) fn find_copy(image: &mut Image<'_>, first: &Superblock) -> Option<Decoded> {
    let said = (first.magic.get() == disk::MAGIC)
        .then(|| first.block_size().zip(Some(first.blocks_per_group.get())));
    let log_sizes = 0..=(BLOCK_BYTES_MAX / disk::BLOCK_SIZE_MIN).ilog2();
    let usual = log_sizes.map(|log| {
        let block_bytes = disk::BLOCK_SIZE_MIN << log;
        (block_bytes, block_bytes * 8)
    });
    let said = said.flatten();
    said.into_iter()
        .chain(usual)
        .find_map(|(block_bytes, per_group)| {
            let has_large_clusters = said.is_some() && first.log_cluster_size.get() > 0;
            let is_small = block_bytes == disk::BLOCK_SIZE_MIN;
            let first_block = u64::from(is_small && !has_large_clusters);
            let block = first_block + u64::from(per_group);
            let raw = read(image, block * u64::from(block_bytes)).ok()?;
            let mut decoded = decode(raw).ok()?;
            let geometry = &decoded.geometry;
            let is_there = geometry.block_bytes == block_bytes as usize
                && geometry.group_count > 1
                && geometry.first_block_of(1) == block;
            decoded.copy = Some(block);
            is_there.then_some(decoded)
        })
}

/// Reads the superblock at a byte offset.
pub(crate) fn read(image: &mut Image<'_>, offset: u64) -> Result<Superblock, Error> {
    let too_small = Error::NoSuperblock {
        why: SuperblockFault::TooSmall,
    };
    if image.size_bytes() < offset + disk::SIZE as u64 {
        return Err(too_small);
    }
    let bytes = image.bytes(offset, disk::SIZE)?;
    Superblock::read_from_bytes(&bytes).map_err(|_| too_small)
}

/// Validates a superblock.
pub(crate) fn decode(raw: Superblock) -> Result<Decoded, Error> {
    let magic = raw.magic.get();
    if magic != disk::MAGIC {
        let why = SuperblockFault::Magic { found: magic };
        return Err(Error::NoSuperblock { why });
    }
    let features = raw.features();
    check_checksum(&raw, features).map_err(|why| Error::NoSuperblock { why })?;
    if features.incompatible.contains(Incompatible::JOURNAL_DEV) {
        return Err(Error::IsJournalDevice);
    }
    check_features(features)?;
    let geometry = geometry(&raw, features).map_err(|why| Error::NoSuperblock { why })?;
    Ok(Decoded {
        raw,
        features,
        geometry,
        copy: None,
        is_checksum_wrong: false,
    })
}

fn check_checksum(raw: &Superblock, features: Features) -> Result<(), SuperblockFault> {
    let read_only = features.read_only_compatible;
    if !read_only.contains(ReadOnlyCompatible::METADATA_CSUM) {
        return Ok(());
    }
    let (found, expected) = (raw.checksum.get(), checksum::superblock(raw));
    if found != expected {
        return Err(SuperblockFault::Checksum { found, expected });
    }
    let known = u32::from(disk::CHECKSUM_CRC32C);
    within("s_checksum_type", raw.checksum_type.into(), known, known)
}

fn check_features(features: Features) -> Result<(), Error> {
    // A checker may not ignore any other feature, not even a compatible one.
    let unknown = [
        Word::Compatible,
        Word::Incompatible,
        Word::ReadOnlyCompatible,
    ]
    .map(|word| (word, features.word(word) & !with_uses(word, Uses::CHECKED)));
    let names: Vec<String> = unknown
        .into_iter()
        .flat_map(|(word, bits)| word_names(word, bits))
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(Error::Features {
        names: names.join(" "),
    })
}

fn geometry(raw: &Superblock, features: Features) -> Result<Geometry, SuperblockFault> {
    let log = raw.log_block_size.get();
    let block_bytes = raw.block_size().filter(|bytes| *bytes <= BLOCK_BYTES_MAX);
    let why = "blocks have 1 KiB to 64 KiB";
    let block_bytes = block_bytes.ok_or(bad("s_log_block_size", log, why))?;
    let cluster_log = cluster_log(raw, features)?;
    let first_block = u32::from(raw.log_cluster_size.get() == 0);
    within(
        "s_first_data_block",
        raw.first_data_block.get(),
        first_block,
        first_block,
    )?;
    let block_count = raw.blocks_count();
    if block_count <= u64::from(first_block) {
        let why = "less than it can be";
        return Err(bad64("s_blocks_count", block_count, why));
    }
    if !block_count.is_multiple_of(1 << cluster_log) {
        let why = "it is a multiple of the blocks of a cluster";
        return Err(bad64("s_blocks_count", block_count, why));
    }
    let blocks_per_group = raw.blocks_per_group.get();
    let bits = block_bytes * 8;
    let clusters = blocks_per_group >> cluster_log;
    within("s_blocks_per_group", clusters, GROUP_CLUSTERS_MIN, bits)?;
    if !clusters.is_multiple_of(8) {
        let why = "a group has a multiple of 8 blocks";
        return Err(bad("s_blocks_per_group", blocks_per_group, why));
    }
    let clusters_per_group = raw.clusters_per_group.get();
    within(
        "s_clusters_per_group",
        clusters_per_group,
        clusters,
        clusters,
    )?;
    let log = u32::from(raw.log_groups_per_flex);
    within("s_log_groups_per_flex", log, 0, LOG_GROUPS_PER_FLEX_MAX)?;
    let inode_bytes = u32::from(raw.inode_size());
    let least = u32::from(disk::GOOD_OLD_INODE_SIZE);
    within("s_inode_size", inode_bytes, least, block_bytes)?;
    if !inode_bytes.is_power_of_two() {
        return Err(bad("s_inode_size", inode_bytes, "it is a power of two"));
    }
    let inodes_per_group = raw.inodes_per_group.get();
    let per_block = block_bytes / inode_bytes;
    within("s_inodes_per_group", inodes_per_group, per_block, bits)?;
    let group_count = (block_count - u64::from(first_block)).div_ceil(blocks_per_group.into());
    let (group_count, inode_count) = u32::try_from(group_count)
        .ok()
        .and_then(|count| Some((count, count.checked_mul(inodes_per_group)?)))
        .ok_or(bad(
            "s_inodes_per_group",
            inodes_per_group,
            "too many inodes",
        ))?;
    let mut geometry = Geometry {
        block_bytes: block_bytes as usize,
        block_count,
        first_block: first_block.into(),
        cluster_log,
        blocks_per_group,
        group_count,
        inodes_per_group,
        inode_bytes: inode_bytes as usize,
        inode_count,
        first_inode: raw.first_inode(),
        reserved_descriptor_blocks: raw.reserved_descriptor_blocks.get().into(),
        descriptor_bytes: descriptor_bytes(raw, block_bytes)?,
        backups: Backups::of(raw, features),
        first_meta_group: None,
        has_flexible_groups: features.incompatible.contains(Incompatible::FLEX_BG),
    };
    if features.incompatible.contains(Incompatible::META_BG) {
        let first = raw.first_meta_group.get();
        within("s_first_meta_bg", first, 0, geometry.descriptor_blocks())?;
        geometry.first_meta_group = Some(first);
    }
    check_limits(raw, &geometry)?;
    Ok(geometry)
}

/// Returns the logarithm of the number of blocks in a cluster. Without `bigalloc` a cluster is a
/// block.
fn cluster_log(raw: &Superblock, features: Features) -> Result<u32, SuperblockFault> {
    let (log, block_log) = (raw.log_cluster_size.get(), raw.log_block_size.get());
    let words = features.read_only_compatible;
    let most = match words.contains(ReadOnlyCompatible::BIGALLOC) {
        true => LOG_CLUSTER_MAX,
        false => block_log,
    };
    within("s_log_cluster_size", log, block_log, most)?;
    Ok(log - block_log)
}

/// Returns the size of a group descriptor. Without `64bit` the stored size is not used, but it must
/// be possible.
fn descriptor_bytes(raw: &Superblock, block_bytes: u32) -> Result<usize, SuperblockFault> {
    let stored = u32::from(raw.descriptor_size.get());
    if stored != 0 && !stored.is_power_of_two() {
        return Err(bad("s_desc_size", stored, "it is a power of two"));
    }
    let is_64bit = raw.features().incompatible.contains(Incompatible::IS_64BIT);
    let least = if is_64bit { DESCRIPTOR_BYTES_MIN } else { 0 };
    let most = DESCRIPTOR_BYTES_MAX.min(block_bytes);
    within("s_desc_size", stored, least, most)?;
    Ok(raw.descriptor_bytes().into())
}

/// Checks that counts and numbers are possible with the geometry.
fn check_limits(raw: &Superblock, geometry: &Geometry) -> Result<(), SuperblockFault> {
    within("s_inodes_count", raw.inodes_count.get(), 1, u32::MAX)?;
    let first_inode = geometry.first_inode;
    let least = disk::GOOD_OLD_FIRST_INODE;
    within("s_first_ino", first_inode, least, geometry.inode_count)?;
    let reserved = raw.reserved_blocks_count();
    if reserved > geometry.block_count / 2 {
        let why = "more than it can be";
        return Err(bad64("s_r_blocks_count", reserved, why));
    }
    let descriptors = geometry.reserved_descriptor_blocks;
    let most = geometry.pointers_per_block() as u32;
    within("s_reserved_gdt_blocks", descriptors, 0, most)?;
    let supers = 1 + geometry.joint_descriptor_blocks();
    let overhead = if geometry.has_flexible_groups {
        supers.max(geometry.inode_table_blocks())
    } else {
        supers + 2 + geometry.inode_table_blocks()
    };
    let last = geometry.group_count - 1;
    let has_meta_groups = geometry.first_meta_group.is_some();
    if has_meta_groups && geometry.super_blocks(last) > geometry.blocks_in(last) {
        let why = "the last group has no room for its copies";
        return Err(bad64("s_blocks_count", geometry.block_count, why));
    }
    let why = "a group has no room for its own metadata";
    if overhead > geometry.blocks_per_group {
        let count = geometry.inodes_per_group;
        return Err(bad("s_inodes_per_group", count, why));
    }
    Ok(())
}

fn within(field: &'static str, value: u32, least: u32, most: u32) -> Result<(), SuperblockFault> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let why = if value < least {
        "less than it can be"
    } else {
        "more than it can be"
    };
    Err(bad(field, value, why))
}

fn bad(field: &'static str, value: u32, why: &'static str) -> SuperblockFault {
    bad64(field, value.into(), why)
}

fn bad64(field: &'static str, value: u64, why: &'static str) -> SuperblockFault {
    SuperblockFault::Field { field, value, why }
}
