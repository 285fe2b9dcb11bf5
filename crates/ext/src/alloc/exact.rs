//! Taking and releasing blocks and inodes that are chosen elsewhere: by the fast commits that are
//! replayed. Nothing here waits, and there is no journal.

use layout::{Block, InodeNr};
use rt::atomic::Ordering;

use crate::cache::space::bitmap;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::cluster::ClusterRun;
use crate::disk::group::BitmapSums;
use crate::disk::metadata::Kind;
use crate::disk::run::Run;
use crate::error::{Error, Result};

impl Core {
    /// Marks the clusters of an extent that are free as taken. Returns their blocks.
    ///
    /// # Errors
    /// - [`Error::NoSpace`] if the counts of the volume have no room for them.
    pub(crate) fn take_blocks(&self, handle: &mut Handle<'_>, run: Run) -> Result<Vec<Run>> {
        let mut taken = Vec::new();
        for (group, start, count) in self.parts(run) {
            let bitmap = self.block_bitmap(group)?;
            let descriptor = self.space.descriptor(group.nr);
            let mut maps = group.maps.lock();
            let map = match group.blocks(&mut maps, &bitmap, self.space.zones()) {
                Ok(map) => map,
                Err(damage) => {
                    drop(maps);
                    return Err(self.damaged(damage));
                }
            };
            let end = start + count;
            let mut from = start;
            while let Some(first) = map.marked.first_clear(from, end) {
                let length = (first..end)
                    .find(|bit| map.marked.is_set(*bit))
                    .map_or(end - first, |bit| bit - first);
                if self.space.claim(length, true) < length {
                    return Err(Error::NoSpace);
                }
                self.begin_block_bitmap(handle, group, &bitmap)?;
                let mut bytes = handle.write(&bitmap)?;
                bitmap::set_in_bytes(&mut bytes, first, length);
                let sum = group.sum_of_blocks(&bytes);
                drop(bytes);
                map.marked.set(first, length);
                map.taken.set(first, length);
                group.usable_clusters.fetch_sub(length, Ordering::Relaxed);
                group.free_clusters.fetch_sub(length, Ordering::Relaxed);
                self.space
                    .free_clusters
                    .fetch_sub(u64::from(length), Ordering::Relaxed);
                group.store(&mut handle.write(descriptor)?, sum);
                taken.push(self.geometry().blocks_of(ClusterRun {
                    first: group.cluster(first),
                    count: length,
                }));
                from = first + length;
            }
        }
        Ok(taken)
    }

    /// Frees the clusters of an extent that are taken, and forgets the buffers of their blocks.
    pub(crate) fn release_blocks(&self, handle: &mut Handle<'_>, run: Run) -> Result<()> {
        for (group, start, count) in self.parts(run) {
            let bitmap = self.block_bitmap(group)?;
            let (mut from, end) = (start, start + count);
            while from < end {
                let mut maps = group.maps.lock();
                let map = match group.blocks(&mut maps, &bitmap, self.space.zones()) {
                    Ok(map) => map,
                    Err(damage) => {
                        drop(maps);
                        return Err(self.damaged(damage));
                    }
                };
                let is_taken = map.marked.is_set(from);
                let to = (from..end)
                    .find(|bit| map.marked.is_set(*bit) != is_taken)
                    .unwrap_or(end);
                drop(maps);
                if is_taken {
                    let part = self.geometry().blocks_of(ClusterRun {
                        first: group.cluster(from),
                        count: to - from,
                    });
                    self.free_buffered(handle, part)?;
                }
                from = to;
            }
        }
        Ok(())
    }

    /// Returns true if an inode is marked as taken.
    pub(crate) fn is_inode_taken(&self, nr: InodeNr) -> Result<bool> {
        let (group, index) = self.geometry().group_of_inode(nr);
        let group = self.space.group(group);
        let bitmap = self.inode_bitmap(group)?;
        let mut maps = group.maps.lock();
        match group.inodes(&mut maps, &bitmap) {
            Ok(map) => Ok(map.taken.is_set(index)),
            Err(damage) => {
                drop(maps);
                Err(self.damaged(damage))
            }
        }
    }

    /// Marks an inode as taken. Returns false if it was taken before.
    pub(crate) fn take_inode(
        &self,
        handle: &mut Handle<'_>,
        nr: InodeNr,
        is_directory: bool,
    ) -> Result<bool> {
        let (group, index) = self.geometry().group_of_inode(nr);
        let group = self.space.group(group);
        let bitmap = self.inode_bitmap(group)?;
        let blocks = self.block_bitmap(group)?;
        let descriptor = self.space.descriptor(group.nr);
        let mut maps = group.maps.lock();
        let known = group
            .blocks(&mut maps, &blocks, self.space.zones())
            .map(drop);
        let map = match known.and_then(|()| group.inodes(&mut maps, &bitmap)) {
            Ok(map) => map,
            Err(damage) => {
                drop(maps);
                return Err(self.damaged(damage));
            }
        };
        if map.taken.is_set(index) {
            return Ok(false);
        }
        let used = group.used_inodes();
        let first = self.begin_inode_bitmap(handle, group, &bitmap, &blocks)?;
        let mut bytes = handle.write(&bitmap)?;
        bitmap::set_in_bytes(&mut bytes, index, 1);
        let sum = BitmapSums {
            blocks: first.blocks,
            ..group.sum_of_inodes(&bytes)
        };
        drop(bytes);
        let unused = group.inode_count - (index + 1).max(used);
        group.unused_inodes.store(unused, Ordering::Relaxed);
        map.taken.set(index, 1);
        group.free_inodes.fetch_sub(1, Ordering::Relaxed);
        self.space.free_inodes.fetch_sub(1, Ordering::Relaxed);
        if is_directory {
            group.directories.fetch_add(1, Ordering::Relaxed);
            self.space.directories.fetch_add(1, Ordering::Relaxed);
        }
        group.store(&mut handle.write(descriptor)?, sum);
        drop(maps);
        // Blocks of the table that were never used hold anything.
        let per_block = self.geometry().block_bytes / u32::from(self.geometry().inode_bytes);
        for number in used.div_ceil(per_block)..=index / per_block {
            let block = group.inode_table + u64::from(number);
            let at = self.geometry().byte_offset(block);
            let bytes = self.device.read_block(at, self.geometry().block_bytes)?;
            if bytes.iter().any(|byte| *byte != 0) {
                let label = Kind::InodeTable.of_group(group.nr);
                let zeroes = Block::zeroed(self.block_bytes()).into_arc();
                handle.replace(&self.buffers.get_new(block, label), zeroes)?;
            }
        }
        Ok(true)
    }
}
