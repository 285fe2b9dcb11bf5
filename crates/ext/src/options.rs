//! Mount options.

mod async_commit;

use rt::Nanos;

use crate::tuning::Tuning;
pub use async_commit::{AsyncCommit, Misfit};

/// The order between file data and the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DataMode {
    /// Data goes through the journal.
    Journal,
    /// Data reaches the device before the commit block of the transaction that allocated it.
    #[default]
    Ordered,
    /// No order between data and the journal.
    Writeback,
}

/// The blocks that ordered mode writes before a commit block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OrderedScope {
    /// Every block written in the transaction: ext3's own rule.
    #[default]
    All,
    /// Only blocks that the transaction allocates or brings inside the file's size.
    Allocated,
}

/// The reaction to an error in metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// Record it and continue.
    Continue,
    /// Turn the volume read-only.
    #[default]
    RemountReadOnly,
    /// Stop: the journal aborts, the error is written to the superblock, and the calling thread
    /// panics.
    Panic,
}

/// The access times that are updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessTime {
    /// None.
    Never,
    /// Those older than the change time, or than a day.
    #[default]
    Relative,
    /// All, at every read.
    Strict,
}

/// The memory budget, and the limits of dirty pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes for pages, metadata and images that the journal pins.
    pub budget_bytes: u64,
    /// Percentage of the budget that may be dirty before the writer daemon starts.
    pub dirty_background_percent: u8,
    /// Percentage of the budget that may be dirty before a writer of data has to wait.
    pub dirty_percent: u8,
    /// Interval at which the writer daemon looks for old dirty data.
    pub writer_interval: Nanos,
    /// Age at which the writer daemon writes dirty data.
    pub dirty_expiry: Nanos,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            budget_bytes: 256 << 20,
            dirty_background_percent: 40,
            dirty_percent: 60,
            writer_interval: Nanos::from_secs(5),
            dirty_expiry: Nanos::from_secs(30),
        }
    }
}

/// The space reserved behind the device when a volume is opened for writing: see
/// `BlockDevice::reserve`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostSpace {
    /// None.
    None,
    /// Space for the journal, the bitmaps and descriptors, and the used part of the inode tables,
    /// as far as there is room.
    #[default]
    Metadata,
    /// Space for the whole device. The open fails if there is no room for it.
    All,
}

/// The treatment of a log that holds transactions although the superblock has no `needs_recovery`.
/// This crate never leaves such a log, so the options decide if its transactions are replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnmarkedLog {
    /// The volume is not opened for writing. A read-only open ignores the log.
    #[default]
    Refuse,
    /// The transactions are replayed.
    Replay,
    /// The transactions are discarded, and the log is emptied.
    Discard,
}

/// The options of a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// True to change nothing. A dirty journal is still replayed, unless `no_recovery`.
    pub read_only: bool,
    /// True to leave the journal unreplayed; only with `read_only`.
    pub no_recovery: bool,
    /// The treatment of a log that the superblock does not mark for replay, when the volume is
    /// opened for writing.
    pub unmarked_log: UnmarkedLog,
    /// The data mode (`data=`).
    pub data: DataMode,
    /// The scope of ordered mode (`ordered=all|allocated`).
    pub ordered: OrderedScope,
    /// True to allocate the blocks of files with extents when their data is written back, not when
    /// it is written into the cache (`delalloc`). Has no effect with `data=journal`.
    pub delayed_allocation: bool,
    /// True to allocate the delayed blocks of a file that replaces another: by a rename, or by
    /// truncation to nothing before it is written and closed (`auto_da_alloc`).
    pub auto_da_alloc: bool,
    /// True to make fsync durable by fast commits, on a volume with the feature `fast_commit` and
    /// an internal journal. Has no effect with `data=journal`.
    pub fast_commits: bool,
    /// True to write the commit block of a transaction together with its other blocks, so that it
    /// is durable after one wait for the device (`journal_async_commit`). [`AsyncCommit`] says on
    /// which volumes.
    pub async_commit: bool,
    /// Age at which a transaction is committed (`commit=`).
    pub commit_interval: Nanos,
    /// True to flush the device for commits (`barrier=`).
    pub barrier: bool,
    /// True if every change is durable when the call returns (`sync`).
    pub sync: bool,
    /// True if every change of a directory is durable when the call returns (`dirsync`).
    pub directory_sync: bool,
    /// True if new inodes take the group of their directory (`grpid`), which set-group-ID
    /// directories do in any case.
    pub directory_groups: bool,
    /// The access times that are updated (`noatime`, `relatime`, `strictatime`).
    pub access_time: AccessTime,
    /// The reaction to damage (`errors=`).
    pub on_error: OnError,
    /// True if a failed write of ordered data aborts the journal (`data_err=abort`).
    pub abort_on_data_error: bool,
    /// Settings of experiments and tests.
    pub tuning: Tuning,
    /// The memory budget and writeback.
    pub memory: Memory,
    /// True to discard blocks once they are durably free, so that a sparse image shrinks again
    /// (`discard`). Has no effect without a journal.
    pub discard: bool,
    /// The space to reserve behind the device (`host_space=none|metadata|all`).
    pub host_space: HostSpace,
    /// Number of blocks in a stripe of an array, to align large extents (`stripe=`); `None` takes
    /// the superblock's.
    pub stripe_blocks: Option<u32>,
    /// True if nothing else sees the changes of the devices, as with a view in memory: multiple
    /// mount protection is not heeded.
    pub is_private: bool,
    /// True to count the blocks of metadata in the size of the volume (`minixdf`).
    pub counts_metadata: bool,
    /// The number of times that zeroing a part of the inode tables takes, to pause before the next
    /// (`init_itable=`): tables that were never used are zeroed in the background, on volumes whose
    /// groups have flags. None to leave them, as each of their blocks is zeroed at its first use.
    pub init_tables: Option<u32>,
    /// True to open read-write even on a device that cannot flush.
    pub force: bool,
    /// The user that may use the reserved blocks besides root (`resuid=`); `None` takes the
    /// superblock's.
    pub reserved_uid: Option<u32>,
    /// The group whose members may use the reserved blocks (`resgid=`); `None` takes the
    /// superblock's.
    pub reserved_gid: Option<u32>,
    /// True if calls made outside of [`Volume::with_reserve`](crate::Volume::with_reserve) may use
    /// the reserved blocks.
    pub privileged: bool,
    /// True while the volume is being created and filled: its journal, which is empty, is left
    /// alone, and nothing depends on chance. A crash leaves a volume that has to be created again.
    pub is_being_made: bool,
    /// True to leave room for checksums in the directory blocks that are written, on a volume that
    /// has none: before it gets some.
    pub reserves_tails: bool,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            no_recovery: false,
            unmarked_log: UnmarkedLog::Refuse,
            data: DataMode::Ordered,
            ordered: OrderedScope::All,
            delayed_allocation: true,
            auto_da_alloc: true,
            fast_commits: true,
            async_commit: false,
            commit_interval: Nanos::from_secs(5),
            barrier: true,
            sync: false,
            directory_sync: false,
            directory_groups: false,
            access_time: AccessTime::Relative,
            on_error: OnError::RemountReadOnly,
            abort_on_data_error: false,
            tuning: Tuning::default(),
            memory: Memory::default(),
            discard: false,
            host_space: HostSpace::default(),
            stripe_blocks: None,
            counts_metadata: false,
            init_tables: None,
            is_private: false,
            force: false,
            reserved_uid: None,
            reserved_gid: None,
            privileged: false,
            is_being_made: false,
            reserves_tails: false,
        }
    }
}
