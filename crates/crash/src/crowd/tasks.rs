//! The tasks of a crowd: how they start, and how they end.

mod listings;
mod names;
mod numbers;

use std::sync::Arc;

use ext::volume::NewInode;
use ext::{Error, Volume};
use layout::InodeNr;
use rt::split_mix::{SplitMix, mix_pair};

use super::{Crowd, Kind};
use crate::observe::CROWD;
use crate::rule::{Broken, Rule, RuleCounts};
use crate::run_error::RunError;
use crate::timetable::wait_for;

/// Number of calls of a task in each round.
const CALLS: usize = 6;

/// Reasons why a task of a crowd stops.
enum Stop {
    Broken(Broken),
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Broken> for Stop {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

type Step = Result<(), Stop>;

/// One of the tasks.
trait Task: Send {
    /// Makes a call, or a few related ones.
    fn call(&mut self, volume: &Volume, random: &mut SplitMix, counts: &mut RuleCounts) -> Step;

    /// Completes unfinished work.
    fn finish(&mut self, _: &Volume, _: &mut RuleCounts) -> Step {
        Ok(())
    }
}

/// The tasks of a running crowd.
pub(crate) struct Running(Vec<rt::JoinHandle<Result<RuleCounts, RunError>>>);

/// Creates the directory of a crowd and starts its tasks. `begin` is the number of the next
/// operation; the world started at `epoch`.
pub(crate) fn start(
    volume: &Arc<Volume>,
    crowd: Crowd,
    begin: usize,
    epoch: i64,
) -> Result<Running, RunError> {
    let made = volume.make_directory(InodeNr::ROOT, CROWD, &NewInode::default());
    let directory = made.map_err(|error| failed(&error))?;
    let tasks = match crowd.kind {
        Kind::Names => names::tasks(volume, directory).map_err(|error| failed(&error))?,
        Kind::Listings => listings::tasks(volume, directory).map_err(|error| failed(&error))?,
        Kind::Numbers => numbers::tasks(),
    };
    let spawn = |(number, mut task): (u64, Box<dyn Task>)| {
        let volume = Arc::clone(volume);
        let mut random = SplitMix::new(mix_pair(crowd.seed, number));
        rt::spawn(&format!("crowd{number}"), move || {
            let mut counts = RuleCounts::default();
            for round in 0..crowd.rounds as usize {
                wait_for(begin + round, epoch);
                for _ in 0..CALLS {
                    task.call(&volume, &mut random, &mut counts)
                        .map_err(stopped)?;
                }
            }
            task.finish(&volume, &mut counts).map_err(stopped)?;
            counts.note(Rule::C1);
            Ok(counts)
        })
    };
    Ok(Running((0..).zip(tasks).map(spawn).collect()))
}

impl Running {
    /// Waits for all tasks. Returns the number of times that each rule was exercised.
    pub(crate) fn join(self) -> Result<RuleCounts, RunError> {
        let join = |handle: rt::JoinHandle<Result<RuleCounts, RunError>>| {
            handle
                .join()
                .map_err(|panic| RunError::World(panic.message))
                .flatten()
        };
        // All of them have to end before the volume is closed, even after an error.
        let ended: Vec<Result<RuleCounts, RunError>> = self.0.into_iter().map(join).collect();
        let mut total = RuleCounts::default();
        for counts in ended {
            total += &counts?;
        }
        Ok(total)
    }
}

fn failed(error: &Error) -> RunError {
    RunError::Operation {
        op: "a call of the crowd".to_owned(),
        error: error.to_string(),
    }
}

fn stopped(stop: Stop) -> RunError {
    match stop {
        Stop::Broken(broken) => RunError::Broken(broken),
        Stop::Failed(error) => failed(&error),
    }
}

/// Returns true if a call succeeded, false if it was refused because of other tasks' changes or
/// lack of space.
fn tolerate(called: Result<(), Error>) -> Result<bool, Error> {
    match called {
        Ok(()) => Ok(true),
        Err(
            Error::NotFound
            | Error::Exists
            | Error::NotEmpty
            | Error::IsDirectory
            | Error::NotDirectory
            | Error::Invalid(_)
            | Error::NoAttribute
            | Error::NotPermitted
            | Error::NoSpace
            | Error::NoInodes
            | Error::AttributeTooLarge
            | Error::DirectoryFull
            | Error::TooManySymlinks,
        ) => Ok(false),
        Err(error) => Err(error),
    }
}
