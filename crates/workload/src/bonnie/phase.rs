//! The phases of Bonnie++ and their results.

use rt::Nanos;

use super::Parameters;
use crate::client::Client;
use crate::latency::Latencies;
use crate::outcome::Outcome;
use crate::run::Run;
use crate::run_error::RunError;

/// Limit below which the original prints no rate for a phase.
const SHORT: Nanos = Nanos::from_millis(500);

/// A phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    WriteBytes,
    WriteBlocks,
    Rewrite,
    ReadBytes,
    ReadBlocks,
    Seeks,
    CreateInOrder,
    StatInOrder,
    DeleteInOrder,
    CreateRandom,
    StatRandom,
    DeleteRandom,
}

/// All phases in the order of the reports: name, and figure.
pub(super) const KINDS: [(Kind, &str, &str); 12] = [
    (Kind::WriteBytes, "per-byte write", "byte_write_rate"),
    (Kind::WriteBlocks, "block write", "write_rate"),
    (Kind::Rewrite, "rewrite", "rewrite_rate"),
    (Kind::ReadBytes, "per-byte read", "byte_read_rate"),
    (Kind::ReadBlocks, "block read", "read_rate"),
    (Kind::Seeks, "seeks", "seek_rate"),
    (Kind::CreateInOrder, "sequential create", "create_rate"),
    (Kind::StatInOrder, "sequential stat", "stat_rate"),
    (Kind::DeleteInOrder, "sequential delete", "delete_rate"),
    (Kind::CreateRandom, "random create", "random_create_rate"),
    (Kind::StatRandom, "random stat", "random_stat_rate"),
    (Kind::DeleteRandom, "random delete", "random_delete_rate"),
];

/// Result of a phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    /// Bytes, seeks or files.
    pub(super) amount: u64,
    pub(super) span: Nanos,
    /// The longest single operation, if latencies were measured.
    pub(super) longest: Option<Nanos>,
}

impl Found {
    /// Returns bytes, seeks or files per second, or none if the phase took no time.
    pub(super) fn rate(&self) -> Option<f64> {
        let rate = self.amount as f64 / self.span.as_secs_f64();
        rate.is_finite().then_some(rate)
    }
}

/// Results of all phases, by [`Kind`].
#[derive(Debug)]
pub(super) struct Results {
    found: [Option<Found>; KINDS.len()],
    written: u64,
}

impl Results {
    pub(super) fn new(parameters: &Parameters) -> Self {
        Self {
            found: [None; KINDS.len()],
            written: parameters.size,
        }
    }

    pub(super) fn get(&self, kind: Kind) -> Option<&Found> {
        self.found[kind as usize].as_ref()
    }

    /// Runs a phase with its own client.
    pub(super) fn phase(
        &mut self,
        run: &mut Run,
        kind: Kind,
        amount: u64,
        work: impl FnOnce(&mut Client) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let mut client = run.client(kind as u64);
        run.phase(name_of(kind), || work(&mut client))?;
        self.ended(run, kind, amount, client.meter.take_latencies());
        Ok(())
    }

    /// Records the result of a phase.
    pub(super) fn ended(
        &mut self,
        run: &mut Run,
        kind: Kind,
        amount: u64,
        latencies: Option<Latencies>,
    ) {
        let summaries = latencies.iter().flat_map(Latencies::summaries);
        self.found[kind as usize] = Some(Found {
            amount,
            span: run.took(name_of(kind)),
            longest: summaries.map(|(_, summary)| summary.max).max(),
        });
        run.absorb_latencies(latencies);
        run.stage().advance(1);
    }

    pub(super) fn figures(&self, outcome: &mut Outcome) {
        for (kind, _, figure) in KINDS {
            if let Some(rate) = self.get(kind).and_then(Found::rate) {
                outcome.figure(figure, rate);
            }
        }
        let short = self.found.iter().flatten();
        let short = short.filter(|found| found.span < SHORT).count();
        outcome.count("short_phases", short as u64);
        outcome.count("bytes_written", self.written);
    }
}

pub(super) fn name_of(kind: Kind) -> &'static str {
    KINDS[kind as usize].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_stand_where_their_numbers_say() {
        for (at, (kind, _, _)) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, at);
        }
    }
}
