//! [`Report`]: records summarised as figures, with the published ones beside them.
//!
//! Each block of a plan is divided into groups. Within a group the factors that the baseline does
//! not name have the same levels. Its rows are the levels of the baseline's factors, in the plan's
//! order, and are compared with its baseline.
//!
//! # Findings
//!
//! - The **primary figure** is the figure by which the runs of a workload are compared: the time
//!   for fixed work, or the amount of work in a fixed time. See [`headline`].
//! - The **gain** of a row is its relative improvement: the baseline's time over its own, or its
//!   own rate over the baseline's, minus one; the geometric mean over the repetitions, in pairs.
//! - A row **beats** another if that is more than chance: p below 5 %, corrected for the number of
//!   comparisons in the table. A single trial decides nothing.
//! - The **first that beats the baseline** is the first row, in the plan's order, that does.
//! - A published figure is one run. It is compared with the **interval of runs**, in which the
//!   figure of 95 % of single runs lies here.
//! - The **point of saturation** is the first row from which the next one gains less than
//!   [`SATURATION`]. This is the rule of the published comparison, where 64 MB saturate because 128
//!   MB gain 2 % only.
//! - The **order** is compared over all pairs of rows whose published figures differ by more than
//!   [`TIE`]: as published, reversed, or undecided.
//! - The **recommendation** is what the p-values of a group bear out; see [`recommendation`].
//! - The **answer** states the result of a group as sentences, with intervals if trials were
//!   repeated; see [`answer`].

pub mod answer;
pub mod compare;
mod counterpart;
mod extrapolation;
mod findings;
pub(crate) mod gather;
pub mod headline;
mod json;
mod page;
pub mod recommendation;
pub mod sides;
pub mod summary;
mod suspicion;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::metric::MetricKind;
use crate::plan::value::Value;
use crate::plan::{Block, Combination, Plan, Published};
use crate::program::{Machine, Program};
use crate::record::{Context, Record};
use crate::statistics::effect::{Effect, Ratio};
use crate::statistics::paired::{ByRepetition, prediction};
use crate::statistics::{Interval, Mean};
use crate::store::Brief;
use crate::timeline::Timeline;
use crate::warning::Warning;
use gather::{Gathered, gather};

pub use crate::plan::TIE;
pub use counterpart::Counterparts;
pub use findings::{Findings, Mark, Marks, Order};
pub(crate) use table::wrapped;

/// Relative gain from one row to the next below which the curve is saturated.
pub const SATURATION: f64 = 0.05;

/// The figures of a plan.
#[derive(Debug, Clone)]
pub struct Report {
    /// The plan's name.
    pub plan: String,
    /// The question of the plan.
    pub question: String,
    /// The plan's hash, in hexadecimal.
    pub plan_hash: String,
    /// Block by block.
    pub blocks: Vec<BlockReport>,
    /// Reasons to doubt the figures.
    pub warnings: Vec<Warning>,
    /// Number of trials without a record.
    pub missing: usize,
    /// Number of records that the figures are computed from.
    pub count: usize,
    /// The programs that made the records.
    pub programs: Vec<Program>,
    /// The machines that the records were made on.
    pub machines: Vec<Machine>,
    /// The plan with everything taken from its bases; `None` if it has no base.
    pub written_out: Option<String>,
    /// The plans of jext's engine that have figures for the same cells.
    pub counterparts: Vec<String>,
}

