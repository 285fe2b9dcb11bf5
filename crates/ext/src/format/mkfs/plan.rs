//! The plan: from options and the size of a device to groups, inodes and reserves.
//!
//! The counts depend on each other: inodes are rounded up so that they fill the blocks of the inode
//! tables, groups with too many inodes get smaller, and a last group that is too short for its own
//! metadata and 50 blocks of data is dropped. So the plan is computed in rounds until nothing
//! changes, in the order of mke2fs.

use block::Geometry as DeviceGeometry;
use layout::feature::{Compatible, Features, Incompatible, ReadOnlyCompatible};
use layout::inode::BASE_SIZE;
use layout::quota::QuotaKind;
use layout::superblock::{Backups, GOOD_OLD_FIRST_INODE};
use layout::{BlockNr, InodeNr};

use super::defaults::{self, Resolved};
use super::groups::GroupMetadata;
use super::sums::Sums;
use super::{FileSystemType, JournalOption, Options, Profile};
use crate::disk::geometry::{BLOCKS_MAX, Geometry, NARROW_BLOCKS_MAX};
use crate::error::{Error, Result};

/// Size of a page in bytes; the size of a device is rounded down to a multiple of it.
const PAGE_BYTES: u64 = 4096;
/// Size in bytes of the largest blocks that a volume is made with.
const BLOCK_BYTES_MAX: u32 = 4096;
/// Smallest number of data blocks in the last group.
const LAST_GROUP_DATA_MIN: u64 = 50;
/// Size of the smallest group in clusters.
const GROUP_CLUSTERS_MIN: u32 = 256;
/// Size of the largest cluster in bytes.
const CLUSTER_BYTES_MAX: u32 = 256 << 20;
/// Smallest number of inodes in a group: a byte of its bitmap.
const GROUP_INODES_MIN: u32 = 8;
/// Range of `-i`.
const INODE_RATIO: core::ops::RangeInclusive<u32> = 1024..=defaults::INODE_RATIO_MAX;
/// Factor by which a volume can grow by default.
const GROWTH: u64 = 1024;
/// Largest percentage of reserved blocks.
const RESERVED_PERCENT_MAX: f64 = 50.0;
/// Length of the longest label in bytes.
const LABEL_MAX: usize = 16;

/// Number of blocks below which a device is rejected without further checks.
const BLOCKS_MIN: u64 = 16;
const TOO_SMALL: Error = Error::Invalid("the device is too small for a file system");

/// The inode of `lost+found`: the first that is not reserved.
pub(super) const LOST_FOUND: InodeNr = InodeNr::new(11);
/// The inode of project quotas: the next one.
pub(super) const PROJECT_QUOTA: InodeNr = InodeNr::new(12);

/// The parameters of the new volume.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) geometry: Geometry,
    pub(super) metadata: GroupMetadata,
    pub(super) features: Features,
    /// The kinds of owners that have a quota file.
    pub(super) quotas: Vec<QuotaKind>,
    pub(super) sums: Sums,
    pub(super) reserved_blocks: u64,
    pub(super) uuid: [u8; 16],
    pub(super) hash_seed: [u8; 16],
    pub(super) seconds: i64,
    pub(super) label: [u8; LABEL_MAX],
    pub(super) profile: Profile,
    pub(super) warnings: Vec<String>,
}

/// Counts during the computation.
struct Counts {
    blocks: u64,
    /// Number of wanted inodes, before rounding up.
    inodes: u64,
    blocks_per_group: u32,
    /// Number of reserved blocks, and their share of all blocks.
    reserved: u64,
    reserved_share: f64,
}

/// The result of a round.
enum Round {
    /// The counts are consistent.
    Good {
        groups: u32,
        inodes_per_group: u32,
        reserved_descriptors: u16,
    },
    /// The counts have changed: another round is needed.
    Again,
}

