//! Hunts: workloads that show whether a broken rule of the engine is noticed ([`crate::mutant`]).

use std::time::{Duration, Instant};

use crate::crowd;
use crate::explore::Limits;
use crate::generator::{Generator, Kind};
use crate::mutant::{Mutant, Prey};
use crate::rule::Broken;
use crate::setting::{CELLS, Cell};
use crate::sweep::try_all;
use crate::volumes::Volumes;

/// The violation by which a mutant was caught.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catch {
    /// The broken rule.
    pub broken: Broken,
    /// The generator.
    pub kind: Kind,
    /// The number of the workload, among those of its kind.
    pub number: u64,
    /// Its cell.
    pub cell: Cell,
    /// The result of the same workload with nothing broken.
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

/// The result of a hunt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunt {
    /// The catch, if there was one.
    pub catch: Option<Catch>,
    /// Images that were recovered, checked and compared without a complaint.
    pub states: u64,
    /// Workloads, the last one included.
    pub workloads: u64,
    /// Its duration.
    pub elapsed: Duration,
}

impl Prey {
    /// Returns the generators.
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
    /// True if the mutant was caught, and the engine without it passes.
    pub fn is_caught(&self) -> bool {
        let mut catches = self.catch.iter();
        catches.any(|catch| catch.control.broken.is_none())
    }
}

/// Hunts a mutant until it is caught or `states_max` states were explored.
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
        let (tally, found) = try_all(&mut volumes, *kind, &workload, limits);
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
