//! Inodes between the inode table and memory: loading, storing, and their properties.
//!
//! # Rules
//!
//! - A thread that changes a state holds the inode lock exclusively and stores the state within the
//!   same transaction. For the [`Claims`](crate::disk::inode::Claims) the handle enforces it.
//! - `i_dtime` of an inode on the orphan list belongs to the list: storing leaves it alone.

use std::sync::Arc;

use jbd2::Buffer;
use layout::inode::FAST_SYMLINK_MAX;
use layout::inode_flags::InodeFlags;
use layout::time::InodeTime;
use layout::{BlockNr, InodeNr};

use super::Core;
use super::handle::Handle;
use crate::cache::inode::Inode;
use crate::cache::inodes::Eviction;
use crate::disk::inode::{InodeState, table};
use crate::disk::kind::FileKind;
use crate::disk::run::Run;
use crate::error::{Corrupt, Error, Result};
use crate::options::DataMode;

impl Core {
    /// Returns the inode, read from the table if it is not in memory.
    pub(crate) fn inode(&self, nr: InodeNr) -> Result<Arc<Inode>> {
        rt::charge(rt::Cost::Lookup);
        self.fetch_inode(nr)
    }

    /// Like [`inode`](Self::inode), but takes no virtual time: for look-ups that are part of
    /// another.
    pub(crate) fn fetch_inode(&self, nr: InodeNr) -> Result<Arc<Inode>> {
        self.inodes.get(nr, self, || Inode::load(self, nr))
    }

    /// Returns the generation of a new inode of a volume that is being made: it follows from the
    /// number, so that the same tree gives the same bytes. None on other volumes, where it is
    /// random.
    pub(crate) fn made_generation(&self, nr: InodeNr) -> Option<u32> {
        let is_being_made = self.options.is_being_made;
        is_being_made.then(|| nr.get().wrapping_mul(0x9E37_79B9))
    }

    /// Returns the time of a volume that is being made and was never mounted: that at which it was
    /// formatted, so that the same tree gives the same bytes. None on other volumes.
    pub(crate) fn made_time(&self) -> Option<InodeTime> {
        let raw = &self.superblock.raw;
        let is_new = self.options.is_being_made && raw.mount_time.get() == 0;
        let high = i64::from(raw.creation_time_high) << 32;
        is_new.then(|| InodeTime::new(i64::from(raw.creation_time.get()) | high, 0))
    }

    /// Gives an inode that is deleted its deletion time. On a volume that is being made its other
    /// times, too, no longer depend on the clock.
    pub(crate) fn note_deletion(&self, state: &mut InodeState) {
        let made = self.made_time();
        if let Some(made) = made {
            (state.atime, state.mtime, state.ctime) = (made, made, made);
            state.crtime = state.crtime.map(|_| made);
        }
        let seconds = made.map_or_else(|| rt::wall().seconds, |made| made.seconds);
        // 0 would mean that the inode is not deleted, and e2fsck takes a small number for that of
        // the next orphan.
        let least = made.map_or(1, |_| self.geometry().inode_count.saturating_add(1));
        state.dtime = u32::try_from(seconds.max(0)).unwrap_or(u32::MAX).max(least);
    }

    /// Inserts a new inode into the cache.
    pub(crate) fn insert_inode(&self, inode: Arc<Inode>) {
        self.inodes.insert(inode, self);
    }

    /// Returns the size of a block in units of 512 bytes, as inodes count them.
    pub(crate) fn sectors_per_block(&self) -> u64 {
        u64::from(self.geometry().block_bytes) / 512
    }

    /// Returns the size of a cluster in units of 512 bytes: inodes count the clusters that they
    /// have blocks of.
    pub(crate) fn sectors_per_cluster(&self) -> u64 {
        self.sectors_per_block() << self.geometry().cluster_log
    }

    /// Reads the blocks that a change of links needs, before anything changes: the inodes' table
    /// blocks, and the superblock, which holds the head of the orphan list. The caller holds the
    /// result until the change is done.
    pub(crate) fn hold_for_names(&self, inodes: &[InodeNr]) -> Result<Vec<Arc<Buffer>>> {
        let tables = inodes.iter().map(|nr| Ok(self.hold_table_of(*nr)?.0));
        tables
            .chain(std::iter::once_with(|| self.hold_superblock()))
            .collect()
    }

    /// Reads the table block of an inode, so that storing the inode does not have to. The caller
    /// holds the result until then.
    pub(crate) fn hold_table(&self, nr: InodeNr) -> Result<Arc<Buffer>> {
        Ok(self.table_of(nr)?.0)
    }
}

impl Eviction for Core {
    fn budget_bytes(&self) -> u64 {
        self.options.memory.budget_bytes
    }

    fn is_durable(&self, tid: layout::Tid) -> bool {
        self.journal
            .as_ref()
            .is_none_or(|journal| journal.is_durable(tid))
    }

    fn evict(&self, inode: &Inode) {
        inode
            .pages
            .evict_all(&self.pages.counts, &self.pages.flushes);
        self.discard_window(&inode.window);
    }
}