/// Computes the plan.
pub(super) fn plan(device: &DeviceGeometry, options: &Options) -> Result<Plan> {
    let resolved = resolve(device, options);
    check(device, options, &resolved)?;
    let mut features = features(options, &resolved)?;
    let log = cluster_log(&resolved);
    let blocks = block_count(device, options, resolved.block_bytes)? >> log << log;
    if blocks > NARROW_BLOCKS_MAX {
        if !features.incompatible.contains(Incompatible::IS_64BIT) {
            return Err(Error::Invalid(
                "more than 2^32 blocks need 64bit: set it, or choose larger blocks",
            ));
        }
        // The blocks of its file have numbers of 32 bits.
        features.compatible.remove(Compatible::RESIZE_INODE);
    }
    if blocks < BLOCKS_MIN {
        return Err(TOO_SMALL);
    }
    let bytes = blocks * u64::from(resolved.block_bytes);
    let inodes = match options.inode_count.filter(|count| *count > 0) {
        Some(count) => u64::from(count),
        // The volume is too small for the ratio.
        None if bytes < u64::from(resolved.bytes_per_inode) => bytes.div_ceil(PAGE_BYTES),
        None => bytes / u64::from(resolved.bytes_per_inode),
    };
    if inodes > u64::from(u32::MAX) {
        return Err(Error::Invalid(
            "more than 2^32 inodes: ask for more bytes per inode",
        ));
    }
    if inodes * u64::from(resolved.inode_bytes) >= bytes {
        return Err(Error::Invalid(
            "the inodes would take all blocks: ask for fewer or smaller ones",
        ));
    }
    let per_group = options
        .blocks_per_group
        .unwrap_or((resolved.block_bytes * 8) << log);
    let inodes = inodes.max(u64::from(GOOD_OLD_FIRST_INODE) + 1);
    let reserved = (options.reserved_percent * blocks as f64 / 100.0) as u64;
    let reserved_share = reserved as f64 / blocks as f64;
    let mut counts = Counts {
        blocks,
        inodes,
        blocks_per_group: per_group,
        reserved,
        reserved_share,
    };
    let geometry = loop {
        let round = round(&mut counts, blocks, options, &resolved, features)?;
        if let Round::Good {
            groups,
            inodes_per_group,
            reserved_descriptors,
        } = round
        {
            break geometry(
                &counts,
                &resolved,
                features,
                groups,
                inodes_per_group,
                reserved_descriptors,
            );
        }
    };
    let quotas = quotas(options, features)?;
    if geometry.inode_count < last_inode(features, &quotas).get() {
        return Err(Error::Invalid(
            "there would be fewer than the 11 inodes that every file system has, and one each for an orphan file and project quotas: ask for more, or for a larger device",
        ));
    }
    let mut label = [0; LABEL_MAX];
    label[..options.label.len()].copy_from_slice(options.label.as_bytes());
    let uuid = options.uuid.unwrap_or_else(random_uuid);
    let is_flexible = features.incompatible.contains(Incompatible::FLEX_BG);
    Ok(Plan {
        metadata: GroupMetadata::new(&geometry, is_flexible)?,
        geometry,
        features,
        quotas,
        sums: Sums::new(features, &uuid),
        reserved_blocks: counts.reserved,
        uuid,
        hash_seed: options.hash_seed.unwrap_or_else(random_uuid),
        seconds: options.seconds.unwrap_or_else(|| rt::wall().seconds),
        label,
        profile: options.profile,
        warnings: Vec::new(),
    })
}

/// Returns the last inode of the first files.
fn last_inode(features: Features, quotas: &[QuotaKind]) -> InodeNr {
    let has_orphan_file = features.compatible.contains(Compatible::ORPHAN_FILE);
    let has_projects = quotas.contains(&QuotaKind::Project);
    InodeNr::new(LOST_FOUND.get() + u32::from(has_orphan_file) + u32::from(has_projects))
}

