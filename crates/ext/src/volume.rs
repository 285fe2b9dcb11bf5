//! The entry: a volume is opened, used and closed.
//!
//! A [`Volume`] owns its daemons. `close` writes everything, stops and joins them and returns what went wrong. Dropping an
//! unclosed volume sets stop flags and does nothing else: it is a power cut for what was not synced.

pub mod attributes;
mod client;
mod extended;
mod files;
mod host_space;
mod nodes;
mod open;
mod open_file;
pub mod path;
mod replay;
mod reserve;
mod restore;
mod tree;
mod writer;

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

use block::BlockDevice;
use layout::{InodeNr, Tid};
use rt::atomic::Ordering;

use crate::core::Core;
use crate::error::Result;
use crate::options::MountOptions;

pub use attributes::{Attributes, SetAttributes, SetTime};
pub use files::{FileId, OpenFlags};
pub use layout::device::DeviceNumber;
pub use layout::inode_flags::InodeFlags;
pub use layout::time::InodeTime;
pub use nodes::Durability;
pub use open_file::File;
pub use path::AsPath;
pub use reserve::ReserveOwner;
pub use restore::Stretch;

pub(crate) use open::{close as close_core, log_of_inode, open as open_core};

pub use crate::cache::space::Usage;
pub use crate::disk::entry::Entry;
pub use crate::disk::kind::FileKind;
pub use crate::disk::new_inode::NewInode;
pub use crate::file::{RangeChange, Restored};
pub use crate::namei::{RenameMode, WhiteoutOwner};
pub use crate::xattr::SetMode;

/// An open file system.
///
/// All operations take `&self` and may be called from any number of threads.
///
/// # Errors
/// Any call can fail with [`Error::Device`](crate::Error::Device) and [`Error::Corrupt`](crate::Error::Corrupt); one that changes something
/// also with [`Error::Journal`](crate::Error::Journal), and with [`Error::ReadOnly`](crate::Error::ReadOnly) if the volume is, or has become,
/// read-only. The sections of the calls name what can fail beside.
pub struct Volume {
    core: Arc<Core>,
    open_files: files::OpenFiles,
    writer: Option<writer::Writer>,
}

/// What happened while a volume was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Transactions that recovery replayed.
    pub replayed_transactions: u32,
    /// Transactions of a log that the superblock did not call for, which were dropped as the options say.
    pub discarded_transactions: u32,
    /// A committed transaction that was dropped, since a block of it in the log is damaged.
    pub lost: Option<jbd2::recovery::Lost>,
    /// The last transaction that had been committed when recovery ended, before orphans were finished; none where the journal was
    /// left alone.
    pub last_committed: Option<Tid>,
    /// Orphans that were deleted.
    pub orphans_deleted: usize,
    /// Orphans whose truncation was finished.
    pub orphans_truncated: usize,
    /// True if damage is noted in the superblock, by this open or earlier: a check is due.
    pub has_errors: bool,
    /// Why the volume is read-only although it was to be read-write.
    pub read_only_because: Option<String>,
}

/// Where the numbers of transactions stand: what an operation belongs to is no earlier than what ran, or came next,
/// before it, and no later than what ran, or was started last, after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transactions {
    /// The one that runs.
    pub running: Option<Tid>,
    /// The one that will be started next.
    pub next: Tid,
}

impl Volume {
    /// Opens a volume: replays its journal if needed, finishes what the orphan list says, starts the daemons.
    ///
    /// `journal_device` is the external journal, for a volume that has one. Where the volume cannot be opened for writing as the options
    /// ask, it may be opened read-only: see [`OpenReport::read_only_because`].
    ///
    /// # Errors
    /// - [`Error::Corrupt`](crate::Error::Corrupt) and [`Error::Unsupported`](crate::Error::Unsupported) name the fact or the feature.
    /// - [`Error::NoJournalDevice`](crate::Error::NoJournalDevice) if the volume has an external journal and none is given, [`Error::Journal`](crate::Error::Journal) for the wrong one.
    /// - [`Error::NeedsRecovery`](crate::Error::NeedsRecovery) if the journal has to be replayed and a device is read-only.
    /// - [`Error::UnmarkedLog`](crate::Error::UnmarkedLog) as [`MountOptions::unmarked_log`] says.
    /// - [`Error::CannotFlush`](crate::Error::CannotFlush) if the device cannot, and [`MountOptions::force`] is not set.
    /// - [`Error::Device`](crate::Error::Device) if a device fails.
    pub fn open(
        device: Arc<dyn BlockDevice>,
        journal_device: Option<Arc<dyn BlockDevice>>,
        options: MountOptions,
    ) -> Result<Self> {
        Self::open_with_report(device, journal_device, options).map(|(volume, _)| volume)
    }

