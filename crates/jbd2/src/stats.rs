//! Counts of a journal's work.

use core::ops::Sub;
use core::sync::atomic::{AtomicU64, Ordering};

use rt::Nanos;

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident),+ ; times $($(#[$time_doc:meta])* $time:ident),+ $(,)?) => {
        /// Counts of a journal's work; the difference of two shows the work between them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)+
            $($(#[$time_doc])* pub $time: Nanos,)+
            /// Number of handles started.
            pub handles: u64,
            /// Largest number of callers that one commit has served.
            pub group_size_max: u64,
            /// Average time of a commit, from closing to durable, and so the limit of the time that
            /// a leader waits for other callers.
            pub commit_average: Nanos,
        }

        /// Running counters. Their accesses order nothing, so they are not scheduling points.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)+
            $(pub(crate) $time: Counter,)+
            pub(crate) group_size_max: Counter,
            pub(crate) commit_average: Counter,
        }

        impl Counters {
            /// Returns the counts so far, with the number of handles, which the gate counts.
            pub(crate) fn read(&self, handles: u64) -> Stats {
                Stats {
                    handles,
                    $($name: self.$name.get(),)+
                    $($time: Nanos::new(self.$time.get()),)+
                    group_size_max: self.group_size_max.get(),
                    commit_average: Nanos::new(self.commit_average.get()),
                }
            }
        }

        impl Sub for Stats {
            type Output = Self;

            /// Returns the counts since an earlier reading. Maximum and average are the later ones.
            fn sub(self, earlier: Self) -> Self {
                Self {
                    handles: self.handles - earlier.handles,
                    $($name: self.$name - earlier.$name,)+
                    $($time: self.$time - earlier.$time,)+
                    group_size_max: self.group_size_max,
                    commit_average: self.commit_average,
                }
            }
        }
    };
}

stats! {
    /// Number of transactions committed.
    commits,
    /// Number of fast commits.
    fast_commits,
    /// Number of blocks written for them.
    fast_commit_blocks,
    /// Number of callers that waited for a commit.
    sync_callers,
    /// Number of block images written to the log.
    logged_blocks,
    /// Number of these that were escaped because they start with the journal's magic number.
    escaped_blocks,
    /// Number of descriptor blocks written to the log.
    descriptor_blocks,
    /// Number of revoke blocks written to the log.
    revoke_blocks,
    /// Number of revoke records in them.
    revoke_records,
    /// Number of commit blocks written to the log.
    commit_blocks,
    /// Number of requests that wrote all of these.
    log_requests,
    /// Number of blocks checkpointed.
    checkpoint_blocks,
    /// Number of requests that wrote them.
    checkpoint_requests,
    /// Number of blocks not checkpointed because a later transaction logged them again.
    superseded_blocks,
    /// Number of blocks not checkpointed because they were freed.
    cancelled_blocks,
    /// Number of moves of the log's tail on the device.
    tail_moves,
    /// Number of flushes of the log's device, including those before commit blocks.
    log_flushes,
    /// Number of flushes of the file-system device, if the log is on another device.
    home_flushes;
    times
    /// Time that callers waited because the transaction was closing or full.
    stalled_closing,
    /// Time that callers waited for log space, or spent checkpointing to get it.
    stalled_log_space,
    /// Time that callers waited to change a block in log I/O, or on its way to its final location
    /// (`linux24`).
    stalled_log_io,
    /// Time that callers waited for a commit.
    stalled_commit,
    /// Time that closing transactions waited for open handles.
    waited_for_handles,
    /// Time that commits waited for other callers to join.
    waited_for_group,
    /// Time that transactions took from closing to durable.
    committing,
}

/// One running counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn add_time(&self, time: Nanos) {
        self.add(time.get());
    }

    pub(crate) fn raise_to(&self, least: u64) {
        self.0.fetch_max(least, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_subtract() {
        let counters = Counters::default();
        counters.commits.add(2);
        let before = counters.read(7);
        counters.commits.add(3);
        counters.committing.add_time(Nanos::from_micros(5));
        counters.group_size_max.raise_to(4);
        let between = counters.read(9) - before;
        assert_eq!((between.handles, between.commits), (2, 3));
        assert_eq!(between.committing, Nanos::from_micros(5));
        assert_eq!(between.group_size_max, 4);
    }
}
