//! Facts from the group descriptors and the bitmaps, for each group.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, Result};
use block::BlockDevice;
use layout::feature::{Incompatible, ReadOnlyCompatible};
use layout::group::GroupFlags;
use layout::superblock::Superblock;
use serde_json::{Value, json};

use super::INFALLIBLE;
use super::descriptors::{ClosedRange, Sizes};

const FLAGS: &[(GroupFlags, &str)] = &[
    (GroupFlags::INODE_UNINIT, "INODE_UNINIT"),
    (GroupFlags::BLOCK_UNINIT, "BLOCK_UNINIT"),
    (GroupFlags::INODE_ZEROED, "ITABLE_ZEROED"),
];

/// The facts of a group.
pub(super) struct Group {
    number: u32,
    blocks: ClosedRange,
    checksum: Option<u16>,
    flags: Vec<&'static str>,
    superblock: Option<u64>,
    descriptors: Option<ClosedRange>,
    reserved: Option<ClosedRange>,
    block_bitmap: u64,
    inode_bitmap: u64,
    inode_table: ClosedRange,
    free_blocks: u32,
    free_inodes: u32,
    directories: u32,
    unused_inodes: Option<u32>,
    free_block_ranges: Vec<ClosedRange>,
    free_inode_ranges: Vec<ClosedRange>,
}

/// Returns all groups; empty for a journal device.
pub(super) fn groups(device: &Arc<dyn BlockDevice>, raw: &Superblock) -> Result<Vec<Group>> {
    if raw
        .features()
        .incompatible
        .contains(Incompatible::JOURNAL_DEV)
    {
        return Ok(Vec::new());
    }
    let sizes = Sizes::of(raw)?;
    (0..sizes.group_count)
        .map(|number| group(device, &sizes, number).with_context(|| format!("group {number}")))
        .collect()
}

fn group(device: &Arc<dyn BlockDevice>, sizes: &Sizes<'_>, number: u32) -> Result<Group> {
    let descriptor = sizes.descriptor(device, number)?;
    let base = &descriptor.0.base;
    let more = &descriptor.0;
    let features = sizes.raw.features().read_only_compatible;
    let has_checksum =
        features.intersects(ReadOnlyCompatible::UNINIT_BG | ReadOnlyCompatible::METADATA_CSUM);
    let flags = if has_checksum {
        base.flags()
    } else {
        GroupFlags::empty()
    };
    let (first, count) = (sizes.first_of(number), sizes.len_of(number));
    let table = descriptor.inode_table();
    let mut group = Group {
        number,
        blocks: (first, first + count - 1),
        checksum: has_checksum.then(|| base.checksum.get()),
        flags: FLAGS
            .iter()
            .filter(|(flag, _)| flags.contains(*flag))
            .map(|(_, name)| *name)
            .collect(),
        superblock: sizes.superblock_in(number),
        descriptors: sizes.descriptors_in(number),
        reserved: sizes.reserved_in(number),
        block_bitmap: descriptor.block_bitmap(),
        inode_bitmap: descriptor.inode_bitmap(),
        inode_table: (table, table + sizes.table_blocks.saturating_sub(1)),
        free_blocks: join16(
            base.free_blocks_count_low.get(),
            more.free_blocks_count_high.get(),
        ),
        free_inodes: join16(
            base.free_inodes_count_low.get(),
            more.free_inodes_count_high.get(),
        ),
        directories: join16(
            base.directories_count_low.get(),
            more.directories_count_high.get(),
        ),
        unused_inodes: has_checksum.then(|| {
            join16(
                base.unused_inodes_count_low.get(),
                more.unused_inodes_count_high.get(),
            )
        }),
        free_block_ranges: Vec::new(),
        free_inode_ranges: Vec::new(),
    };
    let clusters = 0..count.div_ceil(u64::from(sizes.ratio));
    let ratio = u64::from(sizes.ratio);
    let free = if flags.contains(GroupFlags::BLOCK_UNINIT) {
        let used = group.own();
        stretches(clusters, |cluster| {
            let block = first + cluster * ratio;
            !used
                .iter()
                .any(|(from, to)| *from < block + ratio && block <= *to)
        })
    } else {
        let bitmap = sizes.read(device, group.block_bitmap)?;
        stretches(clusters, |cluster| !is_set(&bitmap, cluster))
    };
    let blocks = free.into_iter();
    group.free_block_ranges = blocks
        .map(|(from, to)| (first + from * ratio, first + to * ratio + ratio - 1))
        .collect();
    let per_group = u64::from(sizes.raw.inodes_per_group.get());
    let free = if flags.contains(GroupFlags::INODE_UNINIT) {
        vec![(0, per_group - 1)]
    } else {
        let bitmap = sizes.read(device, group.inode_bitmap)?;
        stretches(0..per_group, |index| !is_set(&bitmap, index))
    };
    let first = u64::from(number) * per_group + 1;
    let inodes = free.into_iter();
    group.free_inode_ranges = inodes
        .map(|(from, to)| (first + from, first + to))
        .collect();
    Ok(group)
}

