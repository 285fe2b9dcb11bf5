//! The superblock of an open volume: read and changed in its buffer.

use jbd2::Credits;
use layout::superblock as disk;
use rt::atomic::Ordering;
use zerocopy::FromBytes;

use super::Core;
use super::handle::Handle;
use crate::disk::superblock::{count_mount, split_time};
use crate::error::Result;

impl Core {
    /// Changes the superblock in its buffer within a handle (one credit).
    pub(crate) fn with_superblock<T>(
        &self,
        handle: &mut Handle<'_>,
        change: impl FnOnce(&mut disk::Superblock) -> T,
    ) -> Result<T> {
        let (_, offset) = self.geometry().superblock_place();
        let buffer = self.superblock_buffer()?;
        let mut bytes = handle.write(&buffer)?;
        let (raw, _) = disk::Superblock::mut_from_prefix(&mut bytes[offset..])
            .expect("a block has room for a superblock at its offset");
        Ok(change(raw))
    }

    /// Returns the current superblock in memory.
    pub(crate) fn superblock_now(&self) -> Result<disk::Superblock> {
        let (_, offset) = self.geometry().superblock_place();
        let buffer = self.superblock_buffer()?;
        let bytes = buffer.read();
        let (raw, _) = disk::Superblock::read_from_prefix(&bytes[offset..])
            .expect("a block has room for a superblock at its offset");
        Ok(raw)
    }

    /// Updates the superblock's buffer (at sync and close): counts, and the damage found. A volume
    /// that has become read-only still stores its counts.
    ///
    /// A mount that is not counted yet is counted by the first sync after a change, or before by
    /// the writer: a volume that is not changed is not written for it.
    pub(crate) fn store_counts(&self) -> Result<()> {
        let space = &self.space;
        // The superblock counts blocks, the descriptors clusters.
        let log = self.geometry().cluster_log;
        let free_blocks = space.free_clusters.load(Ordering::Relaxed) << log;
        let free_inodes = space.free_inodes.load(Ordering::Relaxed) as u32;
        let now = self.superblock_now()?;
        let is_current = now.free_blocks_count() == free_blocks
            && now.free_inodes_count.get() == free_inodes
            && !self.damage.is_owed();
        let mount = match self.owes_mount() {
            true => self.uncounted_mount.lock().take(),
            false => None,
        };
        if is_current && mount.is_none() {
            return Ok(());
        }
        let stored = self.store_in_superblock(|raw| {
            raw.set_free_blocks_count(free_blocks);
            raw.free_inodes_count.set(free_inodes);
            if let Some(seconds) = mount {
                count_mount(raw, seconds);
            }
            (raw.write_time, raw.write_time_high) = split_time(rt::wall().seconds);
        });
        if stored.is_err() && mount.is_some() {
            *self.uncounted_mount.lock() = mount;
        }
        stored
    }

    /// Counts the mount in the running transaction, once there is a change.
    pub(crate) fn count_mount_after_change(&self) -> Result<()> {
        let is_writable = !self.is_read_only.load(Ordering::Acquire);
        match is_writable && self.owes_mount() {
            true => self.store_counts(),
            false => Ok(()),
        }
    }

    /// Returns true if the superblock does not count this mount yet, and a handle was started.
    fn owes_mount(&self) -> bool {
        // Otherwise the mount was counted with its mark.
        self.superblock.is_marked_alone()
            && self.uncounted_mount.lock().is_some()
            && self
                .journal
                .as_ref()
                .is_some_and(|journal| journal.stats().handles > 0)
    }

    /// Changes the superblock's buffer in a separate handle, also on a volume that has become
    /// read-only, and records the damage there.
    pub(crate) fn store_in_superblock(
        &self,
        change: impl FnOnce(&mut disk::Superblock),
    ) -> Result<()> {
        let credits = Credits {
            blocks: 1,
            revokes: 0,
        };
        let mut handle = Handle::begin(self, credits)?;
        self.with_superblock(&mut handle, |raw| {
            change(raw);
            if !rt::mutant!("damage/not-stored") {
                self.damage.apply(raw, self.errors_before());
            }
        })?;
        handle.finish().map(drop)
    }

    /// Returns the number of errors that the superblock counted when the volume was opened.
    pub(super) fn errors_before(&self) -> u32 {
        self.superblock.raw.error_count.get()
    }
}
