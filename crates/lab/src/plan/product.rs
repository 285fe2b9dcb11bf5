//! Trials: the product of the factors and the repetitions.

use std::sync::Arc;

use super::key::{Key, VARY};
use super::replica::{Replica, Vary};
use super::settings::Settings;
use super::value::Value;
use super::{Block, Plan};

/// One trial: conditions, levels and a replica.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The index of the block in the plan.
    pub block: usize,
    /// The block's name.
    pub block_name: String,
    /// The level of each factor, in the plan's order.
    pub levels: Arc<[TrialLevel]>,
    /// The repetition, from 0.
    pub repetition: u32,
    /// True for a warm-up: it is run first and not counted.
    pub is_warmup: bool,
    /// Its seeds.
    pub replica: Replica,
    /// A value for every key.
    pub settings: Arc<Settings>,
}

/// A combination of levels: trials that differ in their repetition only.
#[derive(Debug, Clone)]
pub struct Combination {
    /// The index of the block in the plan.
    pub block: usize,
    /// The block's name.
    pub block_name: String,
    /// The level of each factor, in the plan's order.
    pub levels: Arc<[TrialLevel]>,
    /// A value for every key.
    pub settings: Arc<Settings>,
    plan_seed: u64,
}

impl Combination {
    /// Returns its id, unique in the plan; the ids of its trials start with it.
    #[must_use]
    pub fn id(&self) -> String {
        id(&self.block_name, &self.levels)
    }

    fn vary(&self) -> Vary {
        match self.settings.get(VARY) {
            Some(Value::Text(word)) => Vary::of_word(word),
            _ => Vary::Both,
        }
    }

    /// Returns one of its trials.
    #[must_use]
    pub fn trial(&self, repetition: u32, is_warmup: bool) -> Trial {
        Trial {
            block: self.block,
            block_name: self.block_name.clone(),
            replica: Replica::of(self.plan_seed, self.vary(), repetition, is_warmup),
            levels: Arc::clone(&self.levels),
            repetition,
            is_warmup,
            settings: Arc::clone(&self.settings),
        }
    }
}

/// The level of a factor in a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialLevel {
    /// The factor.
    pub key: &'static Key,
    /// The printed form.
    pub label: String,
    /// Its value.
    pub value: Value,
    /// Other keys that it sets.
    pub with: Vec<(&'static Key, Value)>,
}

impl Trial {
    /// Returns the id of this trial in records, which is unique in its plan.
    #[must_use]
    pub fn id(&self) -> String {
        trial_id(&self.combination_id(), self.repetition, self.is_warmup)
    }

    /// Returns the id of its combination; its own id starts with it.
    #[must_use]
    pub fn combination_id(&self) -> String {
        id(&self.block_name, &self.levels)
    }

    /// Returns a short description of this trial.
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

const WARMUP: &str = "warmup";
const REPETITION: &str = "repetition";

fn id(block: &str, levels: &[TrialLevel]) -> String {
    let mut id = format!("block={block:?}");
    for level in levels {
        id.push_str(&format!(
            " {}={:?}",
            level.key.name,
            level.value.to_string()
        ));
    }
    id
}

/// Builds a trial's id from its parts.
#[must_use]
pub fn trial_id(combination: &str, repetition: u32, is_warmup: bool) -> String {
    let kind = if is_warmup { WARMUP } else { REPETITION };
    format!("{combination} {kind}={repetition}")
}

/// Splits a trial's id into the combination's id, the warm-up flag and the repetition.
#[must_use]
pub fn split_id(trial: &str) -> Option<(&str, bool, u32)> {
    let (combination, last) = trial.rsplit_once(' ')?;
    let (kind, number) = last.split_once('=')?;
    let is_warmup = match kind {
        WARMUP => true,
        REPETITION => false,
        _ => return None,
    };
    Some((combination, is_warmup, number.parse().ok()?))
}

pub(super) fn trials(plan: &Plan) -> Vec<Trial> {
    let warmups = (0..plan.warmup).map(|number| (number, true));
    let runs: Vec<_> = warmups
        .chain((0..plan.repetitions).map(|number| (number, false)))
        .collect();
    let repeated = combinations(plan).into_iter().flat_map(|combination| {
        let trials = runs.iter();
        trials
            .map(|(repetition, is_warmup)| combination.trial(*repetition, *is_warmup))
            .collect::<Vec<_>>()
    });
    repeated.collect()
}

pub(super) fn combinations(plan: &Plan) -> Vec<Combination> {
    let blocks = plan.blocks.iter().enumerate();
    blocks
        .flat_map(|(index, block)| combinations_of(plan, index, block))
        .collect()
}

fn combinations_of(plan: &Plan, index: usize, block: &Block) -> Vec<Combination> {
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
    let combine = |combination: Vec<(usize, usize)>| {
        let mut settings = block.fixed.clone();
        let mut levels = Vec::with_capacity(combination.len());
        for (factor, level) in combination {
            let key = block.factors[factor].key;
            let level = &block.factors[factor].levels[level];
            settings.set(key.name, level.value.clone(), Some(level.spot.clone()));
            for (key, value) in &level.with {
                settings.set(key.name, value.clone(), Some(level.spot.clone()));
            }
            levels.push(TrialLevel {
                key,
                label: level.label.clone(),
                value: level.value.clone(),
                with: level.with.clone(),
            });
        }
        Combination {
            block: index,
            block_name: block.name.clone(),
            levels: levels.into(),
            settings: Arc::new(settings),
            plan_seed: plan.seed,
        }
    };
    combinations.into_iter().map(combine).collect()
}
