//! Records sorted by what they are repetitions of.

use std::collections::BTreeMap;

use crate::metric::METRICS;
use crate::plan::{Combination, Plan, split_id};
use crate::record::LatencyRecord;
use crate::statistics::Sample;
use crate::store::Brief;

/// A combination of levels with the records of its trials.
pub(crate) struct Gathered<'r> {
    pub(crate) combination: Combination,
    /// The counted trials by repetition; of several records of one trial the last.
    pub(crate) trials: BTreeMap<u32, &'r Brief>,
    warmups: BTreeMap<u32, &'r Brief>,
}

/// All combinations of a plan, in its order, with their records. Records of other trials are passed over.
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
    for record in records {
        let Some((combination, is_warmup, repetition)) = split_id(&record.trial) else {
            continue;
        };
        let Some(gathered) = index.get(combination).map(|index| &mut all[*index]) else {
            continue;
        };
        if is_warmup {
            gathered.warmups.insert(repetition, record);
        } else if repetition < plan.repetitions_max {
            gathered.trials.insert(repetition, record);
        }
    }
    all
}

impl Gathered<'_> {
    /// How many trials that the plan asks for have no record.
    pub(crate) fn missing(&self, plan: &Plan) -> usize {
        let runs = (0..plan.repetitions).filter(|number| !self.trials.contains_key(number));
        let warmups = (0..plan.warmup).filter(|number| !self.warmups.contains_key(number));
        runs.count() + warmups.count()
    }

    /// The figures that all trials have, by their index in [`METRICS`].
    pub(crate) fn sample(&self, index: usize) -> Option<Sample> {
        let values: Option<Vec<f64>> = self
            .trials
            .values()
            .map(|record| record.measured.metrics.get(index))
            .collect();
        Sample::new(values?)
    }

    /// The figure of this name.
    pub(crate) fn sample_of(&self, name: &str) -> Option<Sample> {
        self.sample(METRICS.iter().position(|kind| kind.name == name)?)
    }

    /// The latencies of all trials together, by kind of call.
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
