//! A block group in memory: the locations of its metadata, its counts, and its bitmaps once they
//! have been read.

use core::ops::Range;

use jbd2::Buffer;
use layout::{Block, BlockNr, GroupNr};
use rt::atomic::{AtomicBool, AtomicU32, Ordering};
use rt::{Mutex, MutexGuard};

use super::bitmap::{self, Bitmap, View};
use super::zones::{Holder, SystemZones};
use crate::disk::checksums::Checksums;
use crate::disk::cluster::Cluster;
use crate::disk::group::{BitmapSums, GroupCounts, StoredSums, Uninit};
use crate::disk::run::Run;
use crate::error::{Corrupt, Sealed};

/// A block group.
pub(crate) struct Group {
    pub(crate) nr: GroupNr,
    /// Its first block, and its number of blocks.
    pub(crate) first: BlockNr,
    pub(crate) block_count: u32,
    /// Its first cluster, its number of clusters, and the logarithm of the blocks of each. A bit of
    /// the block bitmap is a cluster, and so are the indices, counts and bounds below.
    pub(crate) first_cluster: Cluster,
    pub(crate) cluster_count: u32,
    pub(crate) cluster_log: u32,
    pub(crate) inode_count: u32,
    pub(crate) block_bitmap: BlockNr,
    pub(crate) inode_bitmap: BlockNr,
    pub(crate) inode_table: BlockNr,
    /// The damage of its descriptor, if the checksum does not match: then no place and no count of
    /// the group can be trusted. Only volumes that are opened read-only have such groups.
    pub(crate) damage: Option<Corrupt>,
    /// Byte range of its descriptor in the descriptor's block.
    pub(crate) descriptor: Range<usize>,
    /// Number of free clusters by the descriptor.
    pub(crate) free_clusters: AtomicU32,
    /// Number of free clusters that may be allocated now.
    pub(crate) usable_clusters: AtomicU32,
    pub(crate) free_inodes: AtomicU32,
    pub(crate) directories: AtomicU32,
    /// True until the block bitmap is used for the first time: what it has is not valid, and all
    /// blocks but those of metadata are free. Changes once, under the group's lock.
    pub(crate) lacks_block_bitmap: AtomicBool,
    /// True until the inode bitmap is used for the first time: all inodes are free. Changes once,
    /// under the group's lock.
    pub(crate) lacks_inode_bitmap: AtomicBool,
    /// Number of inodes at the end of the table that were never used: what the table has there is
    /// not valid. Changes under the group's lock.
    pub(crate) unused_inodes: AtomicU32,
    /// True until that part of the table is zeroed. Changes once, under the group's lock.
    pub(crate) lacks_zeroes: AtomicBool,
    /// The checksums of descriptor and bitmaps.
    pub(crate) checksums: Checksums,
    /// The checksums of the bitmaps when the volume was opened.
    pub(crate) sums: StoredSums,
    /// Number of bits that the checksum of a block bitmap covers.
    pub(crate) clusters_per_group: u32,
    /// Index of the goal for the next new file.
    pub(crate) next_goal: AtomicU32,
    /// Upper bound of the number of clusters in a row that are free and in no window. It is exact
    /// when the bitmap is read and after a search in vain; clusters that become free raise it. The
    /// multi-block allocator relies on it. Changes under the group's lock.
    pub(crate) longest: AtomicU32,
    /// The lock held while its bitmaps and its descriptor change. // [group]
    pub(crate) maps: Mutex<Maps>,
}

/// A group's bitmaps in memory.
#[derive(Default)]
pub(crate) struct Maps {
    blocks: Option<BlockMap>,
    inodes: Option<InodeMap>,
}

/// The clusters that are taken, and those in reservation windows.
pub(crate) struct BlockMap {
    /// Clusters taken on disk.
    pub(crate) marked: Bitmap,
    /// Clusters taken on disk, or freed by a transaction that is not durable.
    pub(crate) taken: Bitmap,
    /// Clusters in a reservation window.
    pub(crate) reserved: Bitmap,
}

/// The inodes that are taken.
pub(crate) struct InodeMap {
    pub(crate) taken: Bitmap,
    /// Lower bound of the free inodes: none has a smaller index.
    pub(crate) first_free: u32,
}

