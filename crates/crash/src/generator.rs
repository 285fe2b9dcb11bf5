//! Workloads by number: all short ones, or long random ones, each kind with a different emphasis.

pub mod crowds;
pub mod exhaustive;
pub mod faults;
pub mod full;
pub mod laps;
pub mod passing;
pub mod races;
pub mod restarts;
pub mod reuse;
pub mod scattered;
pub mod stress;
pub mod tight;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rt::split_mix::mix_pair;

use crate::crowd;
use crate::mode::{DataMode, OrderedScope};
use crate::setting::{Cell, Setting};
use crate::workload::Workload;

pub use exhaustive::Orbits;

/// A kind of workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// All sequences of a number of operations, one of each orbit.
    Exhaustive {
        /// Number of operations.
        length: usize,
    },
    /// Random sequences.
    Stress,
    /// Random sequences in which blocks are scarce and reused, on volumes with all kinds of
    /// synchronous mounts.
    Tight,
    /// Random sequences on a volume of which every free block was in use before.
    Reuse,
    /// Random sequences that wrap around the log several times.
    Laps,
    /// Random sequences of several clients that sync while others change things.
    Races,
    /// Random sequences on large files, whose handles restart wherever they can.
    Restarts,
    /// Random sequences on files in many pieces, whose block maps are trees about to overflow.
    Scattered,
    /// Random sequences beside a crowd: tasks whose calls race with each other and with those of
    /// the clients.
    Crowd(crowd::Kind),
    /// Short and random sequences with failing device commands, some chosen at random.
    Faults,
    /// Random sequences beside a background writer; one write of the file-system device fails,
    /// once.
    Passing,
    /// Random sequences on devices that refuse first writes for lack of room, for a while or
    /// permanently.
    Full,
    /// All sequences of a number of operations, with each device command failing.
    EachFault {
        /// Number of operations.
        length: usize,
    },
}

/// The faults of a workload to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Each command, in each way.
    All,
    /// A random sample of this size.
    Some(usize),
    /// A random sample of this size, of faults in which a write of the file-system device fails
    /// once.
    Passing(usize),
    /// A random sample of this size, of moments from which a device refuses writes for lack of
    /// room.
    Full(usize),
}

/// The form in tables and reports of sessions.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exhaustive { length } => return write!(f, "exhaustive, length {length}"),
            Self::EachFault { length } => return write!(f, "each fault, length {length}"),
            Self::Stress => "stress",
            Self::Tight => "tight",
            Self::Reuse => "reuse",
            Self::Laps => "laps",
            Self::Races => "races",
            Self::Restarts => "restarts",
            Self::Scattered => "scattered",
            Self::Crowd(crowd::Kind::Names) => "names",
            Self::Crowd(crowd::Kind::Listings) => "listings",
            Self::Crowd(crowd::Kind::Numbers) => "numbers",
            Self::Faults => "faults",
            Self::Passing => "passing",
            Self::Full => "full",
        })
    }
}

impl Kind {
    /// Returns the failing device commands.
    pub fn faults(self) -> Option<Share> {
        match self {
            Self::Faults => Some(Share::Some(FAULTS)),
            Self::Passing => Some(Share::Passing(FAULTS)),
            Self::Full => Some(Share::Full(FAULTS)),
            Self::EachFault { .. } => Some(Share::All),
            _ => None,
        }
    }
}

/// One random workload in this number of ordered mode runs with `ordered=allocated`.
const ALLOCATED_ONE_IN: u64 = 4;
/// Of random worlds on ext4, one in this number allocates blocks when data is written.
const AT_ONCE_ONE_IN: u64 = 3;
/// Number of short sequences in a family: those of some orbits, most of which begin with the same
/// operation.
const FAMILY: u64 = 64;
/// Number of faults of a random sequence to try.
const FAULTS: usize = 12;

