//! A block group in memory: the locations of its metadata, its counts, and its bitmaps once they
//! have been read.

use core::ops::Range;

use jbd2::Buffer;
use layout::{BlockNr, GroupNr};
use rt::atomic::{AtomicU32, Ordering};
use rt::{Mutex, MutexGuard};

use super::bitmap::{self, Bitmap};
use super::zones::{Holder, SystemZones};
use crate::disk::group::GroupCounts;
use crate::disk::run::Run;
use crate::error::Corrupt;

/// A block group.
pub(crate) struct Group {
    pub(crate) nr: GroupNr,
    /// Its first block, and its number of blocks.
    pub(crate) first: BlockNr,
    pub(crate) block_count: u32,
    pub(crate) inode_count: u32,
    pub(crate) block_bitmap: BlockNr,
    pub(crate) inode_bitmap: BlockNr,
    pub(crate) inode_table: BlockNr,
    /// The damage of its descriptor, if the checksum does not match: then no place and no count of
    /// the group can be trusted. Only volumes that are opened read-only have such groups.
    pub(crate) damage: Option<Corrupt>,
    /// Byte range of its descriptor in the descriptor's block.
    pub(crate) descriptor: Range<usize>,
    /// Number of free blocks by the descriptor.
    pub(crate) free_blocks: AtomicU32,
    /// Number of free blocks that may be allocated now.
    pub(crate) usable_blocks: AtomicU32,
    pub(crate) free_inodes: AtomicU32,
    pub(crate) directories: AtomicU32,
    /// Index of the goal for the next new file.
    pub(crate) next_goal: AtomicU32,
    /// The lock held while its bitmaps and its descriptor change. // [group]
    pub(crate) maps: Mutex<Maps>,
}

/// A group's bitmaps in memory.
#[derive(Default)]
pub(crate) struct Maps {
    blocks: Option<BlockMap>,
    inodes: Option<InodeMap>,
}

/// The blocks that are taken, and those in reservation windows.
pub(crate) struct BlockMap {
    /// Blocks taken on disk.
    pub(crate) marked: Bitmap,
    /// Blocks taken on disk, or freed by a transaction that is not durable.
    pub(crate) taken: Bitmap,
    /// Blocks in a reservation window.
    pub(crate) reserved: Bitmap,
}

/// The inodes that are taken.
pub(crate) struct InodeMap {
    pub(crate) taken: Bitmap,
    /// Lower bound of the free inodes: none has a smaller index.
    pub(crate) first_free: u32,
}

impl Group {
    /// Returns the goal for a new file's blocks.
    pub(crate) fn next_goal(&self) -> BlockNr {
        let index = self.next_goal.load(Ordering::Relaxed);
        self.first + u64::from(if index < self.block_count { index } else { 0 })
    }

    /// Returns the index at which a search in this group starts if no goal lies in it.
    pub(crate) fn goal_index(&self) -> u32 {
        let index = self.next_goal.load(Ordering::Relaxed);
        if index < self.block_count { index } else { 0 }
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
        let first = run.first.max(self.first);
        let count = run.end().min(self.run().end()).get() - first.get();
        let start = (first.get() - self.first.get()) as u32;
        bitmap::all_set_in_bytes(bytes, start, count as u32)
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
            let bytes = bitmap.read();
            let taken = Bitmap::from_bytes(&bytes, self.block_count);
            for (holder, why) in [
                (Holder::Metadata, "the group's own metadata is marked free"),
                (Holder::Log, "the journal is marked free"),
            ] {
                let mut own = zones.among(self.nr, self.run());
                if !own.all(|zone| zone.holder != holder || self.is_marked(&bytes, zone.run)) {
                    return Err(self.damage(self.block_bitmap.get(), why));
                }
            }
            if taken.count_clear() != self.free_blocks.load(Ordering::Relaxed) {
                return Err(self.damage(
                    self.block_bitmap.get(),
                    "the descriptor counts other free blocks",
                ));
            }
            let reserved = Bitmap::clear(self.block_count);
            let marked = taken.clone();
            maps.blocks = Some(BlockMap {
                marked,
                taken,
                reserved,
            });
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
            let taken = Bitmap::from_bytes(&bitmap.read(), self.inode_count);
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

    /// Makes freed blocks allocatable.
    pub(crate) fn release(&self, start: u32, count: u32) {
        let mut maps = self.maps.lock();
        let blocks = maps
            .blocks
            .as_mut()
            .expect("freeing a block reads the bitmap");
        blocks.taken.unset(start, count);
        self.usable_blocks.fetch_add(count, Ordering::Relaxed);
    }

    /// Removes blocks from their window.
    pub(crate) fn unreserve(&self, start: u32, count: u32) {
        if let Some(blocks) = self.maps.lock().blocks.as_mut() {
            blocks.reserved.unset(start, count);
        }
    }

    /// Stores the counts in the descriptor's block. The caller holds the group's lock.
    pub(crate) fn store_counts(&self, bytes: &mut [u8]) {
        let counts = GroupCounts {
            free_blocks: self.free_blocks.load(Ordering::Relaxed),
            free_inodes: self.free_inodes.load(Ordering::Relaxed),
            directories: self.directories.load(Ordering::Relaxed),
        };
        counts.store(&mut bytes[self.descriptor.clone()]);
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
