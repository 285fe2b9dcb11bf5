//! The places of the groups' own metadata.
//!
//! Without `flex_bg` a group's bitmaps and inode table follow its copy of the superblock. With it
//! the bitmaps and tables of [`FLEX_GROUPS`] groups lie together in the first of them: all block
//! bitmaps, all inode bitmaps, all tables. They continue in the next groups if the first one is too
//! small, around the copies of the superblock there.

use layout::{BlockNr, GroupNr};

use crate::disk::geometry::Geometry;
use crate::disk::run::{Run, append};
use crate::error::{Error, Result};

/// Number of groups whose metadata lies together, as a power of two.
pub(super) const FLEX_GROUPS_LOG: u8 = 4;
const FLEX_GROUPS: u32 = 1 << FLEX_GROUPS_LOG;

/// The places of a group's bitmaps and inode table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct GroupPlaces {
    pub(super) block_bitmap: BlockNr,
    pub(super) inode_bitmap: BlockNr,
    pub(super) inode_table: BlockNr,
}

/// The metadata of all groups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct GroupMetadata {
    places: Vec<GroupPlaces>,
    /// The blocks of its clusters, copies of the superblock included, in ascending order.
    runs: Vec<Run>,
}

impl GroupMetadata {
    /// Places the metadata.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it does not fit.
    pub(super) fn new(geometry: &Geometry, is_flexible: bool) -> Result<Self> {
        let mut places = Vec::with_capacity(geometry.group_count as usize);
        let mut pieces = Vec::new();
        for group in geometry.groups() {
            let count = geometry.super_blocks(group);
            if count > 0 {
                pieces.push(Run {
                    first: geometry.first_block_of(group),
                    count,
                });
            }
        }
        let together = if is_flexible { FLEX_GROUPS } else { 1 };
        for first in (0..geometry.group_count).step_by(together as usize) {
            let count = together.min(geometry.group_count - first);
            let group = GroupNr::new(first);
            let supers = u64::from(geometry.super_blocks(group));
            let mut cursor = Cursor {
                geometry,
                next: geometry.first_block_of(group) + supers,
            };
            // As in mke2fs: next to the bitmaps of a single group those of the others have room.
            let needed = 2 * u64::from(together) + u64::from(geometry.inode_table_blocks());
            let is_single = count == 1 && (cursor.next + needed).get() <= geometry.block_count;
            let room = u64::from(if is_single { together } else { count });
            let mut bitmaps = [Vec::new(), Vec::new()];
            for kind in &mut bitmaps {
                let start = cursor.next;
                for _ in 0..count {
                    kind.push(cursor.take(1, &mut pieces)?);
                }
                cursor.next = cursor.next.max(start + room);
            }
            let [block_bitmaps, inode_bitmaps] = bitmaps;
            for (block_bitmap, inode_bitmap) in block_bitmaps.into_iter().zip(inode_bitmaps) {
                places.push(GroupPlaces {
                    block_bitmap,
                    inode_bitmap,
                    inode_table: cursor.take(geometry.inode_table_blocks(), &mut pieces)?,
                });
            }
        }
        let runs = whole_clusters(geometry, pieces);
        Ok(Self { places, runs })
    }

    /// Returns the places of a group's bitmaps and inode table.
    pub(super) fn of(&self, group: GroupNr) -> GroupPlaces {
        self.places[group.get() as usize]
    }

    /// Returns the first extent with metadata that ends behind a block.
    pub(super) fn behind(&self, block: BlockNr) -> Option<Run> {
        let at = self.runs.partition_point(|run| run.end() <= block);
        self.runs.get(at).copied()
    }