/// The figures of a block.
#[derive(Debug, Clone)]
pub struct BlockReport {
    /// The block's name.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The reason for the block.
    pub why: String,
    /// The rows, divided by the factors that the baseline does not name.
    pub groups: Vec<Group>,
    /// The sources of the published figures, each once.
    pub sources: Vec<String>,
    /// Every parameter that is the same in the whole block.
    pub settings: Vec<(&'static str, String)>,
}

/// Rows that are compared with each other.
#[derive(Debug, Clone)]
pub struct Group {
    /// The levels that its rows have in common: factor and label.
    pub common: Common,
    /// The factors in which the rows differ.
    pub factors: Vec<&'static str>,
    /// The figure by which they are compared.
    pub primary: &'static MetricKind,
    /// The main figures of the workload.
    pub shown: Vec<&'static MetricKind>,
    /// The rows.
    pub rows: Vec<Row>,
    /// The findings.
    pub findings: Findings,
}

/// One combination of levels.
#[derive(Debug, Clone)]
pub struct Row {
    /// The labels of the levels in which the group's rows differ.
    pub labels: Vec<String>,
    /// True if the others are compared with this row.
    pub is_baseline: bool,
    /// Number of trials that were run and counted.
    pub count: usize,
    /// Its figures.
    pub figures: BTreeMap<&'static str, Mean>,
    /// The published figures.
    pub published: BTreeMap<&'static str, f64>,
    /// The primary figure of jext's engine, if this row is of a guest.
    pub engine: Option<Mean>,
    /// The gain over the baseline with its interval; its p-value is corrected for the group's
    /// number of rows.
    pub effect: Option<Effect>,
    /// The primary figure of each trial by its repetition; empty if a trial lacks it.
    pub trials: ByRepetition,
    /// The interval in which the primary figure of 95 % of single runs lies.
    pub runs: Option<Interval>,
    /// Latencies by kind of call: the highest value of each bucket in nanoseconds, and its count.
    pub latencies: BTreeMap<String, Vec<(u64, u64)>>,
    /// The timeline of the first trial, if it was recorded.
    pub timeline: Option<Timeline>,
    /// Position on the axis of the only factor, if that factor is a quantity.
    pub position: Option<f64>,
    /// Facts of its trials that a reader of the figures must know, each with its number in the
    /// report, from 1.
    pub notes: Vec<(usize, String)>,
}

impl Report {
    /// Summarises the records of a plan.
    #[must_use]
    pub fn new(plan: &Plan, records: &[Record]) -> Self {
        let briefs: Vec<Brief> = records.iter().map(Brief::from).collect();
        Self::of(plan, &briefs, &Counterparts::default())
    }

    /// Summarises the parts of records that a report needs, with the engine's figures beside those
    /// of a guest.
    #[must_use]
    pub fn of(plan: &Plan, records: &[Brief], counterparts: &Counterparts) -> Self {
        let all = gather(plan, records);
        let blocks = plan.blocks.iter().enumerate().map(|(index, block)| {
            let own: Vec<&Gathered<'_>> = all
                .iter()
                .filter(|gathered| gathered.combination.block == index)
                .collect();
            block_report(plan, block, &own, counterparts)
        });
        let mut blocks: Vec<BlockReport> = blocks.collect();
        number_notes(&mut blocks);
        let used = || all.iter().flat_map(|gathered| gathered.trials.values());
        let contexts: BTreeMap<*const Context, &Context> = used()
            .map(|record| (Arc::as_ptr(&record.context), &*record.context))
            .collect();
        let programs: BTreeSet<&Program> = contexts.values().map(|own| &own.program).collect();
        // Machines that differ in their facts only are the same machine.
        let machines: BTreeMap<_, &Machine> = contexts
            .values()
            .map(|own| &own.machine)
            .map(|own| {
                (
                    (&own.system, &own.processor, own.processors, own.memory),
                    own,
                )
            })
            .collect();
        let mut warnings = Warning::of(plan);
        // More repetitions than the plan has may be recorded.
        if all.iter().any(|gathered| gathered.trials.len() > 1) {
            warnings.retain(|warning| *warning != Warning::NotRepeated);
        }
        let builds: BTreeSet<&str> = contexts.values().map(|own| own.build()).collect();
        if builds.len() > 1 {
            let count = builds.len();
            warnings.push(Warning::SeveralPrograms { count });
        }
        warnings.extend(suspicion::of(plan, &all, machines.len()));
        Self {
            plan: plan.name.clone(),
            question: plan.question.clone(),
            plan_hash: format!("{:016x}", plan.hash()),
            blocks,
            warnings,
            missing: all.iter().map(|gathered| gathered.missing(plan)).sum(),
            count: used().count(),
            programs: programs.into_iter().cloned().collect(),
            machines: machines.into_values().cloned().collect(),
            written_out: plan.written_out.clone(),
            counterparts: counterparts.plans_of(all.iter().map(|own| &own.combination)),
        }
    }

    /// Returns the report as a self-contained HTML page. `again` is the command that makes the
    /// records, `source` the text of the plan's own file.
    #[must_use]
    pub fn html(&self, again: &str, source: &str) -> String {
        page::render(self, again, source)
    }

    /// Returns the report as text of at most 100 columns, with or without the engine's counters.
    #[must_use]
    pub fn text(&self, has_counters: bool) -> String {
        table::render(self, has_counters)
    }

    /// Returns the report as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        json::render(self)
    }
}

