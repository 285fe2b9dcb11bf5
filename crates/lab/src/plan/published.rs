//! What others have found: figures, and claims about them.

use super::{Key, Spot, Trial, Value};

/// A combination of levels that a figure or a claim is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The block; nothing where the plan has one only.
    pub block: Option<String>,
    /// At which levels.
    pub at: Vec<(&'static Key, Value)>,
    /// How it is called where it stands beside others.
    pub label: String,
    /// Where it is said.
    pub spot: Spot,
}

/// A figure that somebody else has found.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// For which trial.
    pub cell: Cell,
    /// Of which metric.
    pub metric: &'static str,
    /// The figure, in the metric's SI unit.
    pub value: f64,
    /// Who found it, and where it stands.
    pub source: String,
    /// Which of the plan's sets it belongs to.
    pub set: usize,
}

/// Figures that stand beside each other where they were published: one metric under several
/// conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedSet {
    /// Of which metric.
    pub metric: &'static str,
    /// What all of them have in common, in a few words; empty where there is nothing to say.
    pub what: String,
    /// The unit in which they were published.
    pub unit: String,
    /// How many of the metric's SI unit that is.
    pub scale: f64,
    /// Who found them, and where they stand.
    pub source: String,
    /// What is known about why ours differ.
    pub why: Option<String>,
    /// Whether the order of its figures counts as claims; not so where another set is of the same
    /// runs.
    pub is_compared: bool,
    /// Figures of what this plan does not run.
    pub absent: Vec<Absent>,
}

/// A published figure of something that a plan does not run.
#[derive(Debug, Clone, PartialEq)]
pub struct Absent {
    /// What it is of.
    pub label: String,
    /// The figure, in the metric's SI unit.
    pub value: f64,
}

/// Something that others said of their figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// In words.
    pub text: String,
    /// Who said it, and where.
    pub source: String,
    /// What is known about why it is not reproduced, or not run.
    pub why: Option<String>,
    /// What decides it here; nothing if it is not run.
    pub test: Option<ClaimTest>,
}

/// What decides a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimTest {
    /// The figure that is looked at.
    pub metric: &'static str,
    /// What must hold of it.
    pub rule: ClaimRule,
}

/// What must hold of a figure.
#[derive(Debug, Clone, PartialEq)]
pub enum ClaimRule {
    /// It is higher in the first than in the second.
    Higher(Cell, Cell),
    /// It is about the same in both.
    Alike(Cell, Cell),
    /// It lies within limits, in the metric's SI unit.
    Between(Cell, f64, f64),
}

impl Cell {
    /// Whether it is a trial's.
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
    /// Whether this figure belongs to a trial.
    #[must_use]
    pub fn is_at(&self, trial: &Trial) -> bool {
        self.cell.is_at(trial)
    }
}

impl ClaimTest {
    /// The trials that it looks at.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        match &self.rule {
            ClaimRule::Higher(one, other) | ClaimRule::Alike(one, other) => {
                [Some(one), Some(other)]
            }
            ClaimRule::Between(cell, ..) => [Some(cell), None],
        }
        .into_iter()
        .flatten()
    }
}
