//! [`Warning`]: a flaw of an experiment that can be run nevertheless.

use std::fmt;

use block::DeviceText;
use block::text::Size;

use crate::file_system::JournalPlace;
use crate::plan::{Plan, Trial};
use crate::setup::Setup;

/// A reason to doubt the figures.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Warning {
    /// A factor changes the memory that remains for caching, so two things change at once.
    MemoryVaries {
        /// The block.
        block: String,
        /// The factor's key.
        factor: &'static str,
        /// The least remaining memory in bytes, and its level.
        least: (u64, String),
        /// The most remaining memory in bytes, and its level.
        most: (u64, String),
    },
    /// A journal is in the host's memory, but no memory is subtracted for it.
    FreeMemory {
        /// The block.
        block: String,
        /// The journal's level.
        level: String,
        /// The journal's bytes.
        journal: u64,
        /// The ballast's bytes.
        ballast: u64,
    },
    /// The file system and the journal are slices of one simulated device by name, but of two
    /// devices in fact.
    TwoDisks {
        /// The block.
        block: String,
        /// The journal's level.
        level: String,
        /// The device.
        disk: String,
    },
    /// The journal is on the disk of the file system.
    OneDisk {
        /// The trials' levels.
        levels: Vec<String>,
    },
    /// Trials were run once, so that their spread is unknown.
    NotRepeated,
    /// A journal committed nothing while the workload ran, so that the trial measures memory.
    NoCommit {
        /// The levels of which this is true.
        levels: Vec<String>,
    },
    /// The workload read nothing from the device.
    AllInCache {
        /// The levels of which this is true.
        levels: Vec<String>,
    },
    /// Records come from several builds of the program.
    SeveralPrograms {
        /// Their number.
        count: usize,
    },
    /// Real trials were run on several machines.
    SeveralMachines {
        /// Their number.
        count: usize,
    },
    /// An interval is wider than the plan's precision, although trials were repeated the maximum
    /// number of times.
    Imprecise {
        /// The level of the trials.
        level: String,
        /// The figure.
        figure: &'static str,
        /// Half of the interval over the mean.
        half: f64,
        /// Number of trials.
        count: usize,
    },
    /// Real trials became slower or faster over time, independent of their level.
    Drift {
        /// Kendall's tau of the slowness over time, each value relative to its level's mean.
        tau: f64,
        /// Its p-value.
        p: f64,
    },
    /// Some repetitions of a real trial differ widely from the others.
    Outliers {
        /// The level of the trials.
        level: String,
        /// The repetitions, from 0.
        repetitions: Vec<u32>,
    },
    /// The first repetitions of a real trial differ from the later ones.
    WarmingUp {
        /// The level of the trials.
        level: String,
        /// Their number.
        count: usize,
    },
}

impl Warning {
    /// Returns the flaws of a plan, before it is run.
    #[must_use]
    pub fn of(plan: &Plan) -> Vec<Self> {
        let setups: Vec<(Trial, Setup)> = plan
            .combinations()
            .iter()
            .map(|combination| combination.trial(0, false))
            .filter_map(|trial| Some((trial.clone(), Setup::of(&trial.settings).ok()?)))
            .collect();
        let mut warnings = Vec::new();
        for (index, block) in plan.blocks.iter().enumerate() {
            let own: Vec<_> = setups
                .iter()
                .filter(|(trial, _)| trial.block == index)
                .collect();
            for factor in block
                .factors
                .iter()
                .filter(|f| !f.key.name.starts_with("memory."))
            {
                warnings.extend(memory_varies(&block.name, factor.key.name, &own));
            }
            warnings.extend(free_memory(&block.name, &own));
            warnings.extend(two_disks(&block.name, &own));
            warnings.extend(one_disk(&own));
        }
        if plan.repetitions_max == 1 {
            warnings.push(Self::NotRepeated);
        }
        warnings
    }
}

/// Compares the remaining memory over the levels of one factor, with all other factors equal.
fn memory_varies(block: &str, factor: &'static str, trials: &[&(Trial, Setup)]) -> Option<Warning> {
    let left = |setup: &Setup| {
        let file_system = setup.file_system()?;
        file_system.memory().map(|_| file_system.cache_bytes())
    };
    let others = |trial: &Trial| -> Vec<_> {
        trial
            .levels
            .iter()
            .filter(|level| level.key.name != factor)
            .cloned()
            .collect()
    };
    let label = |trial: &Trial| {
        let level = trial.levels.iter().find(|level| level.key.name == factor);
        level.map(|level| level.label.clone()).unwrap_or_default()
    };
    trials.iter().find_map(|(first, _)| {
        let alike: Vec<(u64, String)> = trials
            .iter()
            .filter(|(trial, _)| others(trial) == others(first))
            .filter_map(|(trial, setup)| Some((left(setup)?, label(trial))))
            .collect();
        let least = alike.iter().min_by_key(|(bytes, _)| *bytes)?.clone();
        let most = alike.iter().max_by_key(|(bytes, _)| *bytes)?.clone();
        (least.0 != most.0).then(|| Warning::MemoryVaries {
            block: block.to_owned(),
            factor,
            least,
            most,
        })
    })
}

