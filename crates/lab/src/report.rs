//! [`Report`]: records turned into figures, the published ones beside them.
//!
//! Each block of a plan is divided into groups: the levels of the factors that the baseline does not name are the same
//! within one. A group's rows are the levels of the baseline's factors, in the plan's order, and are compared with its
//! baseline.
//!
//! # Findings
//!
//! - The **gain** of a row is how much sooner it ends: the baseline's time over its own, minus one.
//! - The **first that beats the baseline** is the first row, in the plan's order, whose gain is above zero.
//! - The **point of saturation** is the first row from which the next one gains less than
//!   [`SATURATION`]; that is the rule of the published comparison, where 64 MB saturate because 128 MB gain 2 % only.
//! - The **order** is compared over all pairs of rows whose published times differ by more than [`TIE`].

mod findings;
mod json;
mod table;

use std::collections::BTreeMap;

use crate::metric::METRICS;
use crate::plan::{Block, Plan, Published, Trial};
use crate::record::Record;
use crate::statistics::{Mean, Sample};
use crate::warning::Warning;

pub use findings::{Findings, Mark, Marks};

/// A gain from one row to the next below this is none.
pub const SATURATION: f64 = 0.05;
/// Published times that differ by less than this are the same.
pub const TIE: f64 = 0.02;
/// The figure by which rows are compared.
pub const PRIMARY: &str = "elapsed";

/// The figures of a plan.
#[derive(Debug, Clone)]
pub struct Report {
    /// The plan's name.
    pub plan: String,
    /// What was to be found out.
    pub question: String,
    /// The plan's hash, in hexadecimal.
    pub plan_hash: String,
    /// Block by block.
    pub blocks: Vec<BlockReport>,
    /// What makes the figures hard to believe.
    pub warnings: Vec<Warning>,
    /// How many trials have no record.
    pub missing: usize,
}

/// The figures of a block.
#[derive(Debug, Clone)]
pub struct BlockReport {
    /// The block's name.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Why it is there.
    pub why: String,
    /// The rows, divided by the factors that the baseline does not name.
    pub groups: Vec<Group>,
    /// Where the published figures stand, each source once.
    pub sources: Vec<String>,
}

/// Rows that are compared with each other.
#[derive(Debug, Clone)]
pub struct Group {
    /// The levels that its rows have in common: factor and label.
    pub common: Common,
    /// The factors in which the rows differ.
    pub factors: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<Row>,
    /// What they show.
    pub findings: Findings,
}

/// One combination of levels.
#[derive(Debug, Clone)]
pub struct Row {
    /// The labels of the levels in which the group's rows differ.
    pub labels: Vec<String>,
    /// Whether the others are compared with it.
    pub is_baseline: bool,
    /// How many trials were run and counted.
    pub count: usize,
    /// Its figures.
    pub figures: BTreeMap<&'static str, Mean>,
    /// The published figures.
    pub published: BTreeMap<&'static str, f64>,
}

impl Report {
    /// Puts the records of a plan together.
    #[must_use]
    pub fn new(plan: &Plan, records: &[Record]) -> Self {
        let by_trial: BTreeMap<&str, &Record> = records
            .iter()
            .map(|record| (record.trial.as_str(), record))
            .collect();
        let trials = plan.trials();
        let missing = trials
            .iter()
            .filter(|t| !by_trial.contains_key(t.id().as_str()))
            .count();
        let blocks = plan.blocks.iter().enumerate().map(|(index, block)| {
            let own: Vec<&Trial> = trials.iter().filter(|trial| trial.block == index).collect();
            block_report(plan, block, &own, &by_trial)
        });
        let mut warnings = Warning::of(plan);
        let mut programs: Vec<&str> = records
            .iter()
            .map(|record| record.program.fingerprint.as_str())
            .collect();
        programs.sort_unstable();
        programs.dedup();
        if programs.len() > 1 {
            warnings.push(Warning::SeveralPrograms {
                count: programs.len(),
            });
        }
        Self {
            plan: plan.name.clone(),
            question: plan.question.clone(),
            plan_hash: format!("{:016x}", plan.hash()),
            blocks: blocks.collect(),
            warnings,
            missing,
        }
    }

