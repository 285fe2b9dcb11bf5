//! Lazy initialisation of inode tables: zeroes the part of a group's table that was never used, as
//! the kernel does while a volume is mounted. A checker that distrusts a descriptor then finds no
//! inodes there that never were.
//!
//! The zeroes go to the device directly, and must not overwrite an inode that is used meanwhile for
//! the first time: that allocation and the zeroing exclude each other by [`TableZeroing`]. The
//! group is marked by a handle of its own once the zeroes are durable.

use layout::{BlockNr, GroupNr};
use rt::MutexGuard;
use rt::atomic::Ordering;

use super::CREDITS_PER_GROUP;
use crate::cache::space::group::Group;
use crate::core::{Core, TableZeroing};
use crate::disk::group::BitmapSums;
use crate::error::Result;

impl Core {
    /// Returns the first group from `from` on whose inode table has a part that was never used nor
    /// zeroed.
    pub(crate) fn next_unzeroed(&self, from: GroupNr) -> Option<GroupNr> {
        let groups = self.space.groups().get(from.index()..).unwrap_or_default();
        groups
            .iter()
            .find(|group| lacks_zeroes(group))
            .map(|group| group.nr)
    }

    /// Zeroes the unused part of a group's inode table, and marks the group. The inode bitmap must
    /// have none of its inodes.
    pub(crate) fn zero_table(&self, group: GroupNr) -> Result<()> {
        self.check_writable()?;
        let geometry = self.geometry();
        let group = self.space.group(group);
        let block_bytes = u64::from(geometry.block_bytes);
        let offset = |block: BlockNr| block.get() * block_bytes;
        let is_used = !group.lacks_inode_bitmap.load(Ordering::Relaxed);
        let bitmap = is_used.then(|| self.inode_bitmap(group)).transpose()?;
        let zeroing = self.table_zeroing.lock();
        if let Some(bitmap) = bitmap {
            let known = group.inodes(&mut group.maps.lock(), &bitmap).map(drop);
            known.map_err(|damage| self.damaged(damage))?;
        }
        let used = u64::from(group.used_inodes()) * u64::from(geometry.inode_bytes);
        let first = group.inode_table + used.div_ceil(block_bytes);
        let end = group.inode_table + u64::from(geometry.inode_table_blocks());
        if first < end {
            let bytes = offset(first)..offset(end);
            self.device.zero(core::slice::from_ref(&bytes))?;
            self.flush_device()?;
        }
        drop(zeroing);
        let descriptor = self.space.descriptor(group.nr);
        let mut handle = self.begin(jbd2::Credits {
            blocks: CREDITS_PER_GROUP,
            revokes: 0,
        })?;
        drop(handle.write(descriptor)?);
        {
            let _maps = group.maps.lock();
            group.lacks_zeroes.store(false, Ordering::Relaxed);
            group.store(&mut handle.write(descriptor)?, BitmapSums::default());
        }
        handle.finish().map(drop)
    }

    /// Keeps the zeroing away from a group whose table gets its first inodes in a block now. None
    /// if the group's table is zeroed already.
    pub(super) fn exclude_zeroing(&self, group: &Group) -> Option<MutexGuard<'_, TableZeroing>> {
        lacks_zeroes(group).then(|| self.table_zeroing.lock())
    }
}

fn lacks_zeroes(group: &Group) -> bool {
    group.damage.is_none() && group.lacks_zeroes.load(Ordering::Relaxed)
}
