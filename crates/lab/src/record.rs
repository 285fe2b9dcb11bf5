//! [`Record`]: the result and all conditions of one trial. [`Context`]: the conditions that the
//! trials of a combination share.

pub mod csv;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use workload::{Latencies, Outcome};

use crate::plan::value::SIMULATED;
use crate::plan::{Plan, Trial, trial_id};
use crate::program::{Machine, Program};
use crate::timeline::Timeline;

/// One trial that was run. Values are in SI base units, times in nanoseconds if the name ends in
/// `_ns`.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Conditions that it shares with the other trials of its combination.
    pub context: Arc<Context>,
    /// The repetition.
    pub repetition: u32,
    /// True for a warm-up, which is not counted.
    pub is_warmup: bool,
    /// The seed of everything random in the trial's world.
    pub seed: u64,
    /// The seed of the workload, if it is not the one of the settings.
    pub workload_seed: Option<u32>,
    /// The load average of the last minute at its end: processes that ran or waited.
    pub load: Option<f64>,
    /// The start, in seconds since 1970.
    pub started: u64,
    /// The duration in real time, in seconds.
    pub real_seconds: f64,
    /// The results.
    pub measured: Measured,
}

/// Conditions that the trials of one combination of levels share, if one program runs them on one
/// machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// The plan's name.
    pub plan: String,
    /// The plan's hash, in hexadecimal.
    pub plan_hash: String,
    /// The id of the combination, unique in its plan.
    pub combination: String,
    /// The block's name.
    pub block: String,
    /// The level of each factor.
    pub levels: BTreeMap<String, String>,
    /// Every setting that applies to the workload.
    pub settings: BTreeMap<String, String>,
    /// The program.
    pub program: Program,
    /// The machine.
    pub machine: Machine,
}

/// The results of a trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Figures by name; see [`METRICS`](crate::metric::METRICS).
    pub metrics: BTreeMap<String, f64>,
    /// Counters of the journal and the devices, by component.
    pub counters: BTreeMap<String, BTreeMap<String, u64>>,
    /// Latencies by kind of call.
    pub latencies: BTreeMap<String, LatencyRecord>,
    /// The hash of all events in a simulated world, in hexadecimal.
    pub trace_hash: Option<String>,
    /// The text that replays a simulated world.
    pub replay: Option<String>,
    /// The timeline, if it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// Facts of the trial that a reader of its figures must know, such as an option that its file
    /// system could not be made without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The latencies of one kind of call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyRecord {
    /// Number of calls.
    pub count: u64,
    /// Their mean.
    pub mean_ns: f64,
    /// Their standard deviation.
    pub deviation_ns: f64,
    /// The longest.
    pub max_ns: u64,
    /// The non-empty buckets of the histogram: the highest value of each, and its count.
    pub buckets_ns: Vec<(u64, u64)>,
}

/// The fields of a record that two runs have in common.
#[derive(Serialize)]
struct Canonical<'a> {
    trial: String,
    plan: &'a str,
    plan_hash: &'a str,
    build: &'a str,
    seed: String,
    workload_seed: Option<u32>,
    settings: &'a BTreeMap<String, String>,
    measured: &'a Measured,
}

impl Record {
    /// Creates the record of a trial that started at `started` and took `real_seconds`.
    #[must_use]
    pub fn new(
        plan: &Plan,
        trial: &Trial,
        started: u64,
        real_seconds: f64,
        measured: Measured,
    ) -> Self {
        Self {
            context: Arc::new(Context::of(plan, trial)),
            repetition: trial.repetition,
            is_warmup: trial.is_warmup,
            seed: trial.replica.seed,
            workload_seed: trial.replica.workload_seed,
            load: Machine::load(),
            started,
            real_seconds,
            measured,
        }
    }

    /// Returns the id of its trial, unique in its plan.
    #[must_use]
    pub fn trial(&self) -> String {
        trial_id(&self.context.combination, self.repetition, self.is_warmup)
    }

    /// Returns the record in one line of JSON without everything that may differ between two runs
    /// of a simulated trial by one build: time, machine, executable and load.
    ///
    /// # Errors
    /// Fails if a figure is not a JSON number.
    pub fn canonical(&self) -> Result<String, serde_json::Error> {
        let context = &self.context;
        serde_json::to_string(&Canonical {
            trial: self.trial(),
            plan: &context.plan,
            plan_hash: &context.plan_hash,
            build: context.program.build(),
            seed: format!("{:016x}", self.seed),
            workload_seed: self.workload_seed,
            settings: &context.settings,
            measured: &self.measured,
        })
    }

    /// Returns a figure; `None` if the trial does not have it.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.measured.metrics.get(name).copied()
    }
}

impl Context {
    /// Returns the context of a trial that this program runs on this machine.
    #[must_use]
    pub fn of(plan: &Plan, trial: &Trial) -> Self {
        let levels = trial.levels.iter();
        let settings = trial.settings.concerned();
        Self {
            plan: plan.name.clone(),
            plan_hash: format!("{:016x}", plan.hash()),
            combination: trial.combination_id(),
            block: trial.block_name.clone(),
            levels: levels
                .map(|l| (l.key.name.to_owned(), l.value.to_string()))
                .collect(),
            settings: settings
                .map(|(key, value)| (key.to_owned(), value.to_string()))
                .collect(),
            program: Program::current(),
            machine: Machine::current(),
        }
    }

    /// Returns true if its trials run in a simulated world.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.settings
            .get("target")
            .is_none_or(|target| target == SIMULATED)
    }

    /// Returns the identity of the build as far as the results depend on it: the hash of the
    /// sources for simulated trials, that of the executable for those in real time.
    #[must_use]
    pub fn build(&self) -> &str {
        self.build_of(&self.program)
    }

    /// Returns true if a program gives the results that were recorded.
    #[must_use]
    pub fn is_of(&self, program: &Program) -> bool {
        self.build() == self.build_of(program)
    }

    fn build_of<'p>(&self, program: &'p Program) -> &'p str {
        match self.is_simulated() {
            true => program.build(),
            false => &program.fingerprint,
        }
    }
}

impl Measured {
    /// Returns the figures and latencies of a workload.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        let mut measured = Self::default();
        for metric in &outcome.metrics {
            measured
                .metrics
                .insert(metric.name.to_owned(), metric.value);
        }
        if let Some(latencies) = &outcome.latencies {
            measured.add_latencies(latencies);
        }
        measured
    }

    /// Adds the histograms of a workload.
    pub fn add_latencies(&mut self, latencies: &Latencies) {
        for (label, summary) in latencies.summaries() {
            let buckets = latencies
                .buckets(label)
                .into_iter()
                .map(|(value, count)| (value.get(), count));
            let record = LatencyRecord {
                count: summary.count,
                mean_ns: summary.mean_ns,
                deviation_ns: summary.deviation_ns,
                max_ns: summary.max.get(),
                buckets_ns: buckets.collect(),
            };
            self.latencies.insert(label.to_owned(), record);
        }
    }
}
