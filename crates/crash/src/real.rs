//! Exploration on threads of the operating system: their memory order and speed are in no simulated
//! world.
//!
//! A *round*: clients on threads of their own work in directories of their own on one volume with
//! the shortest log that the engine takes, on devices with volatile caches, in memory. At a random
//! instant all devices are cut at once; every request fails with `Gone` from then on and the
//! clients end. The contents of the caches are drawn several times; each image is recovered,
//! checked and compared with the model, as those of simulated worlds are. Cells take turns.
//!
//! # Knowledge of the model
//!
//! - Marks in the trace show the beginning and the return of an operation. A mark of a return comes
//!   after it, so its promise was made. An operation that failed has no such mark: it has no
//!   promise.
//! - Transactions are asked for before and after each operation, as in simulated worlds.
//! - The promise of a call that returned after the cut counts, too: all that it needs was durable
//!   before.
//! - Times are not compared: they are the machine's.
//!
//! A seed decides the operations that clients try, the time of the cut and the drawn contents, but
//! not the schedule of the threads. So a violation leaves everything in a folder: see `keep`.

mod gate;
mod judge;
mod keep;
mod lane;
mod round;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rt::split_mix::mix_pair;

use crate::device::Plant;
use crate::rule::Broken;
use crate::setting::Cell;

/// Settings of a session.
#[derive(Debug, Clone)]
pub struct Session {
    /// In which cells, in turn.
    pub cells: Vec<Cell>,
    /// Clients.
    pub lanes: u32,
    /// Decides what is left to chance, but for the threads.
    pub seed: u64,
    /// No round begins after so much time.
    pub after: Duration,
    /// One image in so many is given to e2fsck.
    pub e2fsck_one_in: u64,
    /// Folder for the files of a violation.
    pub folder: PathBuf,
    /// A faulty layer in front of each device, in tests.
    pub plant: Option<Plant>,
}

/// Counts of the work done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Rounds.
    pub rounds: u64,
    /// Operations that were done.
    pub ops: u64,
    /// Sync calls among them.
    pub syncs: u64,
    /// Images that were recovered, checked and compared; those of a round differ from each other.
    pub images: u64,
    /// Of those, images in which something is that no flush had covered.
    pub unsettled: u64,
    /// Images that e2fsck looked at.
    pub e2fsck: u64,
}

/// A violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The violation.
    pub broken: Broken,
    /// The round's number.
    pub round: u64,
    /// The folder with all of its files; or the reason that they could not be written.
    pub kept: Result<PathBuf, String>,
}

/// The outcome of a session.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Counts of the work done.
    pub tally: Tally,
    /// The first violation.
    pub violation: Option<Violation>,
    /// The duration.
    pub elapsed: Duration,
}

impl Session {
    /// Runs rounds until time is up or a rule is broken. `progress` is told what was done.
    pub fn run(&self, progress: &dyn Fn(&Tally, Duration)) -> Report {
        let start = Instant::now();
        let mut report = Report::default();
        while start.elapsed() < self.after {
            let round = report.tally.rounds;
            let cell = self.cells[(round % self.cells.len() as u64) as usize];
            let seed = mix_pair(self.seed, round);
            report.tally.rounds += 1;
            let result = round::run(cell, self.lanes, seed, self.plant);
            let result = result
                .and_then(|done| judge::judge(&done, seed, self.e2fsck_one_in, &mut report.tally));
            if let Err(evidence) = result {
                let kept = keep::keep(&evidence, &self.folder, round);
                report.violation = Some(Violation {
                    broken: evidence.broken.clone(),
                    round,
                    kept: kept.map_err(|error| error.to_string()),
                });
                break;
            }
            progress(&report.tally, start.elapsed());
        }
        report.elapsed = start.elapsed();
        report
    }
}
