//! Exploration on threads of the operating system, whose memory order and speed no simulated world
//! has.
//!
//! In a *round*, clients on separate threads work in separate directories on one volume with the
//! shortest log that the engine accepts, on devices with volatile caches, in memory. At a random
//! instant all devices are cut at once; every request fails with `Gone` from then on and the
//! clients end. Possible contents of the caches are drawn several times; each image is recovered,
//! checked and compared with the model, like those of simulated worlds. Cells take turns.
//! checked and compared with the model, as those of simulated worlds are. Cells take turns.
//!
//! # Knowledge of the model
//!
//! - Marks in the trace show the beginning and the return of an operation. A mark of a return comes
//!   after it, so its promise was made. An operation that failed has no such mark: it has no
//!   promise.
//! - The numbers of transactions are queried before and after each operation, as in simulated
//!   worlds.
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
    /// Cells, in turn.
    pub cells: Vec<Cell>,
    /// Number of clients.
    pub lanes: u32,
    /// Seed of all random choices, except for those of the threads.
    pub seed: u64,
    /// Time after which no round starts.
    pub after: Duration,
    /// One image in this number is given to e2fsck.
    pub e2fsck_one_in: u64,
    /// Folder for the files of a violation.
    pub folder: PathBuf,
    /// A faulty layer in front of each device, in tests.
    pub plant: Option<Plant>,
}

/// Counts of the work done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of rounds.
    pub rounds: u64,
    /// Number of completed operations.
    pub ops: u64,
    /// Number of sync calls among them.
    pub syncs: u64,
    /// Number of images recovered, checked and compared; those of a round differ from each other.
    pub images: u64,
    /// Number of those images with something that no flush had covered.
    pub unsettled: u64,
    /// Number of images checked by e2fsck.
    pub e2fsck: u64,
}

/// A violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The broken rule.
    pub broken: Broken,
    /// The round's number.
    pub round: u64,
    /// The folder with all of its files, or the reason why they could not be written.
    pub kept: Result<PathBuf, String>,
}

/// The outcome of a session.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Counts of the work done.
    pub tally: Tally,
    /// The first violation.
    pub violation: Option<Violation>,
    /// Duration of the session.
    pub elapsed: Duration,
}

impl Session {
    /// Runs rounds until time is up or a rule is broken. `progress` is called with the counts so
    /// far.
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
