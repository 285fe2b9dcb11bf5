//! Tasks beside the lanes of a workload, in a directory of their own: calls that race with each other and with those of the lanes.
//!
//! The states of a lane follow from its operations alone. What several tasks do in the same directories does not, so no model has the
//! names in [`DIRECTORY`]: after a crash they are read and checked, but not compared. What is known about the calls is compared when they return.
//!
//! | crowd | what its tasks do | rule |
//! |---|---|---|
//! | [`Kind::Names`] | renames of all modes, links, listings with states, among few names of files and directories | C1 |
//! | [`Kind::Listings`] | listings in small steps, beside tasks that create, rename and remove names | C2 |
//! | [`Kind::Numbers`] | calls by path and by number, beside tasks that remove and make files; an inode number that is freed is allocated next | C3 |
//!
//! In text: `names.17.12`, the crowd's kind, its seed and the rounds of each task.

mod listings;
mod names;
mod numbers;

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use block::random::{SplitMix, mix_pair};
use ext::volume::NewInode;
use ext::{Error, Volume};
use layout::InodeNr;

use crate::rule::{Broken, Rule, RuleCounts};
use crate::run::{RunError, wait_for};

/// The name of the crowd's directory in the root.
pub const DIRECTORY: &[u8] = b"crowd";
/// Calls of a task in each round.
const CALLS: usize = 6;

/// What a crowd does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It changes and lists names.
    Names,
    /// It lists directories that change.
    Listings,
    /// It uses paths and numbers of files that come and go.
    Numbers,
}

/// A crowd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crowd {
    /// What it does.
    pub kind: Kind,
    /// Decides the calls of each task.
    pub seed: u64,
    /// The number of rounds of each task. One starts every second, as the operations of lanes do.
    pub rounds: u32,
}

const KINDS: [(Kind, &str); 3] = [
    (Kind::Names, "names"),
    (Kind::Listings, "listings"),
    (Kind::Numbers, "numbers"),
];

impl fmt::Display for Crowd {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KINDS.iter().find(|(kind, _)| *kind == self.kind);
        let name = name.map_or("", |(_, name)| name);
        write!(out, "{name}.{}.{}", self.seed, self.rounds)
    }
}

/// A text is not a crowd.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a crowd: they look like names.17.12")]
pub struct CrowdError(String);

impl FromStr for Crowd {
    type Err = CrowdError;

    fn from_str(text: &str) -> Result<Self, CrowdError> {
        let parse = || {
            let mut parts = text.split('.');
            let name = parts.next()?;
            let (kind, _) = KINDS.iter().find(|(_, known)| *known == name)?;
            let (seed, rounds) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            parts.next().is_none().then_some(Self {
                kind: *kind,
                seed,
                rounds,
            })
        };
        parse().ok_or_else(|| CrowdError(text.to_owned()))
    }
}

/// Why a task of a crowd stops.
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
    /// Makes a call, or a few that belong together.
    fn call(&mut self, volume: &Volume, random: &mut SplitMix, counts: &mut RuleCounts) -> Step;

    /// Ends what is not finished.
    fn finish(&mut self, _: &Volume, _: &mut RuleCounts) -> Step {
        Ok(())
    }
}

/// The tasks of a crowd that runs.
pub(crate) struct Running(Vec<rt::JoinHandle<Result<RuleCounts, RunError>>>);

/// Makes the directory of a crowd and starts its tasks, on a volume whose operation `begin` comes next in a world that began at a time.
pub(crate) fn start(
    volume: &Arc<Volume>,
    crowd: Crowd,
    begin: usize,
    epoch: i64,
) -> Result<Running, RunError> {
    let made = volume.make_directory(InodeNr::ROOT, DIRECTORY, &NewInode::default());
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
    /// Waits for all tasks. Returns how often each rule was exercised.
    pub(crate) fn join(self) -> Result<RuleCounts, RunError> {
        let join = |handle: rt::JoinHandle<Result<RuleCounts, RunError>>| {
            handle
                .join()
                .map_err(|panic| RunError::World(panic.message))
                .flatten()
        };
        // All of them have to end before the volume is closed, whatever one of them says.
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

/// A call that went well, or was refused for what others have done meanwhile, or for want of space. True if it went well.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for text in [
            "names.17.12",
            "listings.0.1",
            "numbers.18446744073709551615.3",
        ] {
            let crowd: Crowd = text.parse().expect("a crowd");
            assert_eq!(crowd.to_string(), text);
        }
        for text in ["", "names", "names.1", "others.1.2", "names.1.2.3"] {
            assert!(text.parse::<Crowd>().is_err(), "{text}");
        }
    }
}