/// Numbered workloads.
///
/// Consecutive numbers are a round: one workload in each cell. In a single cell, consecutive short
/// sequences are a family: they leave many equal images, and are explored together. All other
/// rounds are families of their own. A shard has every so many families, and renumbers its
/// workloads from 0.
pub struct Generator {
    kind: Kind,
    cells: Vec<Cell>,
    seed: u64,
    orbits: Arc<Orbits>,
    // Invariant: the first family of the shard, and the number of shards; first < count.
    shard: (u64, u64),
}

/// Returns the orbits of a length. They are computed once in a process, since those of length 3
/// take seconds.
fn shared_orbits(length: usize) -> Arc<Orbits> {
    static FOUND: Mutex<BTreeMap<usize, Arc<Orbits>>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let orbits = found
        .entry(length)
        .or_insert_with(|| Arc::new(Orbits::new(length)));
    Arc::clone(orbits)
}

impl Generator {
    /// Creates the workloads of a kind in these cells.
    pub fn new(kind: Kind, cells: Vec<Cell>, seed: u64) -> Self {
        let orbits = match kind {
            Kind::Exhaustive { length } | Kind::EachFault { length } => shared_orbits(length),
            Kind::Faults => shared_orbits(exhaustive::COMPLETE_MAX),
            _ => Arc::default(),
        };
        Self {
            kind,
            cells,
            seed,
            orbits,
            shard: (0, 1),
        }
    }

    /// Leaves the workloads of shard `number`, from 1, of `count` shards. Every workload is in
    /// exactly one of them.
    ///
    /// # Panics
    /// Panics if `number` is not in 1 to `count`.
    #[must_use]
    pub fn shard(mut self, number: u32, count: u32) -> Self {
        assert!((1..=count).contains(&number), "shard {number} of {count}");
        self.shard = (u64::from(number - 1), u64::from(count));
        self
    }

    /// Returns the number of workloads; none if it is unlimited.
    pub fn count(&self) -> Option<u64> {
        let rounds = self.rounds()?;
        let (first, count) = self.shard;
        let families = rounds.div_ceil(self.family());
        let own = families.saturating_sub(first).div_ceil(count);
        let has_last = own > 0 && (families - 1) % count == first;
        let missing = families * self.family() - rounds;
        let own_rounds = own * self.family() - if has_last { missing } else { 0 };
        Some(own_rounds * self.cells.len() as u64)
    }

    /// Returns the number of rounds of all shards; none if it is unlimited.
    fn rounds(&self) -> Option<u64> {
        match self.kind {
            Kind::Exhaustive { length } | Kind::EachFault { length }
                if length <= exhaustive::COMPLETE_MAX =>
            {
                Some(self.orbits.workload_count())
            }
            _ => None,
        }
    }

    /// Returns the number of rounds in a family.
    fn family(&self) -> u64 {
        match self.kind {
            Kind::Exhaustive { .. } if self.cells.len() == 1 && self.rounds().is_some() => FAMILY,
            _ => 1,
        }
    }

    /// Returns true if workloads come as families.
    pub(crate) fn has_families(&self) -> bool {
        self.family() > 1
    }

    /// Returns the number of workloads of the shard's families, but for the last one, which may
    /// have fewer.
    pub(crate) fn workloads_of_family(&self) -> u64 {
        self.family() * self.cells.len() as u64
    }

    /// Returns the kind of workloads.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the cells.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Returns the orbits of the exhaustive generator.
    pub fn orbits(&self) -> &Orbits {
        &self.orbits
    }

    /// Returns a workload by its number in the shard, and its cell's index among the cells.
    pub fn workload(&self, number: u64) -> (usize, Workload) {
        let (round, cell) = self.place(number);
        let mut workload = self.any_workload(round, cell);
        workload.setting = workload.setting.fitting();
        (cell, workload)
    }

    /// Returns the round of a workload of the shard, and its cell.
    fn place(&self, number: u64) -> (u64, usize) {
        let cells = self.cells.len() as u64;
        let (own_round, cell) = (number / cells, number % cells);
        let (family, within) = (own_round / self.family(), own_round % self.family());
        let (first, count) = self.shard;
        let round = (family * count + first) * self.family() + within;
        (round, cell as usize)
    }