/// Finds a RAM disk that is larger than the memory subtracted from the host for it.
fn free_memory(block: &str, trials: &[&(Trial, Setup)]) -> Option<Warning> {
    trials.iter().find_map(|(trial, setup)| {
        let file_system = setup.file_system()?;
        let JournalPlace::External(device) = file_system.journal() else {
            return None;
        };
        let journal = ram_bytes(device)?;
        let ballast = file_system.memory()?.ballast_bytes(file_system.journal());
        (ballast < journal).then(|| Warning::FreeMemory {
            block: block.to_owned(),
            level: trial.name(),
            journal,
            ballast,
        })
    })
}

/// Looks for a journal that is meant to be on another part of the file system's disk, and is on
/// another disk.
fn two_disks(block: &str, trials: &[&(Trial, Setup)]) -> Option<Warning> {
    trials.iter().find_map(|(trial, setup)| {
        let file_system = setup.file_system()?;
        let JournalPlace::External(journal) = file_system.journal() else {
            return None;
        };
        let own = sliced(file_system.device())?;
        (own.is_ephemeral() && sliced(journal) == Some(own)).then(|| Warning::TwoDisks {
            block: block.to_owned(),
            level: trial.name(),
            disk: own.to_string(),
        })
    })
}

/// Returns the device of a slice, or of a slice of a slice, that is not shared.
fn sliced(device: &DeviceText) -> Option<&DeviceText> {
    let DeviceText::Slice { device, .. } = device else {
        return None;
    };
    let is_shared = !device.shared_disks().is_empty();
    sliced(device).or_else(|| (!is_shared).then_some(&**device))
}

/// Looks for journals on a disk of the file system.
fn one_disk(trials: &[&(Trial, Setup)]) -> Option<Warning> {
    let is_on_one = |setup: &Setup| {
        let file_system = setup.file_system()?;
        let JournalPlace::External(journal) = file_system.journal() else {
            return None;
        };
        let own = file_system.device().shared_disks();
        let mut disks = journal.shared_disks().into_iter();
        disks.any(|disk| own.contains(&disk)).then_some(())
    };
    let levels: Vec<String> = trials
        .iter()
        .filter(|(_, setup)| is_on_one(setup).is_some())
        .map(|(trial, _)| trial.name())
        .collect();
    (!levels.is_empty()).then_some(Warning::OneDisk { levels })
}

/// Returns the bytes of the host's memory that a device occupies.
fn ram_bytes(device: &DeviceText) -> Option<u64> {
    match device {
        DeviceText::Simulated { model, .. } if model == "ramdisk" => {
            crate::file_system::size_of(device)
        }
        DeviceText::Memory { size } => Some(size.bytes()),
        _ => None,
    }
}

/// Returns the first levels of a list, and how many more there are.
fn several(levels: &[String]) -> String {
    const NAMED_MAX: usize = 3;
    let named = levels.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>();
    match levels.len().saturating_sub(NAMED_MAX) {
        0 => named.join("; "),
        more => format!("{}; and {more} more", named.join("; ")),
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |block: &str| {
            if block.is_empty() {
                String::new()
            } else {
                format!(" of {block}")
            }
        };
        match self {
            Self::MemoryVaries { block, factor, least, most } => write!(
                f,
                "the factor {factor}{} changes the memory that remains for caching, from {} ({}) to {} ({}): what the \
                 table shows is the effect of both",
                of(block),
                Size::from(most.0),
                most.1,
                Size::from(least.0),
                least.1
            ),
            Self::FreeMemory { block: _, level, journal, ballast } => write!(
                f,
                "the journal of {level} takes {} of the host's memory, but memory.ballast is {}: that memory comes from \
                 nowhere",
                Size::from(*journal),
                Size::from(*ballast)
            ),
            Self::TwoDisks { block: _, level, disk } => write!(
                f,
                "{level}: the file system and the journal are on two disks, each {disk}; write disk({disk}) in both for \
                 one disk, or in one of them for two"
            ),
            Self::OneDisk { levels } => write!(
                f,
                "the journal is on the disk of the file system in {}: disk busy is the work for both",
                levels.join("; ")
            ),
            Self::NotRepeated => f.write_str(
                "trials are run once each, so that their spread is unknown and no winner is named; set repetitions to 5 \
                 or more",
            ),
            Self::NoCommit { levels } => write!(
                f,
                "{}: no transaction was committed while the workload ran, so that its time says nothing about the \
                 journal; run it for longer, or count the time to close",
                several(levels)
            ),
            Self::AllInCache { levels } => write!(
                f,
                "{}: nothing was read from the device while the workload ran: everything fits in the cache",
                several(levels)
            ),
            Self::SeveralPrograms { count } => write!(
                f,
                "the records come from {count} different builds of the program; run the plan with --fresh"
            ),
            Self::SeveralMachines { count } => {
                write!(f, "real trials were run on {count} different machines")
            }
            Self::Imprecise {
                level,
                figure,
                half,
                count,
            } => write!(
                f,
                "{level}: after {count} trials the 95 % interval of {figure} is still {:.1} % to either side",
                half * 100.0
            ),
            Self::Drift { tau, p } => {
                let way = if *tau > 0.0 { "slower" } else { "faster" };
                write!(
                    f,
                    "trials were {way} the later they were run (Kendall's tau {tau:+.2}, p = {p:.3}): the machine or the \
                     device changed meanwhile"
                )
            }
            Self::Outliers { level, repetitions } => {
                let numbers: Vec<String> = repetitions.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "{level}: repetition {} differs widely from the others; was something else running?",
                    numbers.join(", ")
                )
            }
            Self::WarmingUp { level, count } => write!(
                f,
                "{level}: the first {count} repetitions differ from the later ones; set warmup = {count} or more"
            ),
        }
    }
}
