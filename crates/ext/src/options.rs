//! Mount options, in the field's own words.

use rt::Nanos;

/// How file data and the journal go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DataMode {
    /// Data goes through the journal.
    Journal,
    /// Data is on the device before the commit record of the transaction that allocated it.
    #[default]
    Ordered,
    /// No order between data and the journal.
    Writeback,
}

/// Which blocks ordered mode writes before a commit record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OrderedScope {
    /// Every block written in the transaction: ext3's own rule.
    #[default]
    All,
    /// Only blocks that the transaction allocates or brings inside the file's size.
    Allocated,
}

/// What happens after an error in metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// Note it and go on.
    Continue,
    /// Turn the volume read-only.
    #[default]
    RemountReadOnly,
    /// Stop: the journal aborts, the error is written to the superblock, and the calling thread panics.
    Panic,
}

/// Which access times are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessTime {
    /// Never.
    Never,
    /// When it is older than the change time, or a day.
    #[default]
    Relative,
    /// At every read.
    Strict,
}

/// How blocks and inodes are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AllocationProfile {
    /// Orlov for directories, reservation windows for files.
    #[default]
    Modern,
    /// What Linux 2.4.18 did: linear directories, one-block goal allocator, no windows.
    Ext3Linux24,
}

/// One budget of memory, and when dirty pages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes for pages, metadata and images that the journal pins.
    pub budget_bytes: u64,
    /// Percent of the budget that may be dirty before the writer starts.
    pub dirty_background_percent: u8,
    /// Percent of the budget that may be dirty before a writer of data has to wait.
    pub dirty_percent: u8,
    /// How often the writer looks for old dirty data.
    pub writer_interval: Nanos,
    /// How old dirty data may become before the writer writes it.
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

/// For what space is reserved behind the device when a volume is opened for writing: see `BlockDevice::reserve`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostSpace {
    /// Nothing.
    None,
    /// The journal, the bitmaps and descriptors, and the used part of the inode tables, as far as there is room.
    #[default]
    Metadata,
    /// The whole device. The volume is not opened if there is no room for it.
    All,
}

/// What becomes of a log that holds transactions although the superblock does not say `needs_recovery`. An open volume never leaves
/// one, so that somebody has to say whether it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnmarkedLog {
    /// The volume is not opened for writing. Read-only it is seen as it lies.
    #[default]
    Refuse,
    /// The log counts, and is replayed.
    Replay,
    /// The log does not count, and is emptied.
    Discard,
}

/// How a volume is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// Change nothing. A dirty journal is replayed all the same, unless `no_recovery`.
    pub read_only: bool,
    /// Do not replay the journal; only with `read_only`.
    pub no_recovery: bool,
    /// What becomes of a log that the superblock does not call for, when the volume is opened for writing.
    pub unmarked_log: UnmarkedLog,
    /// `data=`
    pub data: DataMode,
    /// `ordered=all|allocated`
    pub ordered: OrderedScope,
    /// `commit=`, the age at which a transaction is committed.
    pub commit_interval: Nanos,
    /// `barrier=`
    pub barrier: bool,
    /// `sync`: every change is durable when the call returns.
    pub sync: bool,
    /// `dirsync`: every change of a directory is durable when the call returns.
    pub directory_sync: bool,
    /// `noatime`, `relatime`, `strictatime`
    pub access_time: AccessTime,
    /// `errors=`
    pub on_error: OnError,
    /// `data_err=abort`: a failed write of ordered data aborts the journal.
    pub abort_on_data_error: bool,
    /// When transactions close, who checkpoints and who waits.
    pub log_policy: jbd2::LogPolicy,
    /// How blocks and inodes are placed.
    pub allocation: AllocationProfile,
    /// A group allocates the inode that it freed last, not the first free one: a policy for tests, under which numbers are used again at once.
    pub reuse_inodes: bool,
    /// Memory and write-back.
    pub memory: Memory,
    /// `discard`: blocks are discarded once they are free durably, so that a sparse image shrinks again. Nothing without a journal.
    pub discard: bool,
    /// `host_space=none|metadata|all`
    pub host_space: HostSpace,
    /// Open read-write even on a device that cannot flush.
    pub force: bool,
    /// `resuid=`: the user that may use the reserved blocks beside root; `None` takes the superblock's.
    pub reserved_uid: Option<u32>,
    /// `resgid=`: the group whose members may use the reserved blocks; `None` takes the superblock's.
    pub reserved_gid: Option<u32>,
    /// True if a call may use the reserved blocks that [`Volume::with_reserve`](crate::Volume::with_reserve) gives no caller.
    pub privileged: bool,
    /// The volume is just being made and filled: its journal, which is empty, is left alone, and nothing depends on chance. A
    /// crash leaves a volume that has to be made again.
    pub is_being_made: bool,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            no_recovery: false,
            unmarked_log: UnmarkedLog::Refuse,
            data: DataMode::Ordered,
            ordered: OrderedScope::All,
            commit_interval: Nanos::from_secs(5),
            barrier: true,
            sync: false,
            directory_sync: false,
            access_time: AccessTime::Relative,
            on_error: OnError::RemountReadOnly,
            abort_on_data_error: false,
            log_policy: jbd2::LogPolicy::DEFAULT,
            allocation: AllocationProfile::Modern,
            reuse_inodes: false,
            memory: Memory::default(),
            discard: false,
            host_space: HostSpace::default(),
            force: false,
            reserved_uid: None,
            reserved_gid: None,
            privileged: false,
            is_being_made: false,
        }
    }
}