    /// Like [`Volume::open`]; also reports what happened on the way.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub fn open_with_report(
        device: Arc<dyn BlockDevice>,
        journal_device: Option<Arc<dyn BlockDevice>>,
        options: MountOptions,
    ) -> Result<(Self, OpenReport)> {
        let (core, report) = open::open(device, journal_device, options)?;
        let writer = if core.is_read_only.load(Ordering::Acquire) {
            None
        } else {
            Some(writer::Writer::start(&core))
        };
        Ok((
            Self {
                core,
                open_files: files::OpenFiles::default(),
                writer,
            },
            report,
        ))
    }

    /// Writes everything, marks the volume clean, stops the daemons.
    ///
    /// # Errors
    /// What could not be written. The volume is closed all the same; a journal replays what it has at the next open.
    pub fn close(mut self) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        if let Some(writer) = self.writer.take() {
            writer.stop();
        }
        let released = self.release_all();
        open::close(&self.core).and(released)
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) and [`Error::Journal`](crate::Error::Journal) if something could not be written.
    pub fn sync(&self) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        crate::writeback::sync_all(&self.core)
    }

    /// Discards the blocks that are free, so that a sparse image or a thin device gets their space back; runs of fewer bytes than
    /// `least_bytes` are left. Returns how many bytes.
    ///
    /// # Errors
    /// - [`Error::ReadOnly`](crate::Error::ReadOnly), and what a [`sync`](Self::sync) may fail with.
    pub fn trim(&self, least_bytes: u64) -> Result<u64> {
        rt::charge(rt::Cost::Syscall);
        let block_bytes = u64::from(self.core.geometry.block_bytes);
        let least = least_bytes.div_ceil(block_bytes);
        let blocks = self.core.trim(u32::try_from(least).unwrap_or(u32::MAX))?;
        Ok(blocks * block_bytes)
    }

    /// Free and used space.
    pub fn usage(&self) -> Usage {
        rt::charge(rt::Cost::Syscall);
        self.core.usage()
    }

    /// How many inodes wait for their deletion, or for the end of a truncation: their space will be free.
    pub fn orphan_count(&self) -> usize {
        crate::orphan::count(&self.core)
    }

    /// Bytes of memory that count against the budget: pages, metadata, inodes, and images that the journal pins.
    pub fn memory_used(&self) -> u64 {
        crate::writeback::memory::used(&self.core)
    }

    /// How finely times are kept.
    pub fn time_granularity(&self) -> Duration {
        if self.core.geometry.has_extra_times() {
            Duration::from_nanos(1)
        } else {
            Duration::from_secs(1)
        }
    }

    /// Whether the volume is, or has become, read-only.
    pub fn is_read_only(&self) -> bool {
        self.core.is_read_only.load(Ordering::Acquire)
    }

    /// Stops all changes, stickily, after something that must not happen: the journal aborts, and the volume is read-only. What
    /// was promised stays, and the next open recovers to it.
    pub fn abort(&self, why: &str) {
        self.core.abort(why);
    }

    /// What the journal has done so far; none on a volume without one.
    pub fn journal_stats(&self) -> Option<jbd2::Stats> {
        self.core.journal.as_ref().map(|journal| journal.stats())
    }

    /// Where the journal's numbers stand, for those who check what became durable; none on a volume without one.
    pub fn transactions(&self) -> Option<Transactions> {
        let (running, next) = self.core.journal.as_ref()?.numbers();
        Some(Transactions { running, next })
    }

    /// What callers have waited for in the page cache so far.
    pub fn cache_stalls(&self) -> crate::CacheStalls {
        self.core.pages.stalls()
    }

    /// The validated superblock, as it was when the volume was opened.
    pub fn superblock(&self) -> &crate::disk::superblock::Superblock {
        &self.core.superblock
    }

    /// How the volume is mounted.
    pub fn options(&self) -> &MountOptions {
        &self.core.options
    }

    /// The blocks of a file in file order: `(first file block, first block, count)`; blocks of the map itself have no
    /// file block.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the inode is not in use, and those of reading its block map.
    pub fn blocks_of(&self, inode: InodeNr) -> Result<Vec<(Option<u64>, u64, u32)>> {
        rt::charge(rt::Cost::Syscall);
        let inode = self.core.inode(inode)?;
        let state = inode.state.read();
        let mut blocks = Vec::new();
        crate::map::walk(&self.core, &inode, &state, &mut |file_block, run| {
            blocks.push((
                file_block.map(layout::FileBlock::get),
                run.first.get(),
                run.count,
            ));
            Ok(())
        })?;
        Ok(blocks)
    }
}

#[cfg(test)]
impl Volume {
    /// What tests of the parts look into.
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume")
            .field("device", &self.core.device.name())
            .field("is_read_only", &self.is_read_only())
            .finish_non_exhaustive()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if let Some(writer) = &self.writer {
            writer.request_stop();
        }
    }
}
