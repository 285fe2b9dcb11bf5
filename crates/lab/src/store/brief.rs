//! [`Brief`]: what a report needs of a record, so that a million of them fit in memory and are read in seconds.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::metric::METRICS;
use crate::record::{LatencyRecord, Record};

/// What a report needs of a record.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Brief {
    /// What tells its trial from the others of its plan.
    pub trial: String,
    /// When it began, in seconds since 1970.
    pub started: u64,
    /// What ran it.
    pub program: ProgramBrief,
    /// Where.
    pub machine: MachineBrief,
    /// What was found out.
    pub measured: MeasuredBrief,
}

/// Which workload a record is of.
#[derive(Deserialize)]
pub(super) struct WorkloadBrief {
    pub(super) settings: WorkloadSetting,
}

/// The only setting that is looked at.
#[derive(Deserialize)]
pub(super) struct WorkloadSetting {
    pub(super) workload: String,
}

/// A build of the program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct ProgramBrief {
    /// Its version.
    pub version: String,
    /// The commit that it was built from.
    pub commit: String,
    /// The hash of the executable file.
    pub fingerprint: String,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct MachineBrief {
    /// The operating system and its version.
    pub system: String,
    /// The processor's name.
    pub processor: String,
    /// How many processors the program may use.
    pub processors: usize,
    /// Bytes of memory.
    pub memory: u64,
}

/// What a trial found out.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct MeasuredBrief {
    /// Figures.
    pub metrics: Figures,
    /// Latencies by kind of call.
    pub latencies: BTreeMap<String, LatencyRecord>,
}

/// The figures of a trial, in the order of [`METRICS`]. Figures of other names are passed over.
#[derive(Clone, PartialEq)]
pub struct Figures(Box<[f64]>);

impl Figures {
    /// The figure of this index in [`METRICS`].
    #[must_use]
    pub fn get(&self, index: usize) -> Option<f64> {
        self.0.get(index).copied().filter(|value| !value.is_nan())
    }
}

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = METRICS
            .iter()
            .zip(&self.0)
            .filter(|(_, value)| !value.is_nan());
        f.debug_map()
            .entries(known.map(|(kind, value)| (kind.name, value)))
            .finish()
    }
}

/// Names and indices of all figures, in the order in which a record has them.
fn sorted_names() -> &'static [(&'static str, usize)] {
    static NAMES: OnceLock<Vec<(&'static str, usize)>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let names = METRICS.iter().enumerate();
        let mut names: Vec<_> = names.map(|(index, kind)| (kind.name, index)).collect();
        names.sort_unstable();
        names
    })
}

impl<'de> Deserialize<'de> for Figures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FiguresVisitor)
    }
}

struct FiguresVisitor;

impl<'de> Visitor<'de> for FiguresVisitor {
    type Value = Figures;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("figures by their names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Figures, A::Error> {
        let mut figures = vec![f64::NAN; METRICS.len()].into_boxed_slice();
        let names = sorted_names();
        // Records are written in order: the next name is nearly always the one after the last.
        let mut cursor = 0;
        while let Some(name) = map.next_key::<&str>()? {
            let here = names.get(cursor).filter(|(known, _)| *known == name);
            let found = here
                .map(|_| cursor)
                .or_else(|| names.binary_search_by(|(known, _)| (*known).cmp(name)).ok());
            match found {
                Some(at) => {
                    figures[names[at].1] = map.next_value()?;
                    cursor = at + 1;
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Figures(figures))
    }
}

impl From<&Record> for Brief {
    fn from(record: &Record) -> Self {
        let metrics = METRICS
            .iter()
            .map(|kind| record.metric(kind.name).unwrap_or(f64::NAN));
        let (program, machine) = (&record.program, &record.machine);
        Self {
            trial: record.trial.clone(),
            started: record.started,
            program: ProgramBrief {
                version: program.version.clone(),
                commit: program.commit.clone(),
                fingerprint: program.fingerprint.clone(),
            },
            machine: MachineBrief {
                system: machine.system.clone(),
                processor: machine.processor.clone(),
                processors: machine.processors,
                memory: machine.memory,
            },
            measured: MeasuredBrief {
                metrics: Figures(metrics.collect()),
                latencies: record.measured.latencies.clone(),
            },
        }
    }
}
