//! Group descriptors of both sizes: 32 bytes, or 64 with the feature `64bit`, which adds the upper
//! halves of the fields after the lower ones.

use layout::group::{GroupDescriptor as Low, GroupDescriptor64 as Whole, GroupFlags, SIZE_64BIT};
use layout::{BlockNr, GroupNr};
use zerocopy::FromBytes;

use super::checksums::Checksums;
use super::geometry::Geometry;
use crate::error::Corrupt;

/// The decoded, unchecked fields of a group descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupDescriptor {
    pub(crate) block_bitmap: BlockNr,
    pub(crate) inode_bitmap: BlockNr,
    /// The first block of the inode table.
    pub(crate) inode_table: BlockNr,
    pub(crate) counts: GroupCounts,
    /// Valid if descriptors have checksums.
    pub(crate) uninit: Uninit,
    /// Valid if bitmaps have checksums.
    pub(crate) sums: StoredSums,
}

/// Counts of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GroupCounts {
    /// Number of free clusters, which `bg_free_blocks_count` holds.
    pub(crate) free_clusters: u32,
    pub(crate) free_inodes: u32,
    pub(crate) directories: u32,
}

/// The parts of a group that were never initialised, by the flags of its descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Uninit {
    /// True if the block bitmap is among them.
    pub(crate) block_bitmap: bool,
    /// True if the inode bitmap is among them.
    pub(crate) inode_bitmap: bool,
    /// Number of inodes at the end of the table that were never used.
    pub(crate) inodes: u32,
    /// True if the device may hold anything in that part of the table.
    pub(crate) table: bool,
}

/// The checksums of a group's bitmaps that its descriptor has: 16 bits of each, or 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StoredSums {
    blocks: u32,
    inodes: u32,
    /// The bits that are stored.
    mask: u32,
}

/// Checksums of bitmaps that have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct BitmapSums {
    /// The block bitmap's, if it has changed.
    pub(crate) blocks: Option<u32>,
    /// The inode bitmap's, if it has changed.
    pub(crate) inodes: Option<u32>,
}

impl StoredSums {
    /// Returns true if the block bitmap has this checksum.
    pub(crate) fn has_blocks(self, sum: u32) -> bool {
        self.blocks == sum & self.mask
    }

    /// Returns true if the inode bitmap has this checksum.
    pub(crate) fn has_inodes(self, sum: u32) -> bool {
        self.inodes == sum & self.mask
    }
}

impl BitmapSums {
    /// Writes the checksums into all the bytes of a descriptor.
    ///
    /// # Panics
    /// Panics if there are fewer than 32 bytes.
    pub(crate) fn store(self, bytes: &mut [u8]) {
        if let Some(sum) = self.blocks {
            low_of(bytes).block_bitmap_checksum_low.set(sum as u16);
            if let Some(whole) = whole_of(bytes) {
                whole.block_bitmap_checksum_high.set((sum >> 16) as u16);
            }
        }
        if let Some(sum) = self.inodes {
            low_of(bytes).inode_bitmap_checksum_low.set(sum as u16);
            if let Some(whole) = whole_of(bytes) {
                whole.inode_bitmap_checksum_high.set((sum >> 16) as u16);
            }
        }
    }
}

impl Uninit {
    /// Writes flags and count into all the bytes of a descriptor. Other flags stay.
    ///
    /// # Panics
    /// Panics if there are fewer than 32 bytes.
    pub(crate) fn store(self, bytes: &mut [u8]) {
        let low = low_of(bytes);
        let mut flags = low.flags();
        flags.set(GroupFlags::BLOCK_UNINIT, self.block_bitmap);
        flags.set(GroupFlags::INODE_UNINIT, self.inode_bitmap);
        flags.set(GroupFlags::INODE_ZEROED, !self.table);
        low.flag_bits.set(flags.bits());
        low.unused_inodes_count_low.set(self.inodes as u16);
        if let Some(whole) = whole_of(bytes) {
            whole
                .unused_inodes_count_high
                .set((self.inodes >> 16) as u16);
        }
    }
}

/// Sets the flags and the checksum of a descriptor.
///
/// # Panics
/// Panics if there are fewer than 32 bytes.
pub(crate) fn set_flags(bytes: &mut [u8], flags: GroupFlags, checksum: u16) {
    let low = low_of(bytes);
    low.flag_bits.set(flags.bits());
    low.checksum.set(checksum);
}