/// Returns the kinds of owners that get a quota file.
fn quotas(options: &Options, features: Features) -> Result<Vec<QuotaKind>> {
    let has = |bits| features.read_only_compatible.contains(bits);
    if !has(ReadOnlyCompatible::QUOTA) {
        return match &options.quota_kinds {
            None => Ok(Vec::new()),
            Some(_) => Err(Error::Invalid("quotatype is of use with quota only")),
        };
    }
    let has_project = has(ReadOnlyCompatible::PROJECT);
    let all = QuotaKind::ALL.into_iter();
    let usual = || {
        all.clone()
            .filter(|kind| has_project || *kind != QuotaKind::Project)
    };
    let mut kinds = options
        .quota_kinds
        .clone()
        .unwrap_or_else(|| usual().collect());
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.contains(&QuotaKind::Project) && !has_project {
        return Err(Error::Invalid(
            "quotas of projects need the feature project",
        ));
    }
    Ok(kinds)
}

impl Plan {
    /// Returns the last inode of the first files; all before it are in use or reserved.
    pub(super) fn last_inode(&self) -> InodeNr {
        last_inode(self.features, &self.quotas)
    }

    /// Returns the inode of the orphan file: the last of the first files.
    pub(super) fn orphan_file(&self) -> InodeNr {
        self.last_inode()
    }
}

fn check(device: &DeviceGeometry, options: &Options, resolved: &Resolved) -> Result<()> {
    let block_bytes = resolved.block_bytes;
    let rules = [
        (
            block_bytes.is_power_of_two() && (1024..=BLOCK_BYTES_MAX).contains(&block_bytes),
            "blocks have 1024, 2048 or 4096 bytes",
        ),
        (
            block_bytes >= device.sector_bytes,
            "blocks are smaller than the device's sectors",
        ),
        (
            resolved.inode_bytes.is_power_of_two()
                && resolved.inode_bytes >= 128
                && u32::from(resolved.inode_bytes) <= block_bytes,
            "inodes have a power of two of bytes, from 128 to the size of a block",
        ),
        (
            INODE_RATIO.contains(&resolved.bytes_per_inode),
            "one inode is made for 1024 bytes to 64 MiB",
        ),
        (
            (0.0..=RESERVED_PERCENT_MAX).contains(&options.reserved_percent),
            "from 0 to 50 percent of the blocks can be reserved",
        ),
        (
            options.label.len() <= LABEL_MAX,
            "a label has at most 16 bytes",
        ),
        (
            resolved.cluster_bytes.is_power_of_two()
                && (block_bytes..=CLUSTER_BYTES_MAX).contains(&resolved.cluster_bytes),
            "clusters have a power of two of bytes, from the size of a block to 512 MiB",
        ),
        (
            options.blocks_per_group.is_none_or(|count| {
                let clusters = count >> cluster_log(resolved);
                clusters << cluster_log(resolved) == count
                    && clusters.is_multiple_of(8)
                    && (GROUP_CLUSTERS_MIN..=block_bytes * 8).contains(&clusters)
            }),
            "a group has a multiple of 8 blocks, or clusters, from 256 to the bits of a block",
        ),
    ];
    match rules.into_iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err(Error::Invalid(rule)),
        None => Ok(()),
    }
}

