//! [`Counts`]: the counters of a run.

/// The counters of a run or of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    /// Files created in total.
    pub(super) created: u64,
    /// Files created in the first phase.
    pub(super) created_alone: u64,
    /// Files read.
    pub(super) read: u64,
    /// Files appended to.
    pub(super) appended: u64,
    /// Appends without effect, because the file had its maximum size.
    pub(super) appends_skipped: u64,
    /// Files deleted in total.
    pub(super) deleted: u64,
    /// Files deleted in the last phase.
    pub(super) deleted_alone: u64,
    /// Completed transactions.
    pub(super) transactions: u64,
    /// Bytes read.
    pub(super) bytes_read: u64,
    /// Bytes written.
    pub(super) bytes_written: u64,
}

impl Counts {
    /// Returns the number of files created by transactions.
    pub(super) const fn created_mixed(&self) -> u64 {
        self.created - self.created_alone
    }

    /// Returns the number of files deleted by transactions.
    pub(super) const fn deleted_mixed(&self) -> u64 {
        self.deleted - self.deleted_alone
    }

    /// Adds the counters of another thread.
    pub(super) fn add(&mut self, other: &Self) {
        self.created += other.created;
        self.created_alone += other.created_alone;
        self.read += other.read;
        self.appended += other.appended;
        self.appends_skipped += other.appends_skipped;
        self.deleted += other.deleted;
        self.deleted_alone += other.deleted_alone;
        self.transactions += other.transactions;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
    }
}
