//! The entry: a volume is opened, used and closed.
//!
//! A [`Volume`] owns its daemons. `close` writes everything, stops and joins them, and returns
//! errors. Dropping an unclosed volume only sets stop flags, and so loses unsynced data like a
//! power cut.

pub mod attributes;
mod client;
mod describe;
mod exchange;
mod extended;
mod fast_commit;
mod file_extent;
mod files;
mod guard;
mod host_space;
mod init_tables;
mod nodes;
mod open;
mod open_file;
mod own_files;
pub mod path;
mod quota;
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
use crate::map::{FileMap, Visited};
use crate::options::MountOptions;

pub use attributes::{Attributes, SetAttributes, SetTime};
pub use exchange::Defragmented;
pub use file_extent::FileExtent;
pub use files::{FileId, OpenFlags};
pub use layout::device::DeviceNumber;
pub use layout::inode_flags::InodeFlags;
pub use layout::time::InodeTime;
pub use nodes::{Durability, Writer};
pub use open_file::File;
pub use path::AsPath;
pub use quota::{Quota, QuotaKind, QuotaLimits};
pub use reserve::ReserveOwner;
pub use restore::DeviceExtent;

pub(crate) use open::{close as close_core, open as open_core};
pub(crate) use own_files::log_of_inode;

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
/// Any call can fail with [`Error::Device`](crate::Error::Device) and
/// [`Error::Corrupt`](crate::Error::Corrupt); calls that change something also with
/// [`Error::Journal`](crate::Error::Journal), and with [`Error::ReadOnly`](crate::Error::ReadOnly)
/// if the volume is, or has become, read-only. The sections of the calls name their other errors.
pub struct Volume {
    core: Arc<Core>,
    open_files: files::OpenFiles,
    writer: Option<writer::Writer>,
    /// Protection against other nodes, on a volume that has it.
    guard: Option<guard::Guard>,
}

/// The events of an open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Number of transactions that recovery replayed.
    pub replayed_transactions: u32,
    /// Number of fast commits replayed.
    pub replayed_fast_commits: u32,
    /// Number of transactions in a log not marked for replay that were discarded because of the
    /// options.
    pub discarded_transactions: u32,
    /// A committed transaction that was dropped because one of its blocks in the log is damaged.
    pub lost: Option<jbd2::recovery::Lost>,
    /// The last committed transaction at the end of recovery, before orphans were completed; none
    /// if the journal was left alone.
    pub last_committed: Option<Tid>,
    /// Number of orphans that were deleted.
    pub orphans_deleted: usize,
    /// Number of orphans whose truncation was completed.
    pub orphans_truncated: usize,
    /// True if damage is recorded in the superblock, by this open or earlier: a check is due.
    pub has_errors: bool,
    /// The reason for which the volume is read-only although the options ask for read-write.
    pub read_only_because: Option<String>,
}

/// The current numbers of transactions. The transaction of an operation is no earlier than the
/// running or next one before it, and no later than the running or last started one after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transactions {
    /// The running transaction.
    pub running: Option<Tid>,
    /// The transaction to be started next.
    pub next: Tid,
}

impl Volume {
    /// Opens a volume: replays its journal if needed, completes the operations on the orphan list,
    /// starts the daemons.
    ///
    /// `journal_device` is the external journal, for a volume that has one. A volume that cannot be
    /// opened for writing as the options ask may be opened read-only: see
    /// [`OpenReport::read_only_because`].
    ///
    /// # Errors
    /// - [`Error::Corrupt`](crate::Error::Corrupt) and
    ///   [`Error::Unsupported`](crate::Error::Unsupported) name the invalid state or the feature.
    ///   The latter also reports a journal that has to be replayed on a volume that is only read
    ///   because of its blocks, unless [`MountOptions::is_private`] is set.
    /// - [`Error::NoJournalDevice`](crate::Error::NoJournalDevice) if the volume has an external
    ///   journal and none is given, [`Error::Journal`](crate::Error::Journal) for the wrong one.
    /// - [`Error::NeedsRecovery`](crate::Error::NeedsRecovery) if the journal has to be replayed
    ///   and a device is read-only.
    /// - [`Error::UnmarkedLog`](crate::Error::UnmarkedLog) by [`MountOptions::unmarked_log`].
    /// - [`Error::InUse`](crate::Error::InUse) if another node uses a volume with multiple mount
    ///   protection. A volume that was not closed is waited for first: see
    ///   [`multi_mount::status`](crate::multi_mount::status).
    /// - [`Error::CannotFlush`](crate::Error::CannotFlush) if the device cannot, and
    ///   [`MountOptions::force`] is not set.
    /// - [`Error::Device`](crate::Error::Device) if a device fails.
    pub fn open(
        device: Arc<dyn BlockDevice>,
        journal_device: Option<Arc<dyn BlockDevice>>,
        options: MountOptions,
    ) -> Result<Self> {
        Self::open_with_report(device, journal_device, options).map(|(volume, _)| volume)
    }