/// Sets the first block of the inode table in all the bytes of a descriptor.
///
/// # Panics
/// Panics if there are fewer than 32 bytes.
pub(crate) fn set_inode_table(bytes: &mut [u8], first: BlockNr) {
    low_of(bytes).inode_table_low.set(first.get() as u32);
    if let Some(whole) = whole_of(bytes) {
        whole.inode_table_high.set((first.get() >> 32) as u32);
    }
}

fn low_of(bytes: &mut [u8]) -> &mut Low {
    let (low, _) = Low::mut_from_prefix(bytes).expect("a block has room for its descriptors");
    low
}

/// Returns the longer form of a descriptor, if it has it.
fn whole_of(bytes: &mut [u8]) -> Option<&mut Whole> {
    Whole::mut_from_prefix(bytes).ok().map(|(whole, _)| whole)
}

impl GroupDescriptor {
    /// Decodes a descriptor from all of its bytes.
    ///
    /// # Panics
    /// Panics if there are fewer than 32.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        assert!(
            bytes.len() >= size_of::<Low>(),
            "a block has room for its descriptors"
        );
        let raw = Whole::read(bytes);
        let flags = raw.flags();
        Self {
            block_bitmap: BlockNr::new(raw.block_bitmap()),
            inode_bitmap: BlockNr::new(raw.inode_bitmap()),
            inode_table: BlockNr::new(raw.inode_table()),
            counts: GroupCounts {
                free_clusters: raw.free_blocks_count(),
                free_inodes: raw.free_inodes_count(),
                directories: raw.directories_count(),
            },
            uninit: Uninit {
                block_bitmap: flags.contains(GroupFlags::BLOCK_UNINIT),
                inode_bitmap: flags.contains(GroupFlags::INODE_UNINIT),
                inodes: raw.unused_inodes_count(),
                table: !flags.contains(GroupFlags::INODE_ZEROED),
            },
            sums: StoredSums {
                blocks: raw.block_bitmap_checksum(),
                inodes: raw.inode_bitmap_checksum(),
                mask: if bytes.len() >= SIZE_64BIT {
                    u32::MAX
                } else {
                    u16::MAX.into()
                },
            },
        }
    }
}

impl GroupCounts {
    /// Writes the counts into all the bytes of a descriptor. Nothing else in them changes.
    ///
    /// # Panics
    /// Panics if there are fewer than 32 bytes, or if a count does not fit them.
    pub(crate) fn store(self, bytes: &mut [u8]) {
        let is_whole = bytes.len() >= SIZE_64BIT;
        let most = self
            .free_clusters
            .max(self.free_inodes)
            .max(self.directories);
        assert!(
            is_whole || u16::try_from(most).is_ok(),
            "a group of a volume without 64bit has at most 65,535 clusters and inodes"
        );
        let low = low_of(bytes);
        low.free_blocks_count_low.set(self.free_clusters as u16);
        low.free_inodes_count_low.set(self.free_inodes as u16);
        low.directories_count_low.set(self.directories as u16);
        if let Some(whole) = whole_of(bytes) {
            whole
                .free_blocks_count_high
                .set((self.free_clusters >> 16) as u16);
            whole
                .free_inodes_count_high
                .set((self.free_inodes >> 16) as u16);
            whole
                .directories_count_high
                .set((self.directories >> 16) as u16);
        }
    }
}

/// Checks the descriptors of one block, which starts with that of the group `first`: bitmaps and
/// inode table lie in the group, or with flexible groups in the volume, and no count is larger than
/// the group. A descriptor whose checksum does not match is left out: it spoils its group only.
///
/// # Errors
/// - [`Corrupt::Group`] names the first invalid field.
pub(crate) fn check_block(
    geometry: &Geometry,
    checksums: Checksums,
    first: GroupNr,
    block: &[u8],
) -> Result<(), Corrupt> {
    let descriptors = block.chunks_exact(usize::from(geometry.descriptor_bytes));
    let groups = (first.get()..geometry.group_count).map(GroupNr::new);
    for (group, bytes) in groups.zip(descriptors) {
        if checksums.check_descriptor(group, bytes).is_ok() {
            check(geometry, group, &GroupDescriptor::decode(bytes))?;
        }
    }
    Ok(())
}

