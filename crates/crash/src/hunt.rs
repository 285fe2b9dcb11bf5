//! Hunts: runs of workloads that show if a broken rule of the engine is detected
//! ([`crate::mutant`]).

use std::time::{Duration, Instant};

use crate::crowd;
use crate::explore::Limits;
use crate::generator::{Generator, Kind};
use crate::mode::Structures;
use crate::mutant::{Mutant, Prey};
use crate::rule::Broken;
use crate::setting::{
    CELLS, CELLS_ASYNC, CELLS_ASYNC_EXT4, CELLS_CLUSTERED, CELLS_EXT4, CELLS_FAST,
    CELLS_GROUP_CHECKSUMS, CELLS_INLINE, CELLS_MULTI_MOUNT, CELLS_QUOTA, Cell,
};
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
    /// The result of the same workload with the correct engine.
    pub control: Control,
}

/// A workload, explored with the correct engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    /// Number of images recovered, checked and compared without a violation.
    pub states: u64,
    /// The violation, if the correct engine has one.
    pub broken: Option<Broken>,
}

/// The result of a hunt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunt {
    /// The catch, if there was one.
    pub catch: Option<Catch>,
    /// Number of images recovered, checked and compared without a violation.
    pub states: u64,
    /// Number of workloads, the last one included.
    pub workloads: u64,
    /// Duration of the hunt.
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
            Self::Scattered => &[Kind::Scattered],
            Self::Names => &[Kind::Crowd(crowd::Kind::Names)],
            Self::Listings => &[Kind::Crowd(crowd::Kind::Listings)],
            Self::Numbers => &[Kind::Crowd(crowd::Kind::Numbers)],
            Self::Fast | Self::Async => {
                &[Kind::Exhaustive { length: 3 }, Kind::Stress, Kind::Tight]
            }
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
    let cells: &[Cell] = match mutant.structures {
        _ if mutant.prey == Prey::Fast => &CELLS_FAST,
        Structures::GroupChecksums if mutant.prey == Prey::Async => &CELLS_ASYNC_EXT4,
        _ if mutant.prey == Prey::Async => &CELLS_ASYNC,
        Structures::Ext3 => &CELLS,
        Structures::Ext4 => &CELLS_EXT4,
        Structures::Inline => &CELLS_INLINE,
        Structures::Quota => &CELLS_QUOTA,
        Structures::MultiMount => &CELLS_MULTI_MOUNT,
        Structures::Clustered => &CELLS_CLUSTERED,
        Structures::GroupChecksums => &CELLS_GROUP_CHECKSUMS,
    };
    let generators = generators.map(|kind| (*kind, Generator::new(*kind, cells.to_vec(), seed)));
    let generators: Vec<(Kind, Generator)> = generators.collect();
    // Many workloads with few images each detect more than the reverse.
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
            // The other cached volumes were made by an engine with a broken rule.
            let (tally, complaint) = Volumes::default().explore(&workload, limits);
            Catch {
                broken: found.broken,
                kind: *kind,
                number,
                cell: cells[cell],
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
