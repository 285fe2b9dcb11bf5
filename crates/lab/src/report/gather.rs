//! Records grouped by combination of levels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::metric::METRICS;
use crate::plan::{Combination, Plan};
use crate::record::{Context, LatencyRecord};
use crate::statistics::paired::ByRepetition;
use crate::statistics::{Mean, Sample};
use crate::store::Brief;
use crate::timeline::Timeline;

/// A combination of levels with the records of its trials.
pub(crate) struct Gathered<'r> {
    pub(crate) combination: Combination,
    /// The counted trials by repetition; of several records of one trial the last counts.
    pub(crate) trials: BTreeMap<u32, &'r Brief>,
    warmups: BTreeMap<u32, &'r Brief>,
}

/// Returns all combinations of a plan, in its order, with their records. Ignores records of other
/// trials.
pub(crate) fn gather<'r>(plan: &Plan, records: &'r [Brief]) -> Vec<Gathered<'r>> {
    let mut all: Vec<Gathered<'_>> = plan
        .combinations()
        .into_iter()
        .map(|combination| Gathered {
            combination,
            trials: BTreeMap::new(),
            warmups: BTreeMap::new(),
        })
        .collect();
    let index: BTreeMap<String, usize> = all
        .iter()
        .enumerate()
        .map(|(index, gathered)| (gathered.combination.id(), index))
        .collect();
    // Records share contexts: each context is looked up once.
    let mut places: BTreeMap<*const Context, Option<usize>> = BTreeMap::new();
    for record in records {
        let place = places
            .entry(Arc::as_ptr(&record.context))
            .or_insert_with(|| index.get(&record.context.combination).copied());
        let Some(gathered) = place.map(|place| &mut all[place]) else {
            continue;
        };
        if record.is_warmup {
            gathered.warmups.insert(record.repetition, record);
        } else {
            gathered.trials.insert(record.repetition, record);
        }
    }
    all
}

impl Gathered<'_> {
    /// Returns the number of trials of the plan that have no record.
    pub(crate) fn missing(&self, plan: &Plan) -> usize {
        let runs = (0..plan.repetitions).filter(|number| !self.trials.contains_key(number));
        let warmups = (0..plan.warmup).filter(|number| !self.warmups.contains_key(number));
        runs.count() + warmups.count()
    }

    /// Returns the samples of all figures, in the order of [`METRICS`]; `None` for a figure that
    /// some trial lacks. Iterates trial by trial, because the figures of a trial are adjacent in
    /// memory.
    fn samples(&self) -> Vec<Option<Sample>> {
        let empty = || Some(Vec::with_capacity(self.trials.len()));
        let mut columns: Vec<Option<Vec<f64>>> = METRICS.iter().map(|_| empty()).collect();
        for record in self.trials.values() {
            for (index, column) in columns.iter_mut().enumerate() {
                match (column.as_mut(), record.measured.metrics.get(index)) {
                    (Some(values), Some(value)) => values.push(value),
                    _ => *column = None,
                }
            }
        }
        let columns = columns.into_iter();
        columns.map(|values| Sample::new(values?)).collect()
    }

    /// Returns the means of all figures that no trial lacks.
    pub(super) fn figures(&self) -> BTreeMap<&'static str, Mean> {
        let figures = METRICS.iter().zip(self.samples());
        figures
            .filter_map(|(kind, sample)| Some((kind.name, sample?.describe())))
            .collect()
    }

    /// Returns the sample of the figure with this index in [`METRICS`]; `None` if some trial lacks
    /// it.
    pub(crate) fn sample(&self, index: usize) -> Option<Sample> {
        let values: Option<Vec<f64>> = self
            .trials
            .values()
            .map(|record| record.measured.metrics.get(index))
            .collect();
        Sample::new(values?)
    }

    /// Returns the figure of this name by repetition; empty if a trial lacks it.
    pub(crate) fn by_repetition(&self, name: &str) -> ByRepetition {
        let index = METRICS.iter().position(|kind| kind.name == name);
        let values = self.trials.iter().map(|(repetition, record)| {
            let value = record.measured.metrics.get(index?)?;
            Some((*repetition, value))
        });
        values.collect::<Option<_>>().unwrap_or_default()
    }

    /// Returns the sample of the figure with this name.
    pub(crate) fn sample_of(&self, name: &str) -> Option<Sample> {
        self.sample(METRICS.iter().position(|kind| kind.name == name)?)
    }

    /// Returns the timeline of the first trial that has one.
    pub(super) fn timeline(&self) -> Option<&Timeline> {
        let mut all = self.trials.values();
        all.find_map(|record| record.measured.timeline.as_ref())
    }

    /// Returns what its levels set besides their factors, and the notes of all trials, each once.
    pub(super) fn notes(&self) -> Vec<String> {
        let all = self.trials.values();
        let all: BTreeSet<&String> = all.flat_map(|record| &record.measured.notes).collect();
        let levels = self.combination.levels.iter();
        let with = levels.flat_map(|level| &level.with);
        let with = with.map(|(key, value)| format!("with {} = {value}", key.name));
        with.chain(all.into_iter().cloned()).collect()
    }

    /// Merges the latencies of all trials, by kind of call.
    pub(crate) fn latencies(&self) -> BTreeMap<String, Vec<(u64, u64)>> {
        let mut all: BTreeMap<String, BTreeMap<u64, u64>> = BTreeMap::new();
        for record in self.trials.values() {
            for (kind, LatencyRecord { buckets_ns, .. }) in &record.measured.latencies {
                let own = all.entry(kind.clone()).or_default();
                for (value, count) in buckets_ns {
                    *own.entry(*value).or_default() += count;
                }
            }
        }
        all.into_iter()
            .map(|(kind, buckets)| (kind, buckets.into_iter().collect()))
            .collect()
    }
}
