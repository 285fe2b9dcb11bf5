//! Locations on an open volume: inodes in their tables, and the data area.

use std::sync::Arc;

use layout::{BlockNr, FileBlock, InodeNr, Tid};
use rt::Mutex;
use rt::atomic::Ordering;

use super::Core;
use crate::cache::file_pages::Inner;
use crate::cache::inode::Inode;
use crate::cache::space::group::Group;
use crate::cache::space::zones::Holder;
use crate::cache::space::{Usage, Window};
use crate::disk::run::Run;
use crate::error::{Corrupt, Result};

impl Core {
    /// Returns the location of an inode: its block of the inode table, and the byte offset in it.
    pub(crate) fn inode_location(&self, inode: InodeNr) -> Result<(BlockNr, usize)> {
        if inode.get() == 0 || inode.get() > self.geometry().inode_count {
            let value = u64::from(inode.get());
            return Err(Corrupt::Inode {
                inode,
                field: "number",
                value,
            }
            .into());
        }
        let (group, index) = self.geometry().group_of_inode(inode);
        if let Some(damage) = &self.space.group(group).damage {
            return Err(self.damaged(damage.clone()));
        }
        let per_block = self.geometry().block_bytes / u32::from(self.geometry().inode_bytes);
        let block = self.space.group(group).inode_table + u64::from(index / per_block);
        Ok((
            block,
            (index % per_block) as usize * usize::from(self.geometry().inode_bytes),
        ))
    }

    /// Returns true if an extent may belong to a file: guards block maps and attribute blocks
    /// against damage.
    pub(crate) fn is_data_run(&self, run: Run) -> bool {
        self.is_outside(run, |_| true)
    }

    /// Returns true if an extent may belong to the journal or the orphan file, whichever is given.
    pub(crate) fn is_data_run_of(&self, owner: Holder, run: Run) -> bool {
        self.is_outside(run, |holder| holder != owner)
    }

    /// Returns true if an extent lies in the volume and outside the zones of these holders.
    fn is_outside(&self, run: Run, is_barred: impl Fn(Holder) -> bool) -> bool {
        let end = run.first.get().checked_add(u64::from(run.count));
        if !self.geometry().contains(run.first)
            || end.is_none_or(|end| end > self.geometry().block_count)
        {
            return false;
        }
        let (group, _) = self.geometry().group_of_block(run.first);
        let mut zones = self.space.zones().among(group, run);
        !zones.any(|zone| is_barred(zone.holder))
    }

    /// Returns the current space usage. The block of a page that waits for it is not free.
    pub(crate) fn usage(&self) -> Usage {
        let log = self.geometry().cluster_log;
        let free = self.space.free_clusters.load(Ordering::Relaxed);
        let blocks_free = free.saturating_sub(self.pages.counts.delayed_pieces()) << log;
        let overhead = match self.options.counts_metadata {
            true => 0,
            false => self.space.table().overhead_blocks,
        };
        Usage {
            block_bytes: self.geometry().block_bytes,
            blocks: self.geometry().block_count - overhead,
            blocks_free,
            blocks_available: blocks_free.saturating_sub(self.superblock.reserved_blocks),
            inodes: self.geometry().inode_count,
            inodes_free: self.space.free_inodes.load(Ordering::Relaxed) as u32,
        }
    }

    /// Drops a file's pages from a block on, up to a block or to the end; none may be in flight.
    /// See [`Pages::drop_range`](crate::cache::pages::Pages::drop_range).
    pub(crate) fn drop_pages(
        &self,
        inner: &mut Inner,
        inode: &Arc<Inode>,
        from: FileBlock,
        to: Option<FileBlock>,
        tid: Option<Tid>,
    ) {
        let released = self.pages.drop_range(inner, inode, from, to, tid);
        if released > 0 {
            self.space.unclaim_delayed(released);
        }
    }

    /// Releases the rest of a window.
    pub(crate) fn discard_window(&self, window: &Mutex<Window>) {
        let window = core::mem::take(&mut *window.lock());
        self.space.unreserve(&window);
    }

    /// Returns the groups of an extent, each with the clusters that have blocks of it: index within
    /// the group and count.
    pub(crate) fn parts(&self, run: Run) -> impl Iterator<Item = (&Group, u32, u32)> {
        let clusters = self.geometry().clusters_of(run);
        let mut next = clusters.first;
        core::iter::from_fn(move || {
            if next >= clusters.end() {
                return None;
            }
            let (group, start) = self.geometry().group_of_cluster(next);
            let room = u64::from(self.geometry().clusters_in(group) - start);
            let count = room.min(clusters.end().get() - next.get()) as u32;
            next = next + u64::from(count);
            Some((self.space.group(group), start, count))
        })
    }

    /// Returns true if `handle.write` may wait for I/O of the block, which must not happen while a
    /// group is locked.
    pub(crate) fn may_writes_wait(&self) -> bool {
        self.tuning.waits_for_block_io
    }
}