fn check(geometry: &Geometry, group: GroupNr, raw: &GroupDescriptor) -> Result<(), Corrupt> {
    let (first, count) = (geometry.first_block_of(group), geometry.blocks_in(group));
    let (own, end) = match geometry.has_flexible_groups {
        true => (geometry.first_data_block.get() + 1, geometry.block_count),
        false => {
            let own = first + u64::from(geometry.super_blocks(group));
            (own.get(), (first + u64::from(count)).get())
        }
    };
    let table = u64::from(geometry.inode_table_blocks());
    let places = [
        ("bg_block_bitmap", raw.block_bitmap, 1),
        ("bg_inode_bitmap", raw.inode_bitmap, 1),
        ("bg_inode_table", raw.inode_table, table),
    ];
    let corrupt = |field, value| Corrupt::Group {
        group,
        field,
        value,
    };
    for (field, place, blocks) in places {
        if place.get() < own || place.get().saturating_add(blocks) > end {
            return Err(corrupt(field, place.get()));
        }
    }
    let (counts, inodes) = (raw.counts, geometry.inodes_per_group);
    let limits = [
        (
            "bg_free_blocks_count",
            counts.free_clusters,
            geometry.clusters_in(group),
        ),
        ("bg_free_inodes_count", counts.free_inodes, inodes),
        ("bg_used_dirs_count", counts.directories, inodes),
    ];
    for (field, value, most) in limits {
        if value > most {
            return Err(corrupt(field, value.into()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use layout::group::SIZE;

    use super::*;

    const COUNTS: GroupCounts = GroupCounts {
        free_clusters: 0x1234,
        free_inodes: 0x5678,
        directories: 0x9ABC,
    };

    #[test]
    fn what_is_stored_is_decoded_and_the_rest_stays() {
        for size in [SIZE, SIZE_64BIT] {
            let mut bytes = vec![0x5A; size];
            COUNTS.store(&mut bytes);
            let decoded = GroupDescriptor::decode(&bytes);
            assert_eq!(decoded.counts, COUNTS, "{size} bytes");
            let half = 0x5A5A_5A5A;
            let place = if size == SIZE {
                half
            } else {
                half << 32 | half
            };
            assert_eq!(decoded.inode_table, BlockNr::new(place));
            let changed = bytes.iter().filter(|byte| **byte != 0x5A).count();
            assert_eq!(changed, if size == SIZE { 6 } else { 12 });
        }
    }

    #[test]
    fn sums_and_flags_are_stored_in_both_halves() {
        let uninit = Uninit {
            block_bitmap: true,
            inode_bitmap: false,
            inodes: 0x0001_2345,
            table: false,
        };
        let sums = BitmapSums {
            blocks: Some(0x1234_5678),
            inodes: Some(0x9ABC_DEF0),
        };
        for size in [SIZE, SIZE_64BIT] {
            let mut bytes = vec![0; size];
            bytes[0x12] = 9;
            uninit.store(&mut bytes);
            sums.store(&mut bytes);
            assert_eq!(bytes[0x12], 14, "an unknown flag stays");
            let decoded = GroupDescriptor::decode(&bytes);
            assert!(decoded.uninit.block_bitmap && !decoded.uninit.inode_bitmap);
            assert!(decoded.sums.has_blocks(0x1234_5678));
            assert!(decoded.sums.has_inodes(0x9ABC_DEF0));
            let is_long = size == SIZE_64BIT;
            assert_eq!(decoded.sums.has_blocks(0x5678), !is_long);
            let unused = if is_long { 0x0001_2345 } else { 0x2345 };
            assert_eq!(decoded.uninit.inodes, unused);
            let before = bytes.clone();
            BitmapSums::default().store(&mut bytes);
            assert_eq!(bytes, before);
        }
    }

    #[test]
    fn large_counts_need_the_long_form() {
        let counts = GroupCounts {
            free_clusters: 0x0001_0002,
            ..COUNTS
        };
        let mut bytes = [0; SIZE_64BIT];
        counts.store(&mut bytes);
        assert_eq!(GroupDescriptor::decode(&bytes).counts, counts);
        let short = std::panic::catch_unwind(|| counts.store(&mut [0; SIZE]));
        assert!(short.is_err());
    }
}
