//! [`Brief`]: the parts of a record that a report needs, so that a million of them fit in memory
//! and load in seconds.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::line::Entry;
use super::lines::Row;
use crate::metric::METRICS;
use crate::record::{Context, LatencyRecord, Record};
use crate::timeline::Timeline;

/// The parts of a record that a report needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Brief {
    /// Conditions that it shares with the other trials of its combination.
    pub context: Arc<Context>,
    /// The repetition.
    pub repetition: u32,
    /// True for a warm-up, which is not counted.
    pub is_warmup: bool,
    /// The start, in seconds since 1970.
    pub started: u64,
    /// The results.
    pub measured: MeasuredBrief,
}

impl Row for Brief {
    type Measured = MeasuredBrief;
}

impl From<(Arc<Context>, Entry<MeasuredBrief>)> for Brief {
    fn from((context, entry): (Arc<Context>, Entry<MeasuredBrief>)) -> Self {
        Self {
            context,
            repetition: entry.repetition,
            is_warmup: entry.is_warmup,
            started: entry.started,
            measured: entry.measured,
        }
    }
}

/// The results of a trial.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct MeasuredBrief {
    /// Figures.
    pub metrics: Figures,
    /// Latencies by kind of call.
    pub latencies: BTreeMap<String, LatencyRecord>,
    /// The timeline, if it was recorded.
    #[serde(default)]
    pub timeline: Option<Timeline>,
    /// Facts of the trial that a reader of its figures must know.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The figures of a trial, in the order of [`METRICS`]. Figures with other names are ignored.
#[derive(Clone)]
pub struct Figures(Box<[f64]>);

impl PartialEq for Figures {
    fn eq(&self, other: &Self) -> bool {
        // Unknown figures are NaN, which is not equal to itself.
        (0..METRICS.len()).all(|index| self.get(index) == other.get(index))
    }
}

impl Figures {
    /// Returns the figure with this index in [`METRICS`]; `None` if it is unknown.
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

/// Returns the names and indices of all figures, in the order of a record.
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
        // Figures are written in sorted order: the next name usually follows the last one.
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
        Self {
            context: Arc::clone(&record.context),
            repetition: record.repetition,
            is_warmup: record.is_warmup,
            started: record.started,
            measured: MeasuredBrief {
                metrics: Figures(metrics.collect()),
                latencies: record.measured.latencies.clone(),
                timeline: record.measured.timeline.clone(),
                notes: record.measured.notes.clone(),
            },
        }
    }
}