impl BlockMap {
    /// Returns the clusters that are free and in no window.
    pub(crate) fn open(&self) -> View<'_> {
        let taken = match rt::mutant!("allocation/freed-found-before-commit") {
            true => &self.marked,
            false => &self.taken,
        };
        View {
            taken,
            avoided: Some(&self.reserved),
        }
    }

    /// Returns the clusters that are free, in windows or not.
    pub(crate) fn free(&self) -> View<'_> {
        View {
            taken: &self.taken,
            avoided: None,
        }
    }
}

impl Group {
    /// Returns an upper bound of the number of clusters that can be allocated as one extent,
    /// without those of windows. The bitmap need not have been read.
    pub(crate) fn longest_max(&self) -> u32 {
        let usable = self.usable_clusters.load(Ordering::Relaxed);
        usable.min(self.longest.load(Ordering::Relaxed))
    }

    /// Raises the bound of free extents after clusters were freed or left a window. The caller
    /// holds the group's lock.
    pub(crate) fn note_free(&self, blocks: &BlockMap, start: u32, count: u32) {
        let open = blocks.open();
        let before = open.clear_before(start);
        let behind = open.run_length(start + count, self.cluster_count);
        let length = before + count + behind;
        let is_longer = length > self.longest.load(Ordering::Relaxed);
        if is_longer && !rt::mutant!("allocation/bound-not-raised") {
            self.longest.store(length, Ordering::Relaxed);
        }
    }

    /// Returns the goal for a new file's blocks.
    pub(crate) fn next_goal(&self) -> BlockNr {
        self.first + (u64::from(self.goal_index()) << self.cluster_log)
    }

    /// Returns the index at which a search in this group starts if no goal lies in it.
    pub(crate) fn goal_index(&self) -> u32 {
        let index = self.next_goal.load(Ordering::Relaxed);
        if index < self.cluster_count { index } else { 0 }
    }

    pub(crate) fn note_goal(&self, index: u32) {
        self.next_goal.store(index, Ordering::Relaxed);
    }

    pub(crate) fn take_back_goal(&self, first: u32, end: u32) {
        let _ = self
            .next_goal
            .compare_exchange(end, first, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns the extent of the group.
    pub(crate) fn run(&self) -> Run {
        Run {
            first: self.first,
            count: self.block_count,
        }
    }

    /// Returns true if the bytes of the bitmap show the group's part of an extent as taken.
    fn is_marked(&self, bytes: &[u8], run: Run) -> bool {
        let (start, count) = self.part_of(run);
        bitmap::all_set_in_bytes(bytes, start, count)
    }

    /// Returns the clusters of the group that have blocks of an extent: index and count.
    fn part_of(&self, run: Run) -> (u32, u32) {
        let first = run.first.max(self.first).get() - self.first.get();
        let end = run.end().min(self.run().end()).get() - self.first.get();
        let start = first >> self.cluster_log;
        let end = end.div_ceil(1 << self.cluster_log);
        (start as u32, (end - start) as u32)
    }

    /// Returns the cluster with an index.
    pub(crate) fn cluster(&self, index: u32) -> Cluster {
        self.first_cluster + u64::from(index)
    }

    /// Returns the number of the first block of the cluster with an index, for messages.
    pub(crate) fn block_number(&self, index: u32) -> u64 {
        self.first.get() + (u64::from(index) << self.cluster_log)
    }

    /// Returns the map of blocks, created from the bitmap's block on first use. The group's zones
    /// are taken in each bitmap.
    pub(crate) fn blocks<'m>(
        &self,
        maps: &'m mut MutexGuard<'_, Maps>,
        bitmap: &Buffer,
        zones: &SystemZones,
    ) -> Result<&'m mut BlockMap, Corrupt> {
        if maps.blocks.is_none() {
            let read = bitmap.read();
            let first;
            let is_first = self.lacks_block_bitmap.load(Ordering::Relaxed);
            let bytes: &[u8] = if is_first && !rt::mutant!("groups/bitmap-read-before-use") {
                first = self.first_block_bitmap(zones, read.len());
                &first
            } else {
                self.check_sum(
                    &read,
                    self.clusters_per_group,
                    StoredSums::has_blocks,
                    || Sealed::BlockBitmap { group: self.nr },
                )?;
                &read
            };
            let taken = Bitmap::from_bytes(bytes, self.cluster_count);
            for (holder, why) in [
                (Holder::Metadata, "the group's own metadata is marked free"),
                (Holder::Log, "the journal is marked free"),
                (Holder::OrphanFile, "the orphan file is marked free"),
                (
                    Holder::MultiMount,
                    "the block of multiple mount protection is marked free",
                ),
            ] {
                let mut own = zones.among(self.nr, self.run());
                if !own.all(|zone| zone.holder != holder || self.is_marked(bytes, zone.run)) {
                    return Err(self.damage(self.block_bitmap.get(), why));
                }
            }
            if taken.count_clear() != self.free_clusters.load(Ordering::Relaxed) {
                return Err(self.damage(
                    self.block_bitmap.get(),
                    "the descriptor counts other free blocks",
                ));
            }
            let reserved = Bitmap::clear(self.cluster_count);
            let marked = taken.clone();
            let blocks = BlockMap {
                marked,
                taken,
                reserved,
            };
            self.longest
                .store(blocks.free().longest(), Ordering::Relaxed);
            maps.blocks = Some(blocks);
        }
        Ok(maps.blocks.as_mut().expect("made above"))
    }

