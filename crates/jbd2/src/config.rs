//! How a journal is run.

use rt::Nanos;

/// How a journal is run. What it *is* stands in its superblock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The oldest that a running transaction gets before it is committed.
    pub commit_interval: Nanos,
    /// Whether flushes and forced writes are used. Without them a power cut may break any promise.
    pub barrier: bool,
    /// When transactions close, who checkpoints and who waits.
    pub policy: LogPolicy,
    /// Whether the log is on another device than the file system, so that each has a cache of its own to flush.
    pub is_external: bool,
    /// The longest that a commit waits for other callers to join it.
    pub batch_wait_max: Nanos,
}

/// When transactions close, who checkpoints and who waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum LogPolicy {
    /// A transaction is committed in the background when it holds an eighth of the log and closed at a quarter; a daemon
    /// keeps a good part of the log free with large sorted batches; whoever starts a handle waits only when the log is
    /// really full; a thread that waits for a commit does it itself; a block that is in log I/O can be changed.
    #[default]
    Default,
    /// What a kernel of 2001-2003 did: a transaction closes at a quarter of the log; a block that is in log I/O cannot be
    /// changed; ordered data is written before the log; when less than a quarter of the log and the committing
    /// transaction's credits are free, whoever starts a handle checkpoints, oldest transaction first, 64 blocks at a
    /// time, and only then does the tail move; one daemon commits.
    Linux24,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            commit_interval: Nanos::from_secs(5),
            barrier: true,
            policy: LogPolicy::Default,
            is_external: false,
            batch_wait_max: Nanos::from_millis(15),
        }
    }
}