    /// The report as text for a terminal of any width.
    #[must_use]
    pub fn text(&self) -> String {
        table::render(self)
    }

    /// The report as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        json::render(self)
    }
}

impl Row {
    /// The labels in one text.
    #[must_use]
    pub fn label(&self) -> String {
        if self.labels.is_empty() {
            "all".to_owned()
        } else {
            self.labels.join(", ")
        }
    }

    /// The mean of a figure.
    #[must_use]
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.figures.get(metric).map(|mean| mean.value)
    }

    /// How far a figure is from the published one, relative to that.
    #[must_use]
    pub fn error(&self, metric: &str) -> Option<f64> {
        let published = self.published.get(metric).filter(|value| **value != 0.0)?;
        Some(self.value(metric)? / published - 1.0)
    }
}

/// The levels that a group's rows have in common.
type Common = Vec<(&'static str, String)>;

fn block_report(
    plan: &Plan,
    block: &Block,
    trials: &[&Trial],
    records: &BTreeMap<&str, &Record>,
) -> BlockReport {
    let varies: Vec<&'static str> = block.factors.iter().map(|factor| factor.key.name).collect();
    let has_baseline = !block.baseline.is_empty();
    let compared: Vec<&'static str> = varies
        .iter()
        .copied()
        .filter(|name| !has_baseline || block.baseline.iter().any(|(key, _)| key.name == *name))
        .collect();
    let mut groups: Vec<(Common, Vec<Row>)> = Vec::new();
    for combination in combinations(trials) {
        let common: Common = combination[0]
            .levels
            .iter()
            .filter(|level| !compared.contains(&level.key.name))
            .map(|level| (level.key.name, level.label.clone()))
            .collect();
        let row = row(plan, block, &combination, &compared, records);
        match groups.iter_mut().find(|(other, _)| *other == common) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((common, vec![row])),
        }
    }
    let mut sources: Vec<String> = plan
        .published
        .iter()
        .filter(|published| trials.iter().any(|trial| published.is_at(trial)))
        .map(|published| published.source.clone())
        .collect();
    sources.dedup();
    let groups = groups.into_iter().map(|(common, rows)| {
        let findings = Findings::of(&rows);
        Group {
            common,
            factors: compared.clone(),
            rows,
            findings,
        }
    });
    BlockReport {
        name: block.name.clone(),
        title: block.title.clone(),
        why: block.why.clone(),
        groups: groups.collect(),
        sources,
    }
}

/// The counted trials, those with the same levels together, in the plan's order.
fn combinations<'t>(trials: &[&'t Trial]) -> Vec<Vec<&'t Trial>> {
    let mut combinations: Vec<Vec<&'t Trial>> = Vec::new();
    for trial in trials.iter().copied().filter(|trial| !trial.is_warmup) {
        match combinations.last_mut() {
            Some(same) if same[0].levels == trial.levels => same.push(trial),
            _ => combinations.push(vec![trial]),
        }
    }
    combinations
}

fn row(
    plan: &Plan,
    block: &Block,
    trials: &[&Trial],
    compared: &[&'static str],
    records: &BTreeMap<&str, &Record>,
) -> Row {
    let levels = &trials[0].levels;
    let own: Vec<&Record> = trials
        .iter()
        .filter_map(|trial| records.get(trial.id().as_str()).copied())
        .collect();
    let figures = METRICS.iter().filter_map(|kind| {
        let values: Option<Vec<f64>> = own.iter().map(|record| record.metric(kind.name)).collect();
        Some((kind.name, Sample::new(values?)?.describe()))
    });
    let published = plan
        .published
        .iter()
        .filter(|published| published.is_at(trials[0]));
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
        count: own.len(),
        figures: figures.collect(),
        published: published
            .map(|Published { metric, value, .. }| (*metric, *value))
            .collect(),
    }
}

#[cfg(test)]
mod tests;
