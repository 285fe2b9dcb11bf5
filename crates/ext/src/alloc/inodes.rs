//! Allocation and release of inodes.
//!
//! | profile | directories | other files |
//! |---|---|---|
//! | `MultiBlock` | Orlov over flex groups: [`orlov`](super::orlov) | the parent's flex group |
//! | `Modern` | Orlov, see below | the parent's group; else by quadratic hash; else the next |
//! | `Ext3Linux24` | the group with most free blocks | the same, without regard to free blocks |
//!
//! Orlov places a child of the root in a group with few directories and at least average free
//! space, and other directories near their parent unless its group is crowded. Directories of
//! `Ext3Linux24` go only to groups with at least average free inodes.
//!
//! Source: G. V. Orlov's allocator as described for 4.4BSD FFS by I. Dowse and M. K. McKusick, and
//! by A. Viro's and T. Ts'o's comments on its use in ext2 and ext3.

use std::sync::Arc;

use jbd2::Buffer;
use layout::{Block, GroupNr, InodeNr};
use rt::atomic::{AtomicU32, Ordering};

use crate::cache::space::bitmap;
use crate::cache::space::group::Group;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::group::BitmapSums;
use crate::disk::metadata::Kind;
use crate::error::{Corrupt, Error, Result};
use crate::options::OnError;
use crate::tuning::Allocator;

/// Divisor of a group's size: a group is crowded if its free inodes or blocks are below the average
/// by this share.
const CROWDED_SHARE: u32 = 4;
/// Divisor of a group's inodes: a group is crowded if its directories exceed the average by this
/// share.
const DIRECTORY_SHARE: u32 = 16;

/// Averages over all groups.
struct Average {
    free_inodes: u32,
    free_clusters: u32,
    directories: u32,
}

impl Core {
    /// Allocates an inode: near the parent for files, spread for directories. Marks it in the
    /// bitmap and counts it; the caller writes the inode table.
    pub(crate) fn allocate_inode(
        &self,
        handle: &mut Handle<'_>,
        parent: InodeNr,
        is_directory: bool,
    ) -> Result<InodeNr> {
        let preferred = match (self.tuning.allocator, is_directory) {
            (Allocator::MultiBlock, true) => self.group_for_directory(parent),
            (Allocator::MultiBlock, false) => self.group_for_file(parent),
            (Allocator::Windows, true) => self.group_by_orlov(parent),
            (Allocator::Windows, false) => self.group_near(parent, parent.get(), 1),
            (Allocator::Forward, true) => self.group_with_most_blocks(),
            (Allocator::Forward, false) => self.group_near(parent, 0, 0),
        };
        let first = preferred.unwrap_or_else(|| self.geometry().group_of_inode(parent).0);
        let (before, behind) = self.space.groups().split_at(first.index());
        for group in behind.iter().chain(before) {
            if let Some(inode) = self.allocate_inode_in(handle, group, is_directory)? {
                return Ok(inode);
            }
        }
        Err(Error::NoInodes)
    }

    /// Frees an inode.
    pub(crate) fn free_inode(
        &self,
        handle: &mut Handle<'_>,
        inode: InodeNr,
        is_directory: bool,
    ) -> Result<()> {
        if inode < self.geometry().first_inode || inode.get() > self.geometry().inode_count {
            let value = u64::from(inode.get());
            return Err(self.damaged(Corrupt::Inode {
                inode,
                field: "number to free",
                value,
            }));
        }
        let (group, index) = self.geometry().group_of_inode(inode);
        let group = self.space.group(group);
        let bitmap = self.inode_bitmap(group)?;
        let descriptor = self.space.descriptor(group.nr);
        if self.may_writes_wait() {
            drop(handle.write(&bitmap)?);
            drop(handle.write(descriptor)?);
        }
        let mut maps = group.maps.lock();
        let map = match group.inodes(&mut maps, &bitmap) {
            Ok(map) => map,
            Err(damage) => {
                drop(maps);
                return Err(self.damaged(damage));
            }
        };
        let counts_it = !is_directory
            || load(&group.directories) > 0
            || rt::mutant!("space/directories-below-zero");
        let mut bytes = handle.write(&bitmap)?;
        if !counts_it || !bitmap::clear_in_bytes(&mut bytes, index, 1) {
            drop(bytes);
            drop(maps);
            let why = if counts_it {
                "an inode that is freed is free already"
            } else {
                "a directory is freed in a group whose descriptor counts none"
            };
            let error = self.damaged(group.damage(u64::from(inode.get()), why));
            return if self.options.on_error == OnError::Continue {
                Ok(())
            } else {
                Err(error)
            };
        }
        let sum = group.sum_of_inodes(&bytes);
        drop(bytes);
        map.taken.unset(index, 1);
        map.first_free = match self.tuning.reuses_inodes {
            true => index,
            false => map.first_free.min(index),
        };
        group.free_inodes.fetch_add(1, Ordering::Relaxed);
        self.space.free_inodes.fetch_add(1, Ordering::Relaxed);
        if is_directory {
            group.directories.fetch_sub(1, Ordering::Relaxed);
            self.space.directories.fetch_sub(1, Ordering::Relaxed);
        }
        group.store(&mut handle.write(descriptor)?, sum);
        Ok(())
    }