    /// Returns the map of inodes, created from the bitmap's block on first use.
    pub(crate) fn inodes<'m>(
        &self,
        maps: &'m mut MutexGuard<'_, Maps>,
        bitmap: &Buffer,
    ) -> Result<&'m mut InodeMap, Corrupt> {
        if maps.inodes.is_none() {
            let is_first = self.lacks_inode_bitmap.load(Ordering::Relaxed);
            let taken = if is_first && !rt::mutant!("groups/inode-bitmap-read-before-use") {
                Bitmap::clear(self.inode_count)
            } else {
                let bytes = bitmap.read();
                self.check_sum(&bytes, self.inode_count, StoredSums::has_inodes, || {
                    Sealed::InodeBitmap { group: self.nr }
                })?;
                Bitmap::from_bytes(&bytes, self.inode_count)
            };
            if !taken.all_clear(self.used_inodes(), self.inode_count) {
                return Err(self.damage(
                    self.inode_bitmap.get(),
                    "an inode that the descriptor counts as never used is marked taken",
                ));
            }
            let is_root_free =
                self.lacks_inode_bitmap.load(Ordering::Relaxed) && self.nr == GroupNr::new(0);
            if is_root_free {
                return Err(self.damage(
                    self.inode_bitmap.get(),
                    "the inode of the root directory is marked free",
                ));
            }
            if taken.count_clear() != self.free_inodes.load(Ordering::Relaxed) {
                return Err(self.damage(
                    self.inode_bitmap.get(),
                    "the descriptor counts other free inodes",
                ));
            }
            maps.inodes = Some(InodeMap {
                taken,
                first_free: 0,
            });
        }
        Ok(maps.inodes.as_mut().expect("made above"))
    }

    /// Makes freed clusters allocatable.
    pub(crate) fn release(&self, start: u32, count: u32) {
        let mut maps = self.maps.lock();
        let blocks = maps
            .blocks
            .as_mut()
            .expect("freeing a cluster reads the bitmap");
        blocks.taken.unset(start, count);
        self.note_free(blocks, start, count);
        self.usable_clusters.fetch_add(count, Ordering::Relaxed);
    }

    /// Removes clusters from their window.
    pub(crate) fn unreserve(&self, start: u32, count: u32) {
        if let Some(blocks) = self.maps.lock().blocks.as_mut() {
            blocks.reserved.unset(start, count);
            self.note_free(blocks, start, count);
        }
    }

    /// Checks the checksum of a bitmap that was read.
    fn check_sum(
        &self,
        bytes: &[u8],
        bits: u32,
        has: fn(StoredSums, u32) -> bool,
        sealed: impl FnOnce() -> Sealed,
    ) -> Result<(), Corrupt> {
        match self.checksums.of_bitmap(bytes, bits) {
            Some(sum) if !has(self.sums, sum) => Err(Corrupt::Checksum(sealed())),
            _ => Ok(()),
        }
    }

    /// Returns the contents of the block bitmap at its first use: the metadata in the group is
    /// taken, and so are the bits after the end of the group.
    pub(crate) fn first_block_bitmap(&self, zones: &SystemZones, block_bytes: usize) -> Block {
        let mut block = padded(self.cluster_count, block_bytes);
        for zone in zones.among(self.nr, self.run()) {
            if zone.holder == Holder::Metadata {
                let (start, count) = self.part_of(zone.run);
                bitmap::add_to_bytes(&mut block, start, count);
            }
        }
        block
    }

    /// Returns the contents of the inode bitmap at its first use.
    pub(crate) fn first_inode_bitmap(&self, block_bytes: usize) -> Block {
        padded(self.inode_count, block_bytes)
    }

    /// Returns the number of inodes from the start of the table among which those in use are.
    pub(crate) fn used_inodes(&self) -> u32 {
        if self.lacks_inode_bitmap.load(Ordering::Relaxed) {
            return 0;
        }
        let unused = self.unused_inodes.load(Ordering::Relaxed);
        self.inode_count.saturating_sub(unused)
    }

    /// Returns the checksum of the changed block bitmap, for [`store`](Self::store).
    pub(crate) fn sum_of_blocks(&self, bitmap: &[u8]) -> BitmapSums {
        BitmapSums {
            blocks: self.checksums.of_bitmap(bitmap, self.clusters_per_group),
            inodes: None,
        }
    }

    /// Returns the checksum of the changed inode bitmap, for [`store`](Self::store).
    pub(crate) fn sum_of_inodes(&self, bitmap: &[u8]) -> BitmapSums {
        BitmapSums {
            blocks: None,
            inodes: self.checksums.of_bitmap(bitmap, self.inode_count),
        }
    }

    /// Stores the counts and the checksums of changed bitmaps in the descriptor's block, and seals
    /// the descriptor. The caller holds the group's lock.
    pub(crate) fn store(&self, bytes: &mut [u8], changed: BitmapSums) {
        let log = match rt::mutant!("clusters/free-counted-in-blocks") {
            true => self.cluster_log,
            false => 0,
        };
        let counts = GroupCounts {
            free_clusters: self.free_clusters.load(Ordering::Relaxed) << log,
            free_inodes: self.free_inodes.load(Ordering::Relaxed),
            directories: self.directories.load(Ordering::Relaxed),
        };
        let bytes = &mut bytes[self.descriptor.clone()];
        counts.store(bytes);
        if self.checksums.has_group_flags() {
            let mut uninit = Uninit {
                block_bitmap: self.lacks_block_bitmap.load(Ordering::Relaxed),
                inode_bitmap: self.lacks_inode_bitmap.load(Ordering::Relaxed),
                inodes: self.unused_inodes.load(Ordering::Relaxed),
                table: self.lacks_zeroes.load(Ordering::Relaxed),
            };
            uninit.block_bitmap |= rt::mutant!("groups/stays-uninitialised");
            uninit.inode_bitmap |= rt::mutant!("groups/inodes-stay-uninitialised");
            if rt::mutant!("groups/inodes-stay-unused") {
                uninit.inodes = self.inode_count;
            }
            uninit.store(bytes);
            if !rt::mutant!("checksums/bitmap-not-stored") {
                changed.store(bytes);
            }
            if !rt::mutant!("checksums/descriptor-not-sealed") {
                self.checksums.seal_descriptor(self.nr, bytes);
            }
        }
    }

    /// Returns the damage of a bitmap of this group.
    pub(crate) fn damage(&self, number: u64, why: &'static str) -> Corrupt {
        Corrupt::Bitmap {
            group: self.nr,
            number,
            why,
        }
    }
}

/// Returns a bitmap's block with all bits clear and those beyond the end set.
fn padded(bits: u32, block_bytes: usize) -> Block {
    let mut block = Block::zeroed(block_bytes);
    let all = (block_bytes * 8) as u32;
    bitmap::set_in_bytes(&mut block, bits, all - bits);
    block
}
