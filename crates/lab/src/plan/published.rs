//! Published results: figures, and claims about them.

use std::collections::BTreeMap;

use super::builtin::Builtin;
use super::{Key, Spot, Trial, Value};

/// A combination of levels that a figure or a claim is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The block; `None` if the plan has only one.
    pub block: Option<String>,
    /// The levels.
    pub at: Vec<(&'static Key, Value)>,
    /// Its label in a table.
    pub label: String,
    /// The position of the definition.
    pub spot: Spot,
}

/// A published figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// The combination that it was published for.
    pub cell: Cell,
    /// The metric.
    pub metric: &'static str,
    /// The figure, in the metric's SI unit.
    pub value: f64,
    /// The author and the position in the source.
    pub source: String,
    /// The index of its set in the plan.
    pub set: usize,
}

/// Figures that were published together: one metric under several conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedSet {
    /// The metric.
    pub metric: &'static str,
    /// A short description of the common property of all; may be empty.
    pub what: String,
    /// The unit in which they were published.
    pub unit: String,
    /// The value of `unit` in the metric's SI unit.
    pub scale: f64,
    /// The author and the position in the source.
    pub source: String,
    /// The known cause of the difference from ours.
    pub why: Option<String>,
    /// True if the order of its figures counts as claims; false if another set covers the same
    /// runs.
    pub is_compared: bool,
    /// The part of the published machine that set the figures.
    pub limit: Limit,
    /// The input that explains a difference from ours.
    pub explained: Option<Explanation>,
    /// Published figures of configurations that this plan does not run.
    pub absent: Vec<Absent>,
}

/// The part of a machine that sets a published figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The disk. A run in memory decides nothing about it.
    Disk,
    /// The processor and the memory.
    Host,
}

/// One input that a plan runs with another value, which a source gives: a claim that holds with it
/// is explained by it.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The block that replaces each block of the claim. The two differ in one setting, the same one
    /// in all pairs.
    pub blocks: BTreeMap<String, String>,
    /// The input as a sentence.
    pub input: String,
    /// The author and the position in the source.
    pub source: String,
    /// The position of the definition.
    pub spot: Spot,
}

/// A published figure of a configuration that a plan does not run.
#[derive(Debug, Clone, PartialEq)]
pub struct Absent {
    /// Its subject.
    pub label: String,
    /// The figure, in the metric's SI unit.
    pub value: f64,
}

/// A published statement about figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The claim as a sentence.
    pub text: String,
    /// The author and the position in the source.
    pub source: String,
    /// The known reason that it is not reproduced, or not run.
    pub why: Option<String>,
    /// The part of the published machine that sets the figure.
    pub limit: Limit,
    /// The input that explains a difference from ours.
    pub explained: Option<Explanation>,
    /// Its test; `None` if the plan does not run it.
    pub test: Option<ClaimTest>,
}

/// The test of a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimTest {
    /// The figure that is tested.
    pub metric: &'static str,
    /// The condition.
    pub rule: ClaimRule,
}

/// The condition on a figure.
#[derive(Debug, Clone, PartialEq)]
pub enum ClaimRule {
    /// It is higher in the first than in the second, by a factor if the source gives one.
    Higher(Cell, Cell, Option<Size>),
    /// It is equal in both, within a few percent.
    Alike(Cell, Cell),
    /// It is within limits, in the metric's SI unit.
    Between(Cell, f64, f64),
}

/// The published size of a difference: the limits of a ratio, equal if the source gives one number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    /// The lowest ratio, above 1.
    pub least: f64,
    /// The highest ratio.
    pub most: f64,
}

/// A plan whose published figures and claims are taken.
#[derive(Debug, Clone)]
pub struct Taken {
    /// The plan.
    pub plan: &'static Builtin,
    /// The blocks of this plan, by the names of those of the other plan that they stand for.
    pub blocks: BTreeMap<String, String>,
    /// The block that stands for a plan without blocks.
    pub block: Option<String>,
}

impl Taken {
    /// Returns the block of this plan that stands for a block of the other one.
    #[must_use]
    pub fn block_here(&self, theirs: &str) -> String {
        let named = self.blocks.get(theirs);
        let named = named.or(self.block.as_ref().filter(|_| theirs.is_empty()));
        named.map_or_else(|| theirs.to_owned(), String::clone)
    }
}

impl From<f64> for Size {
    fn from(ratio: f64) -> Self {
        Self {
            least: ratio,
            most: ratio,
        }
    }
}

impl Explanation {
    /// Returns a cell with its block replaced.
    #[must_use]
    pub fn replace(&self, cell: &Cell) -> Cell {
        let block = cell.block.as_ref();
        let block = block.map(|name| self.blocks.get(name).unwrap_or(name).clone());
        Cell {
            block,
            ..cell.clone()
        }
    }
}

impl Cell {
    /// Returns true if it belongs to a trial.
    #[must_use]
    pub fn is_at(&self, trial: &Trial) -> bool {
        let in_block = self
            .block
            .as_ref()
            .is_none_or(|block| *block == trial.block_name);
        let at_level = |(key, value): &(&'static Key, Value)| {
            trial
                .levels
                .iter()
                .any(|level| level.key.name == key.name && level.value == *value)
        };
        in_block && self.at.iter().all(at_level)
    }
}

impl Published {
    /// Returns true if this figure belongs to a trial.
    #[must_use]
    pub fn is_at(&self, trial: &Trial) -> bool {
        self.cell.is_at(trial)
    }
}

impl ClaimTest {
    /// Returns the cells that the rule compares.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        match &self.rule {
            ClaimRule::Higher(one, other, _) | ClaimRule::Alike(one, other) => {
                [Some(one), Some(other)]
            }
            ClaimRule::Between(cell, ..) => [Some(cell), None],
        }
        .into_iter()
        .flatten()
    }
}