    fn allocate_inode_in(
        &self,
        handle: &mut Handle<'_>,
        group: &Group,
        is_directory: bool,
    ) -> Result<Option<InodeNr>> {
        if group.free_inodes.load(Ordering::Relaxed) == 0 {
            return Ok(None);
        }
        let bitmap = self.inode_bitmap(group)?;
        let is_first = group.lacks_inode_bitmap.load(Ordering::Relaxed);
        let blocks = is_first.then(|| self.block_bitmap(group)).transpose()?;
        let descriptor = self.space.descriptor(group.nr);
        let first_nr = group.nr.get() * group.inode_count + 1;
        let reserved = self.geometry().first_inode.get().saturating_sub(first_nr);
        let mut is_filed = !self.may_writes_wait();
        let mut filed_table = None;
        let mut excluded = None;
        loop {
            let mut maps = group.maps.lock();
            // What a bitmap that was never used has is known only until it is used.
            let known = match &blocks {
                Some(blocks) => group
                    .blocks(&mut maps, blocks, self.space.zones())
                    .map(drop),
                None => Ok(()),
            };
            let map = match known.and_then(|()| group.inodes(&mut maps, &bitmap)) {
                Ok(map) => map,
                Err(damage) => {
                    drop(maps);
                    return Err(self.damaged(damage));
                }
            };
            let from = map.first_free.max(reserved);
            let mut index = map.taken.first_clear(from, group.inode_count);
            if index.is_none() && self.tuning.reuses_inodes {
                index = map.taken.first_clear(reserved, group.inode_count);
            }
            let Some(index) = index else {
                return Ok(None);
            };
            let table = self.unused_table_block(group, index);
            if table.is_some() && excluded.is_none() && group.lacks_zeroes.load(Ordering::Relaxed) {
                drop(maps);
                excluded = self.exclude_zeroing(group);
                continue;
            }
            let has_table = table.as_ref().map(|table| table.nr()) == filed_table;
            if !is_filed || self.may_writes_wait() && !has_table {
                drop(maps);
                let table = table.as_ref();
                for buffer in [&bitmap, descriptor]
                    .into_iter()
                    .chain(&blocks)
                    .chain(table)
                {
                    drop(handle.write(buffer)?);
                }
                is_filed = true;
                filed_table = table.map(|table| table.nr());
                continue;
            }
            let nr = first_nr + index;
            if is_directory && load(&group.directories) >= group.inode_count {
                drop(maps);
                let why = "a directory is made in a group whose descriptor counts no other inodes";
                return Err(self.damaged(group.damage(u64::from(nr), why)));
            }
            let first = match &blocks {
                Some(blocks) => self.begin_inode_bitmap(handle, group, &bitmap, blocks)?,
                None => BitmapSums::default(),
            };
            let mut bytes = handle.write(&bitmap)?;
            if !bitmap::set_in_bytes(&mut bytes, index, 1) {
                drop(bytes);
                drop(maps);
                let damage = group.damage(u64::from(nr), "an inode to allocate is marked taken");
                return Err(self.damaged(damage));
            }
            let sum = BitmapSums {
                blocks: first.blocks,
                ..group.sum_of_inodes(&bytes)
            };
            drop(bytes);
            if let Some(table) = &table {
                let zeroes = Block::zeroed(self.block_bytes()).into_arc();
                handle.replace(table, zeroes)?;
            }
            let unused = group.inode_count - (index + 1).max(group.used_inodes());
            group.unused_inodes.store(unused, Ordering::Relaxed);
            map.taken.set(index, 1);
            map.first_free = index + 1;
            group.free_inodes.fetch_sub(1, Ordering::Relaxed);
            self.space.free_inodes.fetch_sub(1, Ordering::Relaxed);
            if is_directory {
                group.directories.fetch_add(1, Ordering::Relaxed);
                self.space.directories.fetch_add(1, Ordering::Relaxed);
            }
            group.store(&mut handle.write(descriptor)?, sum);
            return Ok(Some(InodeNr::new(nr)));
        }
    }

