//! [`Comparison`]: the figures of a replay beside those of its recording.

use std::collections::BTreeMap;

use block::Request;
use layout::SectorNr;
use rt::Nanos;
use serde::Serialize;

/// The figures of a replay and of its recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Time of the last event of the recording in nanoseconds.
    pub recorded_ns: u64,
    /// Time of the last event of the replay in nanoseconds.
    pub replayed_ns: u64,
    /// The devices.
    pub devices: Vec<DeviceComparison>,
}

/// The figures of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceComparison {
    /// Name of the recorded device.
    pub recorded: String,
    /// The device of the replay.
    pub replayed: String,
    /// The figures by kind of request: `read`, `write`, `flush`, `discard`.
    pub requests: BTreeMap<&'static str, RequestComparison>,
}

/// The figures of a kind of request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RequestComparison {
    /// Number of requests.
    pub count: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Latencies in the recording.
    pub recorded: Latency,
    /// Latencies in the replay.
    pub replayed: Latency,
}

/// Latencies, in nanoseconds. That of a request is that of its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Latency {
    /// The mean.
    pub mean_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// The requests of a device so far.
#[derive(Default)]
pub(super) struct Tally(BTreeMap<&'static str, Kind>);

#[derive(Default)]
struct Kind {
    count: u64,
    bytes: u64,
    recorded: Vec<u64>,
    replayed: Vec<u64>,
}

impl Tally {
    pub(super) fn add(&mut self, request: &Request, recorded: Option<Nanos>, replayed: Nanos) {
        let kind = self.0.entry(request.operation()).or_default();
        let (_, sectors) = request.range();
        kind.count += 1;
        kind.bytes += sectors * SectorNr::SIZE;
        kind.recorded.extend(recorded.map(Nanos::get));
        kind.replayed.push(replayed.get());
    }

    pub(super) fn compare(self, recorded: &str, replayed: &str) -> DeviceComparison {
        let kinds = self.0.into_iter();
        let kinds = kinds.map(|(name, kind)| {
            let figures = RequestComparison {
                count: kind.count,
                bytes: kind.bytes,
                recorded: Latency::of(kind.recorded),
                replayed: Latency::of(kind.replayed),
            };
            (name, figures)
        });
        DeviceComparison {
            recorded: recorded.to_owned(),
            replayed: replayed.to_owned(),
            requests: kinds.collect(),
        }
    }
}

impl Latency {
    /// Returns the figures of a number of latencies.
    fn of(mut all: Vec<u64>) -> Self {
        all.sort_unstable();
        let Some(max) = all.last() else {
            return Self::default();
        };
        let sum: u128 = all.iter().map(|latency| u128::from(*latency)).sum();
        // The nearest rank.
        let rank = (all.len() * 99).div_ceil(100);
        Self {
            mean_ns: (sum / all.len() as u128) as u64,
            p99_ns: all[rank - 1],
            max_ns: *max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_summed_up() {
        assert_eq!(Latency::of(Vec::new()), Latency::default());
        let found = Latency::of((1..=200).rev().collect());
        let expected = Latency {
            mean_ns: 100,
            p99_ns: 198,
            max_ns: 200,
        };
        assert_eq!(found, expected);
        assert_eq!(Latency::of(vec![7]).p99_ns, 7);
    }
}
