//! What was done, in exact numbers.

/// The counters of a run or of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Files created, over all.
    pub created: u64,
    /// Files created in the first phase.
    pub created_alone: u64,
    /// Files read.
    pub read: u64,
    /// Files appended to.
    pub appended: u64,
    /// Appends that did nothing because the file had its largest size.
    pub appends_skipped: u64,
    /// Files deleted, over all.
    pub deleted: u64,
    /// Files deleted in the last phase.
    pub deleted_alone: u64,
    /// Transactions done.
    pub transactions: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

impl Counts {
    /// Files created by transactions.
    #[must_use]
    pub const fn created_mixed(&self) -> u64 {
        self.created - self.created_alone
    }

    /// Files deleted by transactions.
    #[must_use]
    pub const fn deleted_mixed(&self) -> u64 {
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