    /// Like [`Volume::open`]; also reports the events of the open.
    ///
    /// # Errors
    /// Fails as [`Volume::open`].
    pub fn open_with_report(
        device: Arc<dyn BlockDevice>,
        journal_device: Option<Arc<dyn BlockDevice>>,
        options: MountOptions,
    ) -> Result<(Self, OpenReport)> {
        let (core, report, guard) = open::open(device, journal_device, options)?;
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
                guard,
            },
            report,
        ))
    }

    /// Writes everything, marks the volume clean, stops the daemons.
    ///
    /// # Errors
    /// Returns the error of data that could not be written. The volume is closed in any case; the
    /// next open replays the transactions in its journal.
    pub fn close(mut self) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        if let Some(writer) = self.writer.take() {
            writer.stop();
        }
        let released = self.release_all();
        let closed = open::close(&self.core).and(released);
        let guard = self.guard.take().map_or(Ok(()), guard::Guard::release);
        closed.and(guard)
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) and [`Error::Journal`](crate::Error::Journal) if
    /// something could not be written.
    pub fn sync(&self) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        crate::file::sync_all(&self.core)
    }

    /// Discards free blocks, so that a sparse image or a thin device gets their space back; extents
    /// of fewer than `least_bytes` bytes are left alone. Returns the number of bytes.
    ///
    /// # Errors
    /// - [`Error::ReadOnly`](crate::Error::ReadOnly), and the errors of [`sync`](Self::sync).
    pub fn trim(&self, least_bytes: u64) -> Result<u64> {
        rt::charge(rt::Cost::Syscall);
        let block_bytes = u64::from(self.core.geometry().block_bytes);
        let least = least_bytes.div_ceil(block_bytes);
        let blocks = self.core.trim(u32::try_from(least).unwrap_or(u32::MAX))?;
        Ok(blocks * block_bytes)
    }

    /// Returns the free and used space.
    pub fn usage(&self) -> Usage {
        rt::charge(rt::Cost::Syscall);
        self.core.usage()
    }

    /// Returns the number of inodes whose deletion or truncation is not complete: their space is
    /// still to be freed.
    pub fn orphan_count(&self) -> usize {
        crate::orphan::count(&self.core)
    }

    /// Returns the bytes of memory that count against the budget: pages, metadata, inodes, and
    /// images that the journal pins.
    pub fn memory_used(&self) -> u64 {
        crate::writeback::used(&self.core)
    }

    /// Returns the granularity of stored times.
    pub fn time_granularity(&self) -> Duration {
        if self.core.geometry().has_extra_times() {
            Duration::from_nanos(1)
        } else {
            Duration::from_secs(1)
        }
    }

    /// Returns true if the volume is, or has become, read-only.
    pub fn is_read_only(&self) -> bool {
        self.core.is_read_only.load(Ordering::Acquire)
    }

    /// Stops all changes permanently, after a violated invariant: the journal aborts, and the
    /// volume is read-only. Durable data stays, and the next open recovers it.
    pub fn abort(&self, why: &str) {
        self.core.abort(why);
    }

    /// Returns the counters of the journal; none on a volume without one.
    pub fn journal_stats(&self) -> Option<jbd2::Stats> {
        self.core.journal.as_ref().map(|journal| journal.stats())
    }

    /// Returns the numbers of the journal's transactions, for tests of durability; none on a volume
    /// without one.
    pub fn transactions(&self) -> Option<Transactions> {
        let (running, next) = self.core.journal.as_ref()?.numbers();
        Some(Transactions { running, next })
    }

    /// Returns the time that callers have waited in the page cache so far.
    pub fn cache_stalls(&self) -> crate::CacheStalls {
        self.core.pages.stalls()
    }

    /// Returns the validated superblock, as it was when the volume was opened.
    pub fn superblock(&self) -> &crate::disk::superblock::Superblock {
        &self.core.superblock
    }

    /// Returns the mount options.
    pub fn options(&self) -> &MountOptions {
        &self.core.options
    }

    /// Returns the blocks of a file in file order, indirect blocks included. Data that has no
    /// blocks yet gets them first.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the inode is not in use, and the errors of reading its block
    /// map.
    pub fn blocks_of(&self, inode: InodeNr) -> Result<Vec<FileExtent>> {
        rt::charge(rt::Cost::Syscall);
        let inode = self.core.inode(inode)?;
        if let Err(error) = crate::file::settle(&self.core, &inode) {
            tracing::warn!(inode = %inode.nr, %error, "the newest data has no blocks yet");
        }
        let state = inode.state.read();
        let mut blocks = Vec::new();
        FileMap::of(&state).walk(&self.core, &inode, &state, &mut |visited, run| {
            blocks.push(FileExtent {
                file_block: match visited {
                    Visited::Data(block) | Visited::Unwritten(block) => Some(block),
                    Visited::Map => None,
                },
                first: run.first,
                count: run.count,
                is_unwritten: matches!(visited, Visited::Unwritten(_)),
            });
            Ok(())
        })?;
        Ok(blocks)
    }
}

#[cfg(test)]
impl Volume {
    /// Returns the internal state, for unit tests.
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
        if let Some(guard) = &self.guard {
            guard.request_stop();
        }
    }
}