impl Inode {
    /// Reads an inode from the table.
    ///
    /// # Errors
    /// - `Corrupt::Inode` for an invalid field; [`crate::Error::NotFound`] for a free inode (no
    ///   mode, no links).
    pub(crate) fn load(core: &Core, nr: InodeNr) -> Result<Self> {
        if nr.get() == 0 || nr.get() > core.geometry().inode_count {
            let value = u64::from(nr.get());
            return Err(Corrupt::Inode {
                inode: nr,
                field: "number",
                value,
            }
            .into());
        }
        let (buffer, offset) = core.table_of(nr)?;
        let decoded = {
            let end = offset + usize::from(core.geometry().inode_bytes);
            table::decode(
                &core.superblock,
                core.geometry(),
                nr,
                &buffer.read()[offset..end],
            )
        };
        let mut state = decoded.map_err(|error| core.noted(error))?;
        check_attribute_block(core, nr, &state)?;
        let is_chained = state.links == 0 || state.dtime != 0;
        if is_chained || core.superblock.has_orphan_file() {
            state.is_orphan = core.orphans.lock().contains(nr);
        }
        if state.links == 0 && !state.is_orphan {
            return Err(Error::NotFound);
        }
        if state.is_orphan {
            state.dtime = 0;
        }
        // Linux leaves the mark on an inode that it deletes. A file handle may name an inode that
        // was deleted, and whose number has become that of a value: this is no damage.
        let is_of_value = state.flags.contains(InodeFlags::ATTRIBUTE_INODE);
        if is_of_value && state.links > 0 && core.superblock.has_ea_inode() {
            return Err(Error::NotFound);
        }
        let inode = Self::new(nr, state);
        inode.pages.note_loaded(&core.pages.flushes);
        Ok(inode)
    }
}

/// Checks that the attribute block lies in the data area.
fn check_attribute_block(core: &Core, nr: InodeNr, state: &InodeState) -> Result<()> {
    let run = Run {
        first: state.attribute_block,
        count: 1,
    };
    if run.first.get() == 0 || core.is_data_run(run) {
        return Ok(());
    }
    Err(core.damaged(Corrupt::Inode {
        inode: nr,
        field: "i_file_acl",
        value: run.first.get(),
    }))
}

impl InodeState {
    /// Writes the state into the inode table (one credit) and notes the transaction in `last_tid`.
    /// With `is_data`, also in `data_tid`.
    ///
    /// # Errors
    /// - [`Error::FileTooLarge`] if size or block count do not fit the format: nothing is changed.
    pub(crate) fn store(
        &mut self,
        core: &Core,
        handle: &mut Handle<'_>,
        nr: InodeNr,
        is_data: bool,
    ) -> Result<()> {
        if !table::fits(&core.superblock, self) {
            return Err(Error::FileTooLarge);
        }
        let (buffer, _) = core.table_of(nr)?;
        core.change_share_in_table(handle, nr, &buffer, self.is_fresh, |bytes| {
            table::encode(&core.superblock, self, bytes);
        })?;
        self.is_fresh = false;
        self.discard(handle);
        handle.note_inode(nr, is_data);
        if let Some(tid) = handle.tid() {
            self.last_tid = Some(tid);
            if is_data {
                self.data_tid = Some(tid);
            }
        }
        Ok(())
    }

    /// Returns true if the file's data goes through the journal.
    pub(crate) fn is_journaled(&self, core: &Core) -> bool {
        core.journal.is_some()
            && (core.options.data == DataMode::Journal
                || self.kind != FileKind::Regular
                || self.flags.contains(InodeFlags::JOURNAL_DATA))
    }

    /// Returns true if the file's blocks are changed through the metadata cache, and have to be
    /// forgotten there when they are freed: always for directories and symbolic links, and for
    /// files if their data is journaled. That of a value (`ea_inode`) is in the cache without a
    /// journal, too.
    pub(crate) fn has_buffered_blocks(&self, core: &Core) -> bool {
        let of_value = InodeFlags::ATTRIBUTE_INODE | InodeFlags::JOURNAL_DATA;
        let may_be_of_value = core.superblock.has_ea_inode() && self.flags.intersects(of_value);
        self.kind != FileKind::Regular || may_be_of_value || self.is_journaled(core)
    }

    /// Returns true if the words are a block map: not for devices, fifos, sockets and short
    /// symbolic links, nor if the contents lie within the inode.
    pub(crate) fn has_map(&self, core: &Core) -> bool {
        match self.kind {
            _ if self.is_inline() => false,
            FileKind::Regular | FileKind::Directory => true,
            // Its sectors are those of its values, too.
            FileKind::Symlink if core.superblock.has_ea_inode() => {
                self.size > FAST_SYMLINK_MAX as u64
            }
            FileKind::Symlink => {
                let has_attributes = self.attribute_block != BlockNr::new(0);
                let attributes = u64::from(has_attributes) * core.sectors_per_cluster();
                self.sectors > attributes
            }
            _ => false,
        }
    }
}
