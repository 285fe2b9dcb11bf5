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
            /// The most callers that one commit has served.
            pub group_size_max: u64,
            /// The usual time of a commit, from closing to durable: what a lone caller may wait for
            /// others.
            pub commit_average: Nanos,
        }

        /// Running counters. They order nothing, so they are no scheduling points.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)+
            $(pub(crate) $time: Counter,)+
            pub(crate) group_size_max: Counter,
            pub(crate) commit_average: Counter,
        }

        impl Counters {
            /// Returns the counts so far.
            pub(crate) fn read(&self) -> Stats {
                Stats {
                    $($name: self.$name.get(),)+
                    $($time: Nanos::new(self.$time.get()),)+
                    group_size_max: self.group_size_max.get(),
                    commit_average: Nanos::new(self.commit_average.get()),
                }
            }
        }

        impl Sub for Stats {
            type Output = Self;

            /// Returns the counts since an earlier reading. The two maxima and averages are the
            /// later ones.
            fn sub(self, earlier: Self) -> Self {
                Self {
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
    /// Handles started.
    handles,
    /// Transactions committed.
    commits,
    /// Callers that waited for a commit.
    sync_callers,
    /// Block images written to the log.
    logged_blocks,
    /// Of them, escaped because they began with the journal's magic number.
    escaped_blocks,
    /// Descriptor blocks written to the log.
    descriptor_blocks,
    /// Revoke blocks written to the log.
    revoke_blocks,
    /// Revoke records in them.
    revoke_records,
    /// Commit blocks written to the log.
    commit_blocks,
    /// Requests in which all of these were written.
    log_requests,
    /// Blocks written home.
    checkpoint_blocks,
    /// Requests in which they were written.
    checkpoint_requests,
    /// Blocks that were not written home because a later transaction logged them again.
    superseded_blocks,
    /// Blocks that were not written home because they had been freed.
    cancelled_blocks,
    /// Times that the log's tail was moved on the device.
    tail_moves,
    /// Flushes of the log's device, those before commit records included.
    log_flushes,
    /// Flushes of the home device where it is another one.
    home_flushes;
    times
    /// Time that callers waited because the transaction was closing or full.
    stalled_closing,
    /// Time that callers waited for log space, or spent checkpointing to get it.
    stalled_log_space,
    /// Time that callers waited to change a block in log I/O (`linux24`).
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
        let before = counters.read();
        counters.commits.add(3);
        counters.committing.add_time(Nanos::from_micros(5));
        counters.group_size_max.raise_to(4);
        let between = counters.read() - before;
        assert_eq!(between.commits, 3);
        assert_eq!(between.committing, Nanos::from_micros(5));
        assert_eq!(between.group_size_max, 4);
    }
}