fn features(options: &Options, resolved: &Resolved) -> Result<Features> {
    let mut features = options.features.apply(resolved.features);
    if options.journal != JournalOption::Default {
        features.compatible |= Compatible::HAS_JOURNAL;
    }
    if options.resize_blocks_max.is_some() {
        features.compatible |= Compatible::RESIZE_INODE;
    }
    if options.file_system == FileSystemType::Ext4 && options.profile == Profile::Classic2002 {
        return Err(Error::Invalid("there was no ext4 in 2002"));
    }
    let has = |bits| features.read_only_compatible.contains(bits);
    let rules = [
        (
            has(ReadOnlyCompatible::BIGALLOC)
                && !features.incompatible.contains(Incompatible::EXTENTS),
            "bigalloc needs extent",
        ),
        (
            options.cluster_bytes.is_some() && !has(ReadOnlyCompatible::BIGALLOC),
            "the size of a cluster needs the feature bigalloc",
        ),
        (
            features.compatible.contains(Compatible::RESIZE_INODE)
                && !has(ReadOnlyCompatible::SPARSE_SUPER),
            "resize_inode needs sparse_super",
        ),
        (
            features.compatible.contains(Compatible::RESIZE_INODE) && has_meta_groups(features),
            "meta_bg excludes resize_inode: remove it with ^resize_inode",
        ),
        (
            features.compatible.contains(Compatible::ORPHAN_FILE)
                && !features.compatible.contains(Compatible::HAS_JOURNAL),
            "orphan_file needs has_journal",
        ),
        (
            has(ReadOnlyCompatible::PROJECT)
                && options.inode_bytes.is_some_and(|bytes| bytes < 256),
            "project needs inodes of 256 bytes or more",
        ),
        (
            features.incompatible.contains(Incompatible::IS_64BIT)
                && !features.incompatible.contains(Incompatible::EXTENTS),
            "64bit needs extent",
        ),
        (
            features.incompatible.contains(Incompatible::INLINE_DATA)
                && usize::from(resolved.inode_bytes) <= BASE_SIZE,
            "inline_data needs inodes of more than 128 bytes",
        ),
        (
            features
                .incompatible
                .contains(Incompatible::METADATA_CSUM_SEED)
                && !has(ReadOnlyCompatible::METADATA_CSUM),
            "metadata_csum_seed needs metadata_csum",
        ),
    ];
    if let Some((_, rule)) = rules.into_iter().find(|(is_broken, _)| *is_broken) {
        return Err(Error::Invalid(rule));
    }
    if has(ReadOnlyCompatible::METADATA_CSUM) {
        // It includes checksums of descriptors.
        features
            .read_only_compatible
            .remove(ReadOnlyCompatible::UNINIT_BG);
    }
    Ok(features)
}

/// Returns true if only some groups have copies of the superblock.
fn is_sparse(features: Features) -> bool {
    features
        .read_only_compatible
        .contains(ReadOnlyCompatible::SPARSE_SUPER)
}

/// Returns the groups with copies of the superblock; with `sparse_super2`, the second and the last.
fn backups(features: Features, groups: u32) -> Backups {
    if features.compatible.contains(Compatible::SPARSE_SUPER2) {
        let last = groups - 1;
        Backups::Listed(if last > 1 { [1, last] } else { [last, 0] })
    } else if is_sparse(features) {
        Backups::Sparse
    } else {
        Backups::All
    }
}

/// Returns true if the descriptors lie in meta block groups.
fn has_meta_groups(features: Features) -> bool {
    features.incompatible.contains(Incompatible::META_BG)
}

/// Returns the size of a group descriptor in bytes.
fn descriptor_bytes(features: Features) -> u16 {
    if features.incompatible.contains(Incompatible::IS_64BIT) {
        layout::group::SIZE_64BIT as u16
    } else {
        layout::group::SIZE as u16
    }
}

/// Resolves the options by the size of the volume: that of the device, or of its part that is asked
/// for. A number of blocks without their size is one of blocks as large as those of a volume that
/// takes the device.
fn resolve(device: &DeviceGeometry, options: &Options) -> Resolved {
    let whole = defaults::resolve(options, device.size_bytes);
    let Some(count) = options.block_count else {
        return whole;
    };
    let block_bytes = options.block_bytes.unwrap_or(whole.block_bytes);
    let bytes = count.saturating_mul(u64::from(block_bytes));
    let mut options = options.clone();
    options.block_bytes = Some(block_bytes);
    defaults::resolve(&options, bytes.min(device.size_bytes))
}

