//! Buffers of the volume's own metadata: superblock, bitmaps and inode tables.

use std::sync::Arc;

use jbd2::Buffer;
use layout::{BlockNr, InodeNr};
use rt::atomic::{AtomicBool, Ordering};

use super::Core;
use super::handle::Handle;
use crate::cache::buffers::Refused;
use crate::cache::space::group::Group;
use crate::disk::metadata::{Kind, Label};
use crate::error::Result;

impl Core {
    /// Returns the buffer of an inode's block of the table, and the inode's offset in it.
    #[track_caller]
    pub(crate) fn table_of(&self, nr: InodeNr) -> Result<(Arc<Buffer>, usize)> {
        let (block, label, offset) = self.table_place(nr)?;
        let buffer = self.sound(self.buffers.get(block, label))?;
        Ok((buffer, offset))
    }

    /// Returns the same as [`table_of`](Self::table_of), for a caller that reads the block before
    /// anything changes.
    #[track_caller]
    pub(crate) fn hold_table_of(&self, nr: InodeNr) -> Result<(Arc<Buffer>, usize)> {
        let (block, label, offset) = self.table_place(nr)?;
        let buffer = self.sound(self.buffers.hold(block, label))?;
        Ok((buffer, offset))
    }

    fn table_place(&self, nr: InodeNr) -> Result<(BlockNr, Label, usize)> {
        let (block, offset) = self.inode_location(nr)?;
        let (group, _) = self.geometry().group_of_inode(nr);
        Ok((block, Kind::InodeTable.of_group(group), offset))
    }

    /// Changes an inode in its block of the table, and seals it (one credit). The inode was found
    /// sound before.
    pub(crate) fn change_in_table<T>(
        &self,
        handle: &mut Handle<'_>,
        nr: InodeNr,
        table: &Arc<Buffer>,
        change: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T> {
        self.change_share_in_table(handle, nr, table, false, change)
    }

    /// Does the same; a fresh inode has no share in the counts of its owners before.
    pub(super) fn change_share_in_table<T>(
        &self,
        handle: &mut Handle<'_>,
        nr: InodeNr,
        table: &Arc<Buffer>,
        is_fresh: bool,
        change: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T> {
        let (_, offset) = self.inode_location(nr)?;
        let end = offset + usize::from(self.geometry().inode_bytes);
        let mut block = handle.write(table)?;
        let bytes = &mut block[offset..end];
        let old = self.share_of(nr, bytes).filter(|_| !is_fresh);
        let changed = change(bytes);
        if !rt::mutant!("checksums/inode-not-sealed") {
            self.superblock.checksums.seal_inode(nr, bytes);
        }
        let new = self.share_of(nr, bytes);
        drop(block);
        self.charge(handle, old.as_ref(), new.as_ref())?;
        Ok(changed)
    }

    /// Returns the buffer of a group's block bitmap.
    #[track_caller]
    pub(crate) fn block_bitmap(&self, group: &Group) -> Result<Arc<Buffer>> {
        let label = Kind::BlockBitmap.of_group(group.nr);
        let first = self.first_bitmap(group, &group.lacks_block_bitmap, group.block_bitmap, label);
        match first {
            Some(buffer) => Ok(buffer),
            None => self.sound(self.buffers.get(group.block_bitmap, label)),
        }
    }

    /// Returns the buffer of a bitmap that was never used, whose contents on the device are not
    /// valid. None if the bitmap is in use.
    fn first_bitmap(
        &self,
        group: &Group,
        is_lacking: &AtomicBool,
        block: BlockNr,
        label: Label,
    ) -> Option<Arc<Buffer>> {
        if !is_lacking.load(Ordering::Relaxed) {
            return None;
        }
        // Another thread may use the bitmap for the first time now. Under the lock it has not, or
        // what it has made is in memory or on the device.
        let _maps = group.maps.lock();
        let is_lacking = is_lacking.load(Ordering::Relaxed);
        is_lacking.then(|| self.buffers.get_new(block, label))
    }

    /// Returns the buffer of a group's inode bitmap.
    #[track_caller]
    pub(crate) fn inode_bitmap(&self, group: &Group) -> Result<Arc<Buffer>> {
        let label = Kind::InodeBitmap.of_group(group.nr);
        let first = self.first_bitmap(group, &group.lacks_inode_bitmap, group.inode_bitmap, label);
        match first {
            Some(buffer) => Ok(buffer),
            None => self.sound(self.buffers.get(group.inode_bitmap, label)),
        }
    }

    /// Reads the bitmap that covers a block, so that freeing the block does not have to. The caller
    /// holds the result until then.
    #[track_caller]
    pub(crate) fn hold_block_bitmap(&self, block: BlockNr) -> Result<Arc<Buffer>> {
        let group = self.space.group(self.geometry().group_of_block(block).0);
        if group.lacks_block_bitmap.load(Ordering::Relaxed) {
            return self.block_bitmap(group);
        }
        let label = Kind::BlockBitmap.of_group(group.nr);
        self.sound(self.buffers.hold(group.block_bitmap, label))
    }

    /// Reads the bitmap that covers an inode, so that freeing the inode does not have to. The
    /// caller holds the result until then.
    #[track_caller]
    pub(crate) fn hold_inode_bitmap(&self, inode: InodeNr) -> Result<Arc<Buffer>> {
        let group = self.space.group(self.geometry().group_of_inode(inode).0);
        if group.lacks_inode_bitmap.load(Ordering::Relaxed) {
            return self.inode_bitmap(group);
        }
        let label = Kind::InodeBitmap.of_group(group.nr);
        self.sound(self.buffers.hold(group.inode_bitmap, label))
    }

    /// Returns the buffer of the superblock.
    #[track_caller]
    pub(super) fn superblock_buffer(&self) -> Result<Arc<Buffer>> {
        let (block, _) = self.geometry().superblock_place();
        let label = Kind::Superblock.of_volume();
        self.sound(self.buffers.get(block, label))
    }

    /// Reads the block of the superblock, so that changing it does not have to. The caller holds
    /// the result until then.
    #[track_caller]
    pub(crate) fn hold_superblock(&self) -> Result<Arc<Buffer>> {
        let (block, _) = self.geometry().superblock_place();
        let label = Kind::Superblock.of_volume();
        self.sound(self.buffers.hold(block, label))
    }

    /// Notes the damage of the volume's own metadata.
    #[track_caller]
    fn sound(&self, read: Result<Arc<Buffer>, Refused>) -> Result<Arc<Buffer>> {
        match read {
            Ok(buffer) => Ok(buffer),
            Err(refused) => Err(self.noted(refused.of_volume())),
        }
    }
}