impl Group {
    /// Returns the rows other than the baseline with their gains; `None` if there are none, or one
    /// has no gain.
    fn beside_baseline(&self) -> Option<Vec<(&Row, Effect)>> {
        let others = self.rows.iter().filter(|row| !row.is_baseline);
        let others: Option<Vec<(&Row, Effect)>> =
            others.map(|row| Some((row, row.effect?))).collect();
        others.filter(|others| !others.is_empty())
    }

    /// Returns the notes of its rows, each once.
    #[must_use]
    pub fn notes(&self) -> BTreeSet<(usize, &str)> {
        let notes = self.rows.iter().flat_map(|row| &row.notes);
        notes
            .map(|(number, note)| (*number, note.as_str()))
            .collect()
    }
}

impl Row {
    /// Returns the labels joined to one text.
    #[must_use]
    pub fn label(&self) -> String {
        if self.labels.is_empty() {
            "all".to_owned()
        } else {
            self.labels.join(", ")
        }
    }

    /// Returns the marks of its notes, for the end of its label.
    #[must_use]
    pub fn marks(&self) -> String {
        let notes = self.notes.iter();
        notes.map(|(number, _)| format!(" [{number}]")).collect()
    }

    /// Returns the mean of a figure.
    #[must_use]
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.figures.get(metric).map(|mean| mean.value)
    }

    /// Returns true if the published figure lies in the interval of runs; `None` where there is
    /// none of both.
    #[must_use]
    pub fn is_predicted(&self, metric: &str) -> Option<bool> {
        Some(self.runs?.contains(*self.published.get(metric)?))
    }

    /// Returns the relative difference of a figure from the published one.
    #[must_use]
    pub fn error(&self, metric: &str) -> Option<f64> {
        let published = self.published.get(metric).filter(|value| **value != 0.0)?;
        Some(self.value(metric)? / published - 1.0)
    }

    /// Returns the relative difference of the primary figure, which is named, from that of jext's
    /// engine.
    #[must_use]
    pub fn against_engine(&self, primary: &str) -> Option<f64> {
        let engine = self.engine.filter(|mean| mean.value != 0.0)?;
        Some(self.value(primary)? / engine.value - 1.0)
    }
}

/// Numbers the notes of all rows, equal ones alike.
fn number_notes(blocks: &mut [BlockReport]) {
    let groups = blocks.iter_mut().flat_map(|block| &mut block.groups);
    let rows = groups.flat_map(|group| &mut group.rows);
    let mut known: Vec<String> = Vec::new();
    for (number, note) in rows.flat_map(|row| &mut row.notes) {
        let place = known.iter().position(|other| other == note);
        if place.is_none() {
            known.push(note.clone());
        }
        *number = place.map_or(known.len(), |place| place + 1);
    }
}

