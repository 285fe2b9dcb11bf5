//! [`Counterparts`]: the figures of jext's engine for the cells that a kernel in a guest fills.
//!
//! A plan for a guest takes its claims from a plan of the engine (`claims_of`). A cell of that plan
//! is the counterpart of one here if it stands for the same block, has the same levels, and its
//! workload the same parameters.

use std::collections::{BTreeMap, BTreeSet};

use super::gather::gather;
use crate::plan::{Combination, Plan, Taken};
use crate::statistics::Mean;
use crate::store::Brief;

/// The figures of the engine, by cell.
#[derive(Debug, Default)]
pub struct Counterparts {
    cells: Vec<Cell>,
}

#[derive(Debug)]
struct Cell {
    /// The plan that runs it.
    plan: String,
    /// The block of the plan for guests.
    block: String,
    combination: Combination,
    figures: BTreeMap<&'static str, Mean>,
}

impl Counterparts {
    /// Returns the figures of the plans that `plan` takes its claims from. `records` returns a
    /// plan's records.
    ///
    /// # Errors
    /// - Errors of `records`.
    ///
    /// # Panics
    /// Panics if a built-in plan cannot be parsed.
    pub fn of<E>(
        plan: &Plan,
        mut records: impl FnMut(&Plan) -> Result<Vec<Brief>, E>,
    ) -> Result<Self, E> {
        let mut all = Self::default();
        if !plan.blocks.iter().any(|block| block.fixed.has_guest()) {
            return Ok(all);
        }
        for taken in &plan.taken {
            let theirs = taken.plan.plan().expect("a built-in plan is right");
            let records = records(&theirs)?;
            all.add(taken, &theirs, &records);
        }
        Ok(all)
    }

    fn add(&mut self, taken: &Taken, theirs: &Plan, records: &[Brief]) {
        for gathered in gather(theirs, records) {
            let combination = &gathered.combination;
            if gathered.trials.is_empty() {
                continue;
            }
            self.cells.push(Cell {
                plan: theirs.name.clone(),
                block: taken.block_here(&combination.block_name),
                figures: gathered.figures(),
                combination: gathered.combination,
            });
        }
    }

    /// Returns a figure of the counterpart of a cell, if it has one.
    pub(super) fn figure(&self, here: &Combination, metric: &str) -> Option<Mean> {
        self.cell(here)?.figures.get(metric).copied()
    }

    /// Returns the plans that run counterparts of these cells, each once.
    pub(super) fn plans_of<'c>(&self, all: impl Iterator<Item = &'c Combination>) -> Vec<String> {
        let cells = all.filter_map(|here| self.cell(here));
        let plans: BTreeSet<&String> = cells.map(|cell| &cell.plan).collect();
        plans.into_iter().cloned().collect()
    }

    fn cell(&self, here: &Combination) -> Option<&Cell> {
        let mut cells = self.cells.iter();
        cells.find(|cell| cell.block == here.block_name && cell.is_like(here))
    }
}

impl Cell {
    /// Returns true if the levels are the same, and the workload has the same parameters.
    fn is_like(&self, here: &Combination) -> bool {
        let there = &self.combination;
        let is_counterpart = here.settings.has_guest() && there.settings.is_simulated();
        let has_levels = |one: &Combination, other: &Combination| {
            one.levels
                .iter()
                .all(|level| other.settings.get(level.key.name) == Some(&level.value))
        };
        let workload = |own: &Combination| -> Vec<(&'static str, String)> {
            let prefix = format!("{}.", own.settings.workload());
            own.settings
                .concerned()
                .filter(|(key, _)| *key == "workload" || key.starts_with(&prefix))
                .map(|(key, value)| (key, value.to_string()))
                .collect()
        };
        is_counterpart
            && has_levels(here, there)
            && has_levels(there, here)
            && workload(here) == workload(there)
    }
}
