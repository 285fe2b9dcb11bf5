//! Trials: the product of the factors and the repetitions.

use super::key::Key;
use super::settings::Settings;
use super::value::Value;
use super::{Block, Plan};
use crate::hash::StableHash;

/// One trial: conditions, levels and a seed.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Which block of the plan.
    pub block: usize,
    /// Its name.
    pub block_name: String,
    /// The level of each factor, in the plan's order.
    pub levels: Vec<TrialLevel>,
    /// Which repetition, from 0.
    pub repetition: u32,
    /// Whether it is run first and not counted.
    pub is_warmup: bool,
    /// Decides everything random in it.
    pub seed: u64,
    /// A value for every key.
    pub settings: Settings,
}

/// The level of a factor in a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialLevel {
    /// The factor.
    pub key: &'static Key,
    /// How it is printed.
    pub label: String,
    /// Its value.
    pub value: Value,
}

impl Trial {
    /// What tells this trial from all others of its plan, for records.
    #[must_use]
    pub fn id(&self) -> String {
        let mut id = format!("block={:?}", self.block_name);
        for level in &self.levels {
            id.push_str(&format!(
                " {}={:?}",
                level.key.name,
                level.value.to_string()
            ));
        }
        let kind = if self.is_warmup {
            "warmup"
        } else {
            "repetition"
        };
        format!("{id} {kind}={}", self.repetition)
    }

    /// What this trial is, in a few words for people.
    #[must_use]
    pub fn name(&self) -> String {
        let block = (!self.block_name.is_empty()).then(|| self.block_name.clone());
        let levels = self.levels.iter().map(|level| level.label.clone());
        let words: Vec<String> = block.into_iter().chain(levels).collect();
        if words.is_empty() {
            "the only trial".to_owned()
        } else {
            words.join(", ")
        }
    }
}

pub(super) fn trials(plan: &Plan) -> Vec<Trial> {
    let blocks = plan.blocks.iter().enumerate();
    blocks
        .flat_map(|(index, block)| trials_of(plan, index, block))
        .collect()
}

fn trials_of(plan: &Plan, index: usize, block: &Block) -> Vec<Trial> {
    let mut combinations: Vec<Vec<(usize, usize)>> = vec![Vec::new()];
    for (number, factor) in block.factors.iter().enumerate() {
        let longer = combinations.iter().flat_map(|combination| {
            (0..factor.levels.len()).map(move |level| {
                combination
                    .iter()
                    .copied()
                    .chain([(number, level)])
                    .collect::<Vec<_>>()
            })
        });
        combinations = longer.collect();
    }
    let warmups = (0..plan.warmup).map(|number| (number, true));
    let runs: Vec<_> = warmups
        .chain((0..plan.repetitions).map(|number| (number, false)))
        .collect();
    let repeated = combinations.iter().flat_map(|combination| {
        runs.iter()
            .map(move |(repetition, is_warmup)| (combination, *repetition, *is_warmup))
    });
    repeated
        .map(|(combination, repetition, is_warmup)| {
            let mut settings = block.fixed.clone();
            let mut levels = Vec::with_capacity(combination.len());
            for (factor, level) in combination {
                let key = block.factors[*factor].key;
                let level = &block.factors[*factor].levels[*level];
                settings.set(key.name, level.value.clone(), Some(level.line));
                levels.push(TrialLevel {
                    key,
                    label: level.label.clone(),
                    value: level.value.clone(),
                });
            }
            Trial {
                block: index,
                block_name: block.name.clone(),
                seed: seed(plan.seed, &levels, repetition, is_warmup),
                levels,
                repetition,
                is_warmup,
                settings,
            }
        })
        .collect()
}

fn seed(plan: u64, levels: &[TrialLevel], repetition: u32, is_warmup: bool) -> u64 {
    let mut hash = StableHash::new();
    hash.number(plan);
    for level in levels {
        hash.text(level.key.name);
        hash.text(&level.value.to_string());
    }
    hash.number(u64::from(repetition));
    hash.number(u64::from(is_warmup));
    hash.finish()
}
