//! [`Account`]: counts and instants of a run, and the figures derived from them.

use rt::{Nanos, WallTime};

use super::counts::Counts;
use super::options::Options;
use super::parameters::Parameters;
use crate::latency::Latencies;
use crate::meter::Meter;
use crate::metric::{Metric, Unit};
use crate::outcome::{Document, Outcome, Phase};

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// Counts and instants of a run.
pub(super) struct Account {
    pub(super) parameters: Parameters,
    pub(super) options: Options,
    pub(super) counts: Counts,
    pub(super) timing: Timing,
    /// True if a thread ran out of files before its transactions were done.
    pub(super) out_of_files: bool,
    pub(super) latencies: Option<Latencies>,
}

impl Account {
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

    /// Returns the outcome of the run.
    pub(super) fn outcome(self, documents: Vec<Document>) -> Outcome {
        let timing = &self.timing;
        let phase = |name, began, took| Phase { name, began, took };
        Outcome {
            phases: vec![
                phase("create", timing.started, timing.create()),
                phase("transactions", timing.created, timing.transactions()),
                phase("delete", timing.transacted, timing.delete()),
                phase("sync", timing.deleted, timing.final_sync()),
            ],
            metrics: self.metrics(),
            documents,
            latencies: self.latencies,
        }
    }

    /// Returns all figures. Byte rates are over the whole run, as in the original; a rate over no
    /// time is omitted.
    fn metrics(&self) -> Vec<Metric> {
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

/// The instants of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timing {
    /// The wall clock at the start.
    pub(super) wall: WallTime,
    /// The start of the first phase.
    pub(super) started: Nanos,
    /// The end of the first phase.
    pub(super) created: Nanos,
    /// The end of the transactions.
    pub(super) transacted: Nanos,
    /// The end of the deletions.
    pub(super) deleted: Nanos,
    /// The end of the last sync, if there was one.
    pub(super) ended: Nanos,
}

impl Timing {
    /// Returns the time of the first phase.
    pub(super) fn create(&self) -> Nanos {
        self.created.saturating_sub(self.started)
    }

    /// Returns the time of the transactions.
    pub(super) fn transactions(&self) -> Nanos {
        self.transacted.saturating_sub(self.created)
    }

    /// Returns the time of the last phase.
    pub(super) fn delete(&self) -> Nanos {
        self.deleted.saturating_sub(self.transacted)
    }

    /// Returns the time of the sync at the end.
    pub(super) fn final_sync(&self) -> Nanos {
        self.ended.saturating_sub(self.deleted)
    }

    /// Returns the time of the whole run.
    pub(super) fn elapsed(&self) -> Nanos {
        self.ended.saturating_sub(self.started)
    }

    /// Returns the time between two instants of this run by a clock of whole seconds; 0 is replaced
    /// by 1.
    pub(super) fn whole_seconds(&self, from: Nanos, to: Nanos) -> u64 {
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