    /// Returns the clusters with metadata within a group, as blocks: index of the first block
    /// within the group and count.
    pub(super) fn in_group(
        &self,
        geometry: &Geometry,
        group: GroupNr,
    ) -> impl Iterator<Item = (u32, u32)> {
        let first = geometry.first_block_of(group);
        let end = first + u64::from(geometry.blocks_in(group));
        let at = self.runs.partition_point(|run| run.end() <= first);
        let runs = self.runs[at..]
            .iter()
            .take_while(move |run| run.first < end);
        runs.map(move |run| {
            let (from, to) = (run.first.max(first), run.end().min(end));
            (
                (from.get() - first.get()) as u32,
                (to.get() - from.get()) as u32,
            )
        })
    }

    /// Returns the number of blocks of clusters with metadata within a group.
    pub(super) fn count_in(&self, geometry: &Geometry, group: GroupNr) -> u32 {
        self.in_group(geometry, group).map(|(_, count)| count).sum()
    }

    /// Returns the same without the metadata of other groups.
    pub(super) fn own_in(&self, geometry: &Geometry, group: GroupNr) -> u32 {
        let first = geometry.first_block_of(group);
        let end = first + u64::from(geometry.blocks_in(group));
        let places = self.of(group);
        let pieces = [
            (places.block_bitmap, 1),
            (places.inode_bitmap, 1),
            (places.inode_table, geometry.inode_table_blocks()),
        ];
        let start = (first, geometry.super_blocks(group));
        let pieces = pieces.into_iter().chain([start]);
        let within = pieces.filter_map(|(at, count)| {
            let (from, to) = (at.max(first), (at + u64::from(count)).min(end));
            (from < to).then(|| Run {
                first: from,
                count: (to.get() - from.get()) as u32,
            })
        });
        let runs = whole_clusters(geometry, within.collect());
        runs.iter().map(|run| run.count).sum()
    }

    /// Returns the number of blocks of clusters with metadata of the volume.
    pub(super) fn count(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.count)).sum()
    }
}

/// Returns the blocks of the clusters that have blocks of extents, in ascending order.
fn whole_clusters(geometry: &Geometry, mut pieces: Vec<Run>) -> Vec<Run> {
    pieces.sort_unstable_by_key(|run| run.first);
    let mut runs: Vec<Run> = Vec::new();
    for piece in pieces.into_iter().filter(|piece| piece.count > 0) {
        let whole = geometry.blocks_of(geometry.clusters_of(piece));
        let known = runs.last().map_or(whole.first, |last| last.end());
        let first = whole.first.max(known);
        if first < whole.end() {
            let count = (whole.end().get() - first.get()) as u32;
            append(&mut runs, Run { first, count });
        }
    }
    runs
}

/// The next block for metadata.
struct Cursor<'g> {
    geometry: &'g Geometry,
    next: BlockNr,
}

impl Cursor<'_> {
    /// Takes adjacent blocks that overlap no copy of the superblock, and returns the first.
    fn take(&mut self, count: u32, pieces: &mut Vec<Run>) -> Result<BlockNr> {
        let mut first = self.next;
        loop {
            let end = first + u64::from(count);
            if end.get() > self.geometry.block_count {
                return Err(Error::Invalid(
                    "the inode tables do not fit: ask for fewer inodes",
                ));
            }
            let Some(past) = self.overlapped(first, end) else {
                break;
            };
            first = past;
        }
        let run = Run { first, count };
        self.next = run.end();
        pieces.push(run);
        Ok(first)
    }

    /// Returns the end of a copy of the superblock and the descriptors in a range of blocks.
    fn overlapped(&self, first: BlockNr, end: BlockNr) -> Option<BlockNr> {
        let (from, _) = self.geometry.group_of_block(first);
        let (to, _) = self.geometry.group_of_block(BlockNr::new(end.get() - 1));
        let groups = (from.get()..=to.get()).map(GroupNr::new);
        let ends = groups.map(|group| {
            let start = self.geometry.first_block_of(group);
            (start, start + u64::from(self.geometry.super_blocks(group)))
        });
        let mut overlapping = ends.filter(|(start, stop)| *start < end && *stop > first);
        overlapping.next().map(|(_, stop)| stop)
    }
}
