//! What a run found out.

use rt::{Nanos, WallTime};

use super::counts::Counts;
use super::options::Options;
use super::parameters::Parameters;
use crate::latency::Latencies;
use crate::meter::Meter;
use crate::metric::{Metric, Unit};
use crate::outcome::Phase;

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What was run.
    pub parameters: Parameters,
    /// How it was run.
    pub options: Options,
    /// What was done.
    pub counts: Counts,
    /// How long it took.
    pub timing: Timing,
    /// Whether the files ran out before the transactions were done, in any thread.
    pub out_of_files: bool,
    /// How long each kind of call took, by the labels of [`Call`](crate::Call), if it was asked for.
    pub latencies: Option<Latencies>,
}

impl Outcome {
    pub(super) fn new(parameters: &Parameters, options: &Options, timing: Timing) -> Self {
        Self {
            parameters: parameters.clone(),
            options: options.clone(),
            counts: Counts::default(),
            timing,
            out_of_files: false,
            latencies: None,
        }
    }

    pub(super) fn add(&mut self, counts: &Counts, out_of_files: bool, meter: Meter) {
        self.counts.add(counts);
        self.out_of_files |= out_of_files;
        self.add_latencies(meter);
    }

    pub(super) fn add_latencies(&mut self, meter: Meter) {
        match (&mut self.latencies, meter.into_latencies()) {
            (Some(all), Some(more)) => all.merge(&more),
            (empty @ None, more) => *empty = more,
            (Some(_), None) => {}
        }
    }

    /// All figures, byte rates over the whole run as in the original. A rate over no time at all is left out.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let (counts, timing) = (&self.counts, &self.timing);
        let seconds = |name, span: Nanos| {
            Some(Metric {
                name,
                value: span.as_secs_f64(),
                unit: Unit::Seconds,
            })
        };
        let count = |name, value: u64| {
            Some(Metric {
                name,
                value: value as f64,
                unit: Unit::Count,
            })
        };
        let bytes = |name, value: u64| {
            Some(Metric {
                name,
                value: value as f64,
                unit: Unit::Bytes,
            })
        };
        let rate = |name, value: u64, span: Nanos, unit| {
            let value = value as f64 / span.as_secs_f64();
            value.is_finite().then_some(Metric { name, value, unit })
        };
        let per_second = |name, value, span| rate(name, value, span, Unit::PerSecond);
        let byte_rate = |name, value| rate(name, value, timing.elapsed(), Unit::BytesPerSecond);
        let all = [
            seconds("elapsed", timing.elapsed()),
            seconds("create_time", timing.create()),
            seconds("transaction_time", timing.transactions()),
            seconds("delete_time", timing.delete()),
            seconds("final_sync_time", timing.final_sync()),
            per_second(
                "transaction_rate",
                counts.transactions,
                timing.transactions(),
            ),
            per_second("create_rate", counts.created, timing.elapsed()),
            per_second("create_alone_rate", counts.created_alone, timing.create()),
            per_second(
                "create_mixed_rate",
                counts.created_mixed(),
                timing.transactions(),
            ),
            per_second("read_files_rate", counts.read, timing.transactions()),
            per_second("append_files_rate", counts.appended, timing.transactions()),
            per_second("delete_rate", counts.deleted, timing.elapsed()),
            per_second("delete_alone_rate", counts.deleted_alone, timing.delete()),
            per_second(
                "delete_mixed_rate",
                counts.deleted_mixed(),
                timing.transactions(),
            ),
            byte_rate("read_rate", counts.bytes_read),
            byte_rate("write_rate", counts.bytes_written),
            bytes("bytes_read", counts.bytes_read),
            bytes("bytes_written", counts.bytes_written),
            count("transactions", counts.transactions),
            count("created", counts.created),
            count("read", counts.read),
            count("appended", counts.appended),
            count("appends_skipped", counts.appends_skipped),
            count("deleted", counts.deleted),
        ];
        all.into_iter().flatten().collect()
    }
}

impl From<Outcome> for crate::outcome::Outcome {
    fn from(outcome: Outcome) -> Self {
        let timing = &outcome.timing;
        let phase = |name, began, took| Phase { name, began, took };
        Self {
            phases: vec![
                phase("create", timing.started, timing.create()),
                phase("transactions", timing.created, timing.transactions()),
                phase("delete", timing.transacted, timing.delete()),
                phase("sync", timing.deleted, timing.final_sync()),
            ],
            metrics: outcome.metrics(),
            latencies: outcome.latencies,
            documents: Vec::new(),
        }
    }
}

/// The instants of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// The wall clock at the start.
    pub wall: WallTime,
    /// The start of the first phase.
    pub started: Nanos,
    /// Its end.
    pub created: Nanos,
    /// The end of the transactions.
    pub transacted: Nanos,
    /// The end of the deletions.
    pub deleted: Nanos,
    /// The end of the last sync, if there was one.
    pub ended: Nanos,
}

impl Timing {
    /// The time of the first phase.
    #[must_use]
    pub fn create(&self) -> Nanos {
        self.created.saturating_sub(self.started)
    }

    /// The time of the transactions.
    #[must_use]
    pub fn transactions(&self) -> Nanos {
        self.transacted.saturating_sub(self.created)
    }

    /// The time of the last phase.
    #[must_use]
    pub fn delete(&self) -> Nanos {
        self.deleted.saturating_sub(self.transacted)
    }

    /// The time of the sync at the end.
    #[must_use]
    pub fn final_sync(&self) -> Nanos {
        self.ended.saturating_sub(self.deleted)
    }

    /// The time of all together.
    #[must_use]
    pub fn elapsed(&self) -> Nanos {
        self.ended.saturating_sub(self.started)
    }

    /// What a clock of whole seconds says about the time between two instants of this run, 0 replaced by 1.
    #[must_use]
    pub fn whole_seconds(&self, from: Nanos, to: Nanos) -> u64 {
        let start = i128::from(self.wall.seconds) * NANOS_PER_SECOND + i128::from(self.wall.nanos);
        let read = |at: Nanos| {
            (start + i128::from(at.saturating_sub(self.started).get())).div_euclid(NANOS_PER_SECOND)
        };
        u64::try_from(read(to) - read(from)).unwrap_or(0).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_whole_seconds_counts_strokes() {
        let at = Nanos::from_millis;
        let timing = Timing {
            wall: WallTime {
                seconds: 100,
                nanos: 900_000_000,
            },
            started: at(5000),
            created: at(5050),
            transacted: at(5200),
            deleted: at(8150),
            ended: at(8150),
        };
        assert_eq!(
            timing.whole_seconds(timing.started, timing.created),
            1,
            "0 becomes 1"
        );
        assert_eq!(
            timing.whole_seconds(timing.created, timing.transacted),
            1,
            "one stroke"
        );
        assert_eq!(timing.whole_seconds(timing.transacted, timing.deleted), 3);
        assert_eq!(timing.elapsed(), at(3150));
    }
}
