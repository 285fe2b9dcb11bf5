//! Settings of an open journal.

use rt::Nanos;

use crate::policy::LogPolicy;

/// Settings of an open journal. The properties of the log itself are in its superblock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Age at which the running transaction is committed.
    pub commit_interval: Nanos,
    /// True to use flushes and forced writes. Without them nothing is guaranteed after a power cut.
    pub barrier: bool,
    /// The policy that decides when transactions close, and which threads checkpoint and wait.
    pub policy: LogPolicy,
    /// True if the log is on another device than the file system, so that each has a separate cache
    /// to flush.
    pub is_external: bool,
    /// True to make fast commits, if the journal has blocks for them and is not external.
    pub fast_commits: bool,
    /// True to write the commit block of a transaction together with its other blocks, so that it
    /// is durable after one wait for the device. The log gets a checksum of each transaction (v1).
    pub async_commit: bool,
    /// Longest time that a commit waits for other callers to join it.
    pub batch_wait_max: Nanos,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            commit_interval: Nanos::from_secs(5),
            barrier: true,
            policy: LogPolicy::DEFAULT,
            is_external: false,
            fast_commits: false,
            async_commit: false,
            batch_wait_max: Nanos::from_millis(15),
        }
    }
}
