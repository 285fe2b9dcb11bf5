//! Mutants: rules of the engine that are broken on purpose, one at a time, to show that the explorer notices.
//!
//! They sleep in the engine's sources as `rt::mutant!("name")`. In a build with the feature `mutants`, a world whose
//! [`Setting`](crate::setting::Setting) names one breaks that rule: in the run, in each recovery, and in the recovery of
//! an interrupted recovery. A mutant is *hunted* with numbered workloads of a fixed seed until the oracle, the protocol or
//! the engine itself (a panic, a deadlock) says no. Then the same workload is explored with nothing broken: who complains
//! of that, too, has not caught a mutant. A test compares the table with what the sources name.

mod table;

use std::time::{Duration, Instant};

use crate::crowd;
use crate::explore::Limits;
use crate::generator::{Generator, Kind};
use crate::rule::Broken;
use crate::session::Volumes;
use crate::setting::{CELLS, Cell};

pub use table::{MUTANTS, NAMED};

/// The workloads that hunt a mutant, in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prey {
    /// Short workloads and stressing ones.
    Crash,
    /// Stressing ones.
    Stress,
    /// Those in which blocks are short and used again, files change their mode, and volumes are synchronous.
    Tight,
    /// Those on full volumes, where every freed block is used again at once.
    Reuse,
    /// Those that go around a short log, with checksums, some of them after a recovery.
    Laps,
    /// Those in which several clients race.
    Races,
    /// Those whose handles restart wherever they can.
    Restarts,
    /// Those beside a crowd that changes and lists names.
    Names,
    /// Those beside a crowd that lists directories while they change.
    Listings,
    /// Those beside a crowd that uses paths and numbers of files that come and go.
    Numbers,
    /// Those in which a device command fails.
    Faults,
    /// Those in which a write fails once beside a background writer.
    Passing,
    /// Those in which there is no room for writes.
    Full,
}

/// A rule of the engine that can be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mutant {
    /// What the sources call it.
    pub name: &'static str,
    /// The rule that it breaks.
    pub rule: &'static str,
    /// What it takes to see it.
    pub prey: Prey,
}

/// A rule of the engine whose breaking no crash shows. A test of its own breaks it in a simulated world, and notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// The name in the sources.
    pub name: &'static str,
    /// The rule that it breaks.
    pub rule: &'static str,
    /// The file of the test, below `crates`.
    pub test: &'static str,
}

/// How a mutant was caught.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catch {
    /// What is broken.
    pub broken: Broken,
    /// The generator.
    pub kind: Kind,
    /// The number of the workload, among those of its kind.
    pub number: u64,
    /// Its cell.
    pub cell: Cell,
    /// What the same workload showed with nothing broken.
    pub control: Control,
}

/// A workload, explored with nothing broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    /// Images that were recovered, checked and compared without a complaint.
    pub states: u64,
    /// A complaint about the engine as it is.
    pub broken: Option<Broken>,
}

/// What a hunt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunt {
    /// The catch, if there was one.
    pub catch: Option<Catch>,
    /// Images that were recovered, checked and compared without a complaint.
    pub states: u64,
    /// Workloads, the last one included.
    pub workloads: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// Whether this build can break rules.
pub const fn is_possible() -> bool {
    rt::mutant::IS_POSSIBLE
}

/// A mutant by its name.
pub fn named(name: &str) -> Option<&'static Mutant> {
    MUTANTS.iter().find(|mutant| mutant.name == name)
}

impl Prey {
    /// The generators.
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Crash => &[Kind::Exhaustive { length: 3 }, Kind::Stress],
            Self::Stress => &[Kind::Stress, Kind::Tight],
            Self::Tight => &[Kind::Tight],
            Self::Reuse => &[Kind::Reuse],
            Self::Laps => &[Kind::Laps],
            Self::Races => &[Kind::Races],
            Self::Restarts => &[Kind::Restarts],
            Self::Names => &[Kind::Crowd(crowd::Kind::Names)],
            Self::Listings => &[Kind::Crowd(crowd::Kind::Listings)],
            Self::Numbers => &[Kind::Crowd(crowd::Kind::Numbers)],
            Self::Passing => &[Kind::Passing],
            Self::Full => &[Kind::Full],
            Self::Faults => &[Kind::Faults],
        }
    }
}

impl Hunt {
    /// Whether the mutant was caught, and by nothing that the engine as it is does, too.
    pub fn is_caught(&self) -> bool {
        let mut catches = self.catch.iter();
        catches.any(|catch| catch.control.broken.is_none())
    }
}

/// Hunts a mutant until it is caught or so many states were seen.
pub fn hunt(mutant: &'static Mutant, seed: u64, states_max: u64) -> Hunt {
    let began = Instant::now();
    let generators = mutant.prey.kinds().iter();
    let generators = generators.map(|kind| (*kind, Generator::new(*kind, CELLS.to_vec(), seed)));
    let generators: Vec<(Kind, Generator)> = generators.collect();
    // Many workloads, and few images of each, show more than the other way round.
    let limits = Limits {
        singles: 8,
        pairs: 4,
        randoms: 2,
        parts_one_in: 4,
        nested_one_in: 16,
        use_one_in: 32,
        damage_one_in: 8,
        e2fsck_one_in: 0,
        silent_one_in: 0,
        ..Limits::new(seed)
    };
    let mut volumes = Volumes::default();
    let mut hunt = Hunt {
        catch: None,
        states: 0,
        workloads: 0,
        elapsed: Duration::ZERO,
    };
    while hunt.catch.is_none() && hunt.states < states_max {
        let (kind, generator) = &generators[hunt.workloads as usize % generators.len()];
        let number = hunt.workloads / generators.len() as u64;
        let (cell, mut workload) = generator.workload(number);
        workload.setting.mutant = Some(mutant.name);
        let (tally, found) = volumes.try_all(*kind, &workload, limits);
        hunt.states += tally.recovered;
        hunt.workloads += 1;
        hunt.catch = found.map(|(mut workload, found)| {
            workload.setting.mutant = None;
            // What the others keep was made by an engine with a broken rule.
            let (tally, complaint) = Volumes::default().explore(&workload, limits);
            Catch {
                broken: found.broken,
                kind: *kind,
                number,
                cell: CELLS[cell],
                control: Control {
                    states: tally.recovered,
                    broken: complaint.map(|found| found.broken),
                },
            }
        });
    }
    hunt.elapsed = began.elapsed();
    hunt
}
