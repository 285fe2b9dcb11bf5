//! [`PowerCut`]: a cut of the power while a workload runs, and what is measured after it.
//!
//! | `cut.measures` | after the cut |
//! |---|---|
//! | `nothing` | there is no cut |
//! | `recovery` | the volume is opened again, which replays its journal; then checked in full |
//! | `loss` | the volume is opened again, and compared with what the workload was told |
//!
//! The cut comes at a random instant, which is drawn from the seed of the trial's world before
//! anything else: repetition *i* is cut at the same instant in every combination.
//!
//! # What is left
//!
//! - Of a disk with a volatile write cache, what its arm has written. A request under way leaves
//!   nothing: it is lost as a whole.
//! - Of a disk without one, and of NVRAM, all that was acknowledged.
//! - Of the host, nothing. It starts again at once: the time of a machine to restart, and of its
//!   disks to spin up, is no part of a figure.

use rt::Nanos;
use workload::Headline;

/// A cut of the power while a workload runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerCut {
    /// The measurement after it.
    pub measure: Measure,
    /// Time from the start of the workload to the first instant at which it may come.
    pub after: Nanos,
    /// Time after that within which it comes.
    pub within: Nanos,
    /// Number of bytes per second that the workload may write meanwhile; zero for no limit.
    pub write_rate: u64,
    /// Interval at which everything is synced meanwhile; zero for never.
    pub sync_interval: Nanos,
    /// Number of files that are written and synced before.
    pub files: u32,
    /// Size of each of them in bytes.
    pub file_bytes: u64,
}

/// The measurement after a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The time to a usable volume.
    Recovery,
    /// Files and bytes that are lost.
    Loss,
}

impl PowerCut {
    /// The words of the key `cut.measures`.
    pub(crate) const WORDS: [&str; 3] = ["nothing", "recovery", "loss"];

    /// Draws the time from the start of the workload to the cut, from the random numbers of the
    /// calling task's world.
    pub(crate) fn draw(&self) -> Nanos {
        let wide = u128::from(rt::random_u64()) * u128::from(self.within.get());
        self.after + Nanos::new((wide >> 64) as u64)
    }
}

impl Measure {
    /// Returns the meaning of a word; `None` without a cut.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        match word {
            "recovery" => Some(Self::Recovery),
            "loss" => Some(Self::Loss),
            _ => None,
        }
    }

    /// Returns the figures that compare trials.
    #[must_use]
    pub fn headline(self) -> &'static Headline {
        match self {
            Self::Recovery => &Headline {
                primary: "usable",
                shown: &[
                    "usable",
                    "replay",
                    "check",
                    "replayed",
                    "files_found",
                    "checked_bytes",
                    "problems",
                ],
            },
            Self::Loss => &Headline {
                primary: "lost_bytes",
                shown: &[
                    "lost_bytes",
                    "lost_files",
                    "lost_of_1s",
                    "lost_of_5s",
                    "lost_of_30s",
                    "lost_age",
                    "torn_files",
                    "wrong_bytes",
                    "synced_lost_bytes",
                    "write_rate",
                ],
            },
        }
    }
}