    /// Gives a group's inode bitmap its first contents, if it was never used, and the block bitmap,
    /// too: e2fsck accepts no group with inodes whose block bitmap was never used. Returns the
    /// checksum of the latter. The caller holds the group's lock, and changes and stores the inode
    /// bitmap next.
    pub(super) fn begin_inode_bitmap(
        &self,
        handle: &mut Handle<'_>,
        group: &Group,
        inodes: &Arc<Buffer>,
        blocks: &Arc<Buffer>,
    ) -> Result<BitmapSums> {
        if !group.lacks_inode_bitmap.load(Ordering::Relaxed) {
            return Ok(BitmapSums::default());
        }
        let first = group.first_inode_bitmap(self.block_bytes());
        handle.replace(inodes, first.into_arc())?;
        group
            .unused_inodes
            .store(group.inode_count, Ordering::Relaxed);
        group.lacks_inode_bitmap.store(false, Ordering::Relaxed);
        if !group.lacks_block_bitmap.load(Ordering::Relaxed) {
            return Ok(BitmapSums::default());
        }
        self.begin_block_bitmap(handle, group, blocks)?;
        Ok(group.sum_of_blocks(&blocks.read()))
    }

    /// Returns the block of the inode table that gets its first inode with this one, if its
    /// contents on the device are not valid: no inode in it was ever used. The caller holds the
    /// group's lock. The block is not read, so that the lock is held for memory work only; another
    /// thread stores an inode of the block only after this lock.
    fn unused_table_block(&self, group: &Group, index: u32) -> Option<Arc<Buffer>> {
        let geometry = self.geometry();
        let per_block = geometry.block_bytes / u32::from(geometry.inode_bytes);
        let is_unused = index - index % per_block >= group.used_inodes();
        let block = group.inode_table + u64::from(index / per_block);
        let label = Kind::InodeTable.of_group(group.nr);
        is_unused.then(|| self.buffers.get_new(block, label))
    }

    /// Returns the parent's group, or one at a distance that doubles, with free inodes and at least
    /// `blocks_min` free blocks.
    fn group_near(&self, parent: InodeNr, spread: u32, blocks_min: u32) -> Option<GroupNr> {
        let count = self.geometry().group_count;
        let (home, _) = self.geometry().group_of_inode(parent);
        let is_good = |group: &GroupNr| {
            let group = self.space.group(*group);
            load(&group.free_inodes) > 0 && load(&group.usable_clusters) >= blocks_min
        };
        if is_good(&home) {
            return Some(home);
        }
        let mut group = (home.get() + spread % count) % count;
        let mut distance = 1;
        while distance < count {
            group = (group + distance) % count;
            if is_good(&GroupNr::new(group)) {
                return Some(GroupNr::new(group));
            }
            distance *= 2;
        }
        self.geometry().groups().find(is_good)
    }

    fn group_with_most_blocks(&self) -> Option<GroupNr> {
        let average = self.average().free_inodes;
        let with_room = self.space.groups().iter().filter(|group| {
            let free = load(&group.free_inodes);
            free > 0 && free >= average
        });
        // Among equals the first group wins.
        let key = |group: &&Group| (load(&group.usable_clusters), core::cmp::Reverse(group.nr));
        with_room.max_by_key(key).map(|group| group.nr)
    }

    fn group_by_orlov(&self, parent: InodeNr) -> Option<GroupNr> {
        let average = self.average();
        let has_average = |group: &&Group| {
            let free_inodes = load(&group.free_inodes);
            free_inodes > 0
                && free_inodes >= average.free_inodes
                && load(&group.usable_clusters) >= average.free_clusters
        };
        let (home, _) = self.geometry().group_of_inode(parent);
        if parent == InodeNr::ROOT {
            let chance = if self.options.is_being_made {
                self.space.directories.load(Ordering::Relaxed)
            } else {
                rt::random_u64()
            };
            let start = (chance % u64::from(self.geometry().group_count)) as usize;
            let (before, behind) = self.space.groups().split_at(start);
            let all = behind.iter().chain(before).filter(has_average);
            return all
                .min_by_key(|group| load(&group.directories))
                .map(|group| group.nr);
        }
        let inodes_min = average
            .free_inodes
            .saturating_sub(self.geometry().inodes_per_group / CROWDED_SHARE);
        let blocks_min = average
            .free_clusters
            .saturating_sub(self.geometry().clusters_per_group() / CROWDED_SHARE);
        let directories_max =
            average.directories + self.geometry().inodes_per_group / DIRECTORY_SHARE;
        let (before, behind) = self.space.groups().split_at(home.index());
        let near = || behind.iter().chain(before);
        let is_uncrowded = |group: &&Group| {
            let free_inodes = load(&group.free_inodes);
            load(&group.directories) < directories_max
                && free_inodes > 0
                && free_inodes >= inodes_min
                && load(&group.usable_clusters) >= blocks_min
        };
        near()
            .find(is_uncrowded)
            .or_else(|| near().find(has_average))
            .map(|group| group.nr)
    }

    fn average(&self) -> Average {
        let count = u64::from(self.geometry().group_count);
        let mean = |total: &rt::atomic::AtomicU64| (total.load(Ordering::Relaxed) / count) as u32;
        Average {
            free_inodes: mean(&self.space.free_inodes),
            free_clusters: mean(&self.space.usable_clusters),
            directories: mean(&self.space.directories),
        }
    }
}

fn load(count: &AtomicU32) -> u32 {
    count.load(Ordering::Relaxed)
}