fn block_count(device: &DeviceGeometry, options: &Options, block_bytes: u32) -> Result<u64> {
    let fitting = device.size_bytes / u64::from(block_bytes);
    let count = match options.block_count {
        Some(count) if count > fitting => {
            return Err(Error::Invalid("the device has fewer blocks"));
        }
        Some(count) => count,
        None => device.size_bytes / PAGE_BYTES * PAGE_BYTES / u64::from(block_bytes),
    };
    if count > BLOCKS_MAX {
        return Err(Error::Invalid(
            "a volume has at most 2^48 blocks: choose larger blocks",
        ));
    }
    Ok(count)
}

/// Returns the logarithm of the number of blocks in a cluster.
fn cluster_log(resolved: &Resolved) -> u32 {
    (resolved.cluster_bytes / resolved.block_bytes).ilog2()
}

/// Returns the first block of the first group.
fn first_block(resolved: &Resolved) -> u64 {
    u64::from(resolved.cluster_bytes == 1024)
}

/// Computes one round.
fn round(
    counts: &mut Counts,
    blocks_wanted: u64,
    options: &Options,
    resolved: &Resolved,
    features: Features,
) -> Result<Round> {
    const TOO_MANY_INODES: Error = Error::Invalid("there would be too many inodes for the groups");
    const TOO_MANY_RESERVED: Error = Error::Invalid(
        "the blocks that resize_inode reserves fill whole groups: choose larger groups, or remove it with ^resize_inode",
    );
    let block_bytes = resolved.block_bytes;
    let first = first_block(resolved);
    let per_group = u64::from(counts.blocks_per_group);
    if counts.blocks <= first {
        return Err(TOO_SMALL);
    }
    let groups = (counts.blocks - first).div_ceil(per_group);
    let groups = u32::try_from(groups).ok();
    let Some(groups) = groups.filter(|count| *count <= u32::MAX / GROUP_INODES_MIN) else {
        return Err(Error::Invalid(
            "there would be too many groups: choose larger blocks",
        ));
    };
    let inodes_wanted = counts.inodes.div_ceil(u64::from(groups)) as u32;
    if inodes_wanted > block_bytes * 8 {
        let log = cluster_log(resolved);
        if counts.blocks_per_group >> log < GROUP_CLUSTERS_MIN {
            return Err(TOO_MANY_INODES);
        }
        counts.blocks_per_group -= 8 << log;
        counts.blocks = blocks_wanted;
        return Ok(Round::Again);
    }
    let inodes_per_group = inodes_per_group(inodes_wanted, groups, resolved);
    let table = (inodes_per_group * u32::from(resolved.inode_bytes)).div_ceil(block_bytes);
    let descriptor_bytes = u32::from(descriptor_bytes(features));
    let descriptors = groups.div_ceil(block_bytes / descriptor_bytes);
    let reserved = if features.compatible.contains(Compatible::RESIZE_INODE) {
        reserved_descriptors(counts, options, resolved, descriptor_bytes, descriptors)?
    } else {
        0
    };
    let in_meta_group = has_meta_groups(features).then_some(1);
    let bare = 1 + in_meta_group.unwrap_or(descriptors);
    let copies = bare + u32::from(reserved);
    if 2 + table + copies > counts.blocks_per_group {
        return Err(match 2 + table + bare > counts.blocks_per_group {
            true => TOO_MANY_INODES,
            false => TOO_MANY_RESERVED,
        });
    }
    let last_copies = copies * u32::from(backups(features, groups).has(groups - 1));
    let last_overhead = u64::from(2 + table + last_copies);
    let rest = (counts.blocks - first) % per_group;
    if groups == 1 && rest != 0 && rest < last_overhead {
        return Err(TOO_SMALL);
    }
    if rest != 0 && rest < last_overhead + LAST_GROUP_DATA_MIN {
        if groups == 1 {
            return Err(TOO_SMALL);
        }
        counts.blocks -= rest;
        counts.reserved = (counts.reserved_share * counts.blocks as f64) as u64;
        return Ok(Round::Again);
    }
    Ok(Round::Good {
        groups,
        inodes_per_group,
        reserved_descriptors: reserved,
    })
}