/// The levels that a group's rows have in common.
type Common = Vec<(&'static str, String)>;

fn block_report(
    plan: &Plan,
    block: &Block,
    gathered: &[&Gathered<'_>],
    counterparts: &Counterparts,
) -> BlockReport {
    let varies: Vec<&'static str> = block.factors.iter().map(|factor| factor.key.name).collect();
    let has_baseline = !block.baseline.is_empty();
    let compared: Vec<&'static str> = varies
        .iter()
        .copied()
        .filter(|name| !has_baseline || block.baseline.iter().any(|(key, _)| key.name == *name))
        .collect();
    let mut groups: Vec<(Common, Vec<&Gathered<'_>>)> = Vec::new();
    for own in gathered {
        let common: Common = own
            .combination
            .levels
            .iter()
            .filter(|level| !compared.contains(&level.key.name))
            .map(|level| (level.key.name, level.label.clone()))
            .collect();
        match groups.iter_mut().find(|(other, _)| *other == common) {
            Some((_, all)) => all.push(own),
            None => groups.push((common, vec![own])),
        }
    }
    let is_here = |published: &&Published| {
        let mut own = gathered.iter();
        own.any(|own| published.is_at(&own.combination.trial(0, false)))
    };
    let mut sources: Vec<String> = plan
        .published
        .iter()
        .filter(is_here)
        .map(|published| published.source.clone())
        .collect();
    sources.dedup();
    let groups = groups
        .into_iter()
        .map(|(common, own)| group(plan, block, common, &own, &compared, counterparts));
    // If the workload is a factor, the parameters of all workloads apply.
    let settings: Vec<_> = match varies.contains(&"workload") {
        true => block.fixed.iter().collect(),
        false => block.fixed.concerned().collect(),
    };
    let settings = settings.into_iter();
    let settings = settings.filter(|(key, _)| !varies.contains(key));
    BlockReport {
        name: block.name.clone(),
        title: block.title.clone(),
        why: block.why.clone(),
        groups: groups.collect(),
        sources,
        settings: settings
            .map(|(key, value)| (key, value.to_string()))
            .collect(),
    }
}

fn group(
    plan: &Plan,
    block: &Block,
    common: Common,
    gathered: &[&Gathered<'_>],
    compared: &[&'static str],
    counterparts: &Counterparts,
) -> Group {
    let settings = gathered.iter().map(|own| &*own.combination.settings);
    let headline = headline::of_all(settings);
    let kind = |name: &str| MetricKind::named(name).expect("every figure is a metric");
    let primary = kind(headline.primary);
    let rows = gathered.iter();
    let mut rows: Vec<Row> = rows
        .map(|own| Row {
            engine: counterparts.figure(&own.combination, primary.name),
            ..row(plan, block, own, compared, primary)
        })
        .collect();
    add_effects(&mut rows, primary);
    let shown: Vec<&MetricKind> = headline.shown.iter().map(|name| kind(name)).collect();
    let is_known = |kind: &&MetricKind| rows.iter().any(|row| row.figures.contains_key(kind.name));
    let known: Vec<&MetricKind> = shown.iter().copied().filter(is_known).collect();
    Group {
        common,
        factors: compared.to_vec(),
        primary,
        // Without records, all figures that the plan will have.
        shown: if known.is_empty() { shown } else { known },
        findings: Findings::of(&rows, primary),
        rows,
    }
}

/// Computes the gains of a group's rows over its baseline, with p-values corrected for their
/// number.
fn add_effects(rows: &mut [Row], primary: &MetricKind) {
    let baseline = rows.iter().find(|row| row.is_baseline);
    let Some(baseline) = baseline.map(|row| row.trials.clone()) else {
        return;
    };
    let ratio = Ratio::of(primary.better);
    for row in rows.iter_mut().filter(|row| !row.is_baseline) {
        row.effect = Effect::paired(&baseline, &row.trials, ratio);
    }
    Effect::correct(rows.iter_mut().filter_map(|row| row.effect.as_mut()));
}

fn row(
    plan: &Plan,
    block: &Block,
    gathered: &Gathered<'_>,
    compared: &[&'static str],
    primary: &MetricKind,
) -> Row {
    let combination = &gathered.combination;
    let levels = &combination.levels;
    let trial = combination.trial(0, false);
    let published = plan
        .published
        .iter()
        .filter(|published| published.is_at(&trial));
    let is_baseline = !block.baseline.is_empty()
        && block.baseline.iter().all(|(key, value)| {
            levels
                .iter()
                .any(|level| level.key == *key && level.value == *value)
        });
    Row {
        labels: levels
            .iter()
            .filter(|level| compared.contains(&level.key.name))
            .map(|level| level.label.clone())
            .collect(),
        is_baseline,
        count: gathered.trials.len(),
        figures: gathered.figures(),
        published: published
            .map(|Published { metric, value, .. }| (*metric, *value))
            .collect(),
        engine: None,
        effect: None,
        runs: gathered
            .sample_of(primary.name)
            .and_then(|sample| prediction(&sample)),
        trials: gathered.by_repetition(primary.name),
        latencies: gathered.latencies(),
        timeline: gathered.timeline().cloned(),
        position: position(combination, compared),
        notes: gathered.notes().into_iter().map(|note| (0, note)).collect(),
    }
}

/// Returns the level as a quantity, if it is one and only one factor differs between rows.
fn position(combination: &Combination, compared: &[&'static str]) -> Option<f64> {
    let [only] = compared else { return None };
    let mut levels = combination.levels.iter();
    let level = levels.find(|level| level.key.name == *only)?;
    match &level.value {
        Value::Number(number) => Some(*number as f64),
        Value::Bytes(bytes) => Some(*bytes as f64),
        Value::Time(nanos) => Some(*nanos as f64),
        Value::Text(text) => {
            crate::file_system::size_of(&text.parse().ok()?).map(|bytes| bytes as f64)
        }
        Value::Switch(_) | Value::Range(..) => None,
    }
}

#[cfg(test)]
mod tests;