    fn any_workload(&self, round: u64, cell: usize) -> Workload {
        let cells = self.cells.len() as u64;
        let number = round * cells + cell as u64;
        // Each cell has different random workloads: equal ones would reduce the coverage.
        let seed = mix_pair(self.seed, number);
        let mut workload = match self.kind {
            Kind::Exhaustive { length } | Kind::EachFault { length }
                if length <= exhaustive::COMPLETE_MAX =>
            {
                self.orbits.workload(round, Setting::new(self.cells[cell]))
            }
            Kind::Exhaustive { .. } | Kind::EachFault { .. } => {
                let setting = Setting::new(self.cells[cell]);
                self.orbits
                    .workload(seed % self.orbits.workload_count(), setting)
            }
            Kind::Stress => stress::workload(self.cells[cell], seed),
            Kind::Tight => tight::workload(self.cells[cell], seed),
            Kind::Reuse => reuse::workload(self.cells[cell], seed),
            Kind::Laps => laps::workload(self.cells[cell], seed),
            Kind::Races => races::workload(self.cells[cell], seed),
            Kind::Restarts => restarts::workload(self.cells[cell], seed),
            Kind::Scattered => scattered::workload(self.cells[cell], seed),
            Kind::Crowd(kind) => crowds::workload(self.cells[cell], seed, kind),
            Kind::Passing => passing::workload(self.cells[cell], seed),
            Kind::Full => full::workload(self.cells[cell], seed),
            Kind::Faults => faults::workload(self.cells[cell], &self.orbits, seed),
        };
        let is_random = self.rounds().is_none();
        let is_chosen = mix_pair(seed, ALLOCATED_ONE_IN).is_multiple_of(ALLOCATED_ONE_IN);
        if is_random && is_chosen && self.cells[cell].data == DataMode::Ordered {
            workload.setting.ordered = OrderedScope::Allocated;
        }
        let is_at_once = mix_pair(seed, AT_ONCE_ONE_IN).is_multiple_of(AT_ONCE_ONE_IN);
        if is_random && is_at_once {
            workload.setting.is_delayed = false;
        }
        workload
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::{CELLS, NO_JOURNAL};

    const SEED: u64 = 5;

    /// The workloads of all shards are those of the whole generator, each once.
    fn check(kind: Kind, cells: &[Cell], shards: u32, wanted: Option<u64>) {
        let generator = |kind| Generator::new(kind, cells.to_vec(), SEED);
        let whole = generator(kind);
        let count = whole.count().or(wanted).expect("a count");
        let mut expected: Vec<_> = (0..count).map(|number| whole.place(number)).collect();
        let mut places = Vec::new();
        for number in 1..=shards {
            let shard = generator(kind).shard(number, shards);
            let own = match shard.count() {
                Some(count) => count,
                None => (0..)
                    .take_while(|own| expected.contains(&shard.place(*own)))
                    .count() as u64,
            };
            for own in 0..own {
                places.push(shard.place(own));
                if own.is_multiple_of(97) {
                    let (cell, workload) = shard.workload(own);
                    let (round, _) = shard.place(own);
                    let mut same = whole.any_workload(round, cell);
                    same.setting = same.setting.fitting();
                    assert_eq!(workload, same, "{kind}, {own}");
                }
            }
        }
        expected.sort_unstable();
        places.sort_unstable();
        assert_eq!(places, expected, "{kind}, {shards} shards");
    }

    #[test]
    fn every_workload_is_in_one_shard() {
        let all: Vec<Cell> = CELLS.into_iter().chain([NO_JOURNAL]).collect();
        for shards in [1, 2, 7, 8, 1000] {
            for cells in [&all[..], &all[..1]] {
                check(Kind::Exhaustive { length: 1 }, cells, shards, None);
                check(Kind::EachFault { length: 1 }, cells, shards, None);
                for kind in [Kind::Exhaustive { length: 3 }, Kind::Stress, Kind::Tight] {
                    check(kind, cells, shards, Some(700));
                }
            }
        }
        check(Kind::Exhaustive { length: 2 }, &all[..1], 7, None);
    }
}