/// Returns the number of inodes of a group: rounded up to fill the blocks of the table, and to
/// whole bytes of the bitmap.
fn inodes_per_group(wanted: u32, groups: u32, resolved: &Resolved) -> u32 {
    let inode_bytes = u32::from(resolved.inode_bytes);
    let mut wanted = wanted.min(65536 - resolved.block_bytes / inode_bytes);
    loop {
        let blocks = (wanted * inode_bytes).div_ceil(resolved.block_bytes);
        let count = (blocks * resolved.block_bytes / inode_bytes).max(GROUP_INODES_MIN) & !7;
        if u64::from(count) * u64::from(groups) <= u64::from(u32::MAX) {
            return count;
        }
        wanted -= 1;
    }
}

/// Returns the number of reserved GDT blocks, so that the volume can grow to the requested size; 0
/// if that needs none.
fn reserved_descriptors(
    counts: &Counts,
    options: &Options,
    resolved: &Resolved,
    descriptor_bytes: u32,
    descriptors: u32,
) -> Result<u16> {
    let block_bytes = resolved.block_bytes;
    let per_block = u64::from(block_bytes / descriptor_bytes);
    let per_group = u64::from(counts.blocks_per_group);
    let first = first_block(resolved);
    let more_for = |blocks_max: u64| {
        let needed = blocks_max.div_ceil(per_group).div_ceil(per_block);
        needed
            .saturating_sub(descriptors.into())
            .min(u64::from(block_bytes / 4)) as u16
    };
    let asked_for = match options.resize_blocks_max {
        Some(blocks) if blocks <= counts.blocks => {
            return Err(Error::Invalid(
                "the blocks up to which the volume can grow are no more than it has",
            ));
        }
        Some(blocks) if blocks > u64::from(u32::MAX) => {
            return Err(Error::Invalid("a volume can grow to less than 2^32 blocks"));
        }
        Some(blocks) => more_for(blocks),
        None => 0,
    };
    if asked_for > 0 {
        return Ok(asked_for);
    }
    Ok(more_for(
        (counts.blocks * GROWTH).min(u64::from(u32::MAX)) - first,
    ))
}

fn geometry(
    counts: &Counts,
    resolved: &Resolved,
    features: Features,
    group_count: u32,
    inodes_per_group: u32,
    reserved_descriptor_blocks: u16,
) -> Geometry {
    Geometry {
        block_bytes: resolved.block_bytes,
        block_count: counts.blocks,
        first_data_block: BlockNr::new(first_block(resolved)),
        cluster_log: cluster_log(resolved),
        blocks_per_group: counts.blocks_per_group,
        group_count,
        inodes_per_group,
        inode_bytes: resolved.inode_bytes,
        inode_count: inodes_per_group * group_count,
        first_inode: InodeNr::new(GOOD_OLD_FIRST_INODE),
        descriptor_bytes: descriptor_bytes(features),
        reserved_descriptor_blocks,
        backups: backups(features, group_count),
        first_meta_group: has_meta_groups(features).then_some(0),
        has_flexible_groups: features.incompatible.contains(Incompatible::FLEX_BG),
    }
}

/// Returns a random UUID (version 4).
fn random_uuid() -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&rt::random_u64().to_le_bytes());
    uuid[8..].copy_from_slice(&rt::random_u64().to_le_bytes());
    uuid[6] = (uuid[6] & 0x0F) | 0x40;
    uuid[8] = (uuid[8] & 0x3F) | 0x80;
    uuid
}

impl Plan {
    /// Returns true if files are mapped by extents.
    pub(super) fn has_extents(&self) -> bool {
        self.features.incompatible.contains(Incompatible::EXTENTS)
    }
}