fn join16(low: u16, high: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}

fn is_set(bitmap: &[u8], index: u64) -> bool {
    bitmap[(index / 8) as usize] & (1 << (index % 8)) != 0
}

/// Returns the maximal ranges of numbers for which `holds` is true.
fn stretches(numbers: Range<u64>, holds: impl Fn(u64) -> bool) -> Vec<ClosedRange> {
    let mut found: Vec<ClosedRange> = Vec::new();
    for number in numbers.filter(|number| holds(*number)) {
        match found.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => found.push((number, number)),
        }
    }
    found
}

impl Group {
    /// Returns the blocks of the group's own metadata.
    fn own(&self) -> Vec<ClosedRange> {
        let single = |block: u64| (block, block);
        let mut own = vec![
            single(self.block_bitmap),
            single(self.inode_bitmap),
            self.inode_table,
        ];
        own.extend(self.superblock.map(single));
        own.extend(self.descriptors);
        own.extend(self.reserved);
        own
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "group": self.number,
            "blocks": self.blocks,
            "checksum": self.checksum,
            "flags": self.flags,
            "superblock": self.superblock,
            "descriptors": self.descriptors,
            "reserved_descriptors": self.reserved,
            "block_bitmap": self.block_bitmap,
            "inode_bitmap": self.inode_bitmap,
            "inode_table": self.inode_table,
            "free_blocks": self.free_blocks,
            "free_inodes": self.free_inodes,
            "directories": self.directories,
            "unused_inodes": self.unused_inodes,
            "free_block_ranges": self.free_block_ranges,
            "free_inode_ranges": self.free_inode_ranges,
        })
    }

    pub(super) fn render(&self, text: &mut String) {
        let flags = match self.flags.as_slice() {
            [] => String::new(),
            flags => format!(", {}", flags.join(" ")),
        };
        let checksum = self.checksum.map(|sum| format!(", checksum {sum:#06x}"));
        let mut line = |line: String| writeln!(text, "{line}").expect(INFALLIBLE);
        line(format!(
            "Group {}: blocks {}{}{flags}",
            self.number,
            range(self.blocks),
            checksum.unwrap_or_default()
        ));
        if let Some(block) = self.superblock {
            let kind = if self.number == 0 { "" } else { "copy of the " };
            line(format!("  {kind}superblock {block}"));
        }
        if let Some(blocks) = self.descriptors {
            let reserved = self
                .reserved
                .map(|blocks| format!(", room for more {}", range(blocks)));
            let reserved = reserved.unwrap_or_default();
            line(format!("  group descriptors {}{reserved}", range(blocks)));
        }
        line(format!(
            "  block bitmap {}, inode bitmap {}, inode table {}",
            self.block_bitmap,
            self.inode_bitmap,
            range(self.inode_table)
        ));
        let unused = self
            .unused_inodes
            .map(|count| format!(", {count} inodes never used"));
        line(format!(
            "  {} free blocks, {} free inodes, {} directories{}",
            self.free_blocks,
            self.free_inodes,
            self.directories,
            unused.unwrap_or_default()
        ));
        line(format!(
            "  free blocks: {}",
            ranges(&self.free_block_ranges)
        ));
        line(format!(
            "  free inodes: {}",
            ranges(&self.free_inode_ranges)
        ));
    }
}

fn range((first, last): ClosedRange) -> String {
    if first == last {
        first.to_string()
    } else {
        format!("{first}-{last}")
    }
}

fn ranges(all: &[ClosedRange]) -> String {
    if all.is_empty() {
        return "none".to_owned();
    }
    all.iter()
        .map(|stretch| range(*stretch))
        .collect::<Vec<_>>()
        .join(", ")
}
