//! A plan: a question, fixed settings, factors, and published results.
//!
//! # Format
//!
//! A plan is TOML. The set of keys is closed: an unknown key or an invalid value is an error with
//! its line.
//!
//! ```toml
//! [plan]
//! name = "external-journal"          # letters, digits, hyphens, points; the folder of its records
//! question = "How large must it be?" # the question to answer
//! seed = 1                           # the seeds of all repetitions are derived from it
//! repetitions = 1                    # minimum number of runs of each trial
//! precision = 0.05                   # optional: repeat until half of the 95 % interval is within
//!                                    # 5 % of the mean
//! repetitions_max = 30               # maximum for the precision; the default is 30
//! warmup = 0                         # trials run first and not counted; real targets only
//!
//! [fixed]                            # the settings of every trial; see the table of keys
//! device = "sim:atlas-v-18"
//! fs.commit = "5s"
//!
//! [factors]                          # every combination of their levels is a trial
//! journal = ["internal", { label = "4 MB", value = "nvram:4100KiB" }]
//!
//! [baseline]                         # the level that the others are compared with
//! journal = "internal"
//!
//! [[block]]                          # optional: the plan once more under other conditions
//! name = "linux-2.4"
//! title = "As a kernel of 2002 did it"
//! why = "One sentence that the report prints."
//! [block.fixed]                      # replaces settings of [fixed], fixes a factor of that name
//! fs.log_policy = "linux24"
//! [block.factors]                    # replaces the factor of the same name, or adds one
//!
//! [[published]]                      # a published result, printed beside ours
//! block = "linux-2.4"                # if there are several
//! at = { journal = "4 MB" }          # by value or by label
//! metric = "read_rate"
//! value = 1.85
//! unit = "MiB/s"
//! source = "author, place"
//!
//! [[published]]                      # a row of a table: `values` instead of `value`
//! by = "journal"                     # by the levels of a factor, or by "block"
//! values = { internal = 588, "4 MB" = 841 }
//! absent = { ReiserFS = 512 }        # optional: published, and not run by this plan
//! what = "test 1"                    # optional: the subject; the default is the levels of `at`
//! why = "One sentence."              # optional: the cause of differences, or of the absence
//! compare = false                    # optional: another row has the same runs
//! metric = "elapsed"
//! # and so on
//!
//! [[claim]]                          # a published claim
//! text = "More than 64 MB is of no use."
//! source = "author, place"
//! metric = "elapsed"                 # decided by one of these:
//! like = { journal = "64 MB" }       # like and as: the same, but for a few percent
//! as = { journal = "128 MB" }        # higher and lower: the first is higher, by `ratio = 2` or
//! why = "One sentence."              # `ratio = [2, 3]`; at, between and unit: within limits
//! limit = "host"                     # optional, also in [[published]]: set by the processor and
//!                                    # the memory, so that a run in memory decides it
//! [claim.explained]                  # optional, also [published.explained]: the input that makes
//! blocks = { ext3 = "ext3-logged" }  # the difference; the blocks differ in this setting only
//! input = "The patch for Linux 2.2 logged all data."
//! source = "author, place"
//! ```
//!
//! The text of a claim identifies it: plans that have the same text test the same claim.
//!
//! ```toml
//! [[cause]]                          # why claims are not reproduced, or not run
//! text = "One sentence."             # the same text in two plans is the same cause
//! claims = ["More than 64 MB is of no use.", "elapsed: 4 MB > internal"]
//! ```
//!
//! A document of reproductions prints the claims that are not reproduced by their causes, and last
//! those without one. A published figure is named as the document's table of claims names it.
//!
//! # A plan based on another
//!
//! `base = "NAME"` in `[plan]` takes `[fixed]`, `[factors]`, `[baseline]` and the blocks of a
//! built-in plan; settings of the plan itself replace them. `base_block = "linux-2.4"` takes the
//! conditions of that block and no blocks. A plan with another workload takes no settings of its
//! base's workload. An error has the file and line of its cause.
//!
//! Without a `[[block]]` a plan has one block without a name. A level given as a table
//! `{ label, value }` is printed by its label; `with = { key = value }` in it sets other keys, too.
//!
//! # Presets
//!
//! `preset = "kernel-6.1"` in `[fixed]` or `[block.fixed]` stands for settings: the engine's
//! journal as JBD2 of Linux 6.1 works. Other settings there replace those of the preset.
//!
//! # The results of another plan
//!
//! `claims_of = ["NAME", ...]` in `[plan]` takes the published figures and claims of built-in
//! plans, for blocks and levels of the same names. An entry may be a table: `block` is the block
//! that a plan without blocks is about, `blocks` maps the names of its blocks to those of this
//! plan. A figure that is `absent` there is run by a block of that name, apart from capitals.
//! The `why` of a figure or a claim is not taken: it is about what the other plan runs. The plan
//! has a `[[cause]]` of its own, or none.
//!
//! # Settings that decide a result
//!
//! [`Plan::hash`] covers the seed and, block by block, every setting (defaults included) and every
//! factor's levels: two plans with the same hash have the same trials. It excludes titles, the
//! question, labels, published figures, causes and the number of repetitions: these can change
//! without losing records. The differences between repetitions are in [`Replica`].

pub mod builtin;
mod cause;
mod error;
pub mod key;
pub(crate) mod parse;
mod product;
mod published;
mod reader;
mod replica;
pub mod settings;
mod shard;
pub mod value;

use crate::hash::StableHash;
use crate::statistics::stopping::StoppingRule;
use key::Key;
use settings::Settings;
use value::Value;

pub use cause::{Cause, Pair, TIE, name as claim_name};
pub use error::{PlanError, Spot};
pub use product::{Combination, Trial, split_id, trial_id};
pub use published::{
    Absent, Cell, Claim, ClaimRule, ClaimTest, Explanation, Limit, Published, PublishedSet, Size,
    Taken,
};
pub use replica::{Replica, Vary};
pub use shard::{Shard, ShardError};

/// Version of the hash. Increment it if the meaning of recorded figures changes, so that old
/// records are not reused.
const HASH_VERSION: u64 = 2;

/// A plan that has been checked.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// The question to answer.
    pub question: String,
    /// Seed from which the seeds of all repetitions are derived.
    pub seed: u64,
    /// Minimum number of runs of each trial.
    pub repetitions: u32,
    /// Maximum number of runs while the interval is too wide; not below `repetitions`.
    pub repetitions_max: u32,
    /// Required precision: half of the 95 % interval over the mean. Without it, each trial runs the
    /// minimum number of times.
    pub precision: Option<f64>,
    /// Number of warm-up trials, run first and not counted.
    pub warmup: u32,
    /// The blocks, at least one.
    pub blocks: Vec<Block>,
    /// The published figures.
    pub published: Vec<Published>,
    /// The published figures, grouped as they were published.
    pub published_sets: Vec<PublishedSet>,
    /// The published claims.
    pub claims: Vec<Claim>,
    /// The causes of claims that are not reproduced.
    pub causes: Vec<Cause>,
    /// The plans that published figures and claims are taken from.
    pub taken: Vec<Taken>,
    /// The plan as TOML with everything taken from its bases; `None` if it has no base.
    pub written_out: Option<String>,
    /// Notes on values that were rounded when the plan was read, one sentence each.
    pub notes: Vec<String>,
}

/// A part of a plan: conditions, and what varies under them.
#[derive(Debug, Clone)]
pub struct Block {
    /// Its name; empty where a plan has no blocks.
    pub name: String,
    /// The title that the report prints above it.
    pub title: String,
    /// The reason for the block.
    pub why: String,
    /// A value for every key; a factor without a default has none.
    pub fixed: Settings,
    /// The factors, in the order of the plan.
    pub factors: Vec<Factor>,
    /// The levels that the others are compared with. The factors without a baseline divide the
    /// table.
    pub baseline: Vec<(&'static Key, Value)>,
}

/// A key that varies.
#[derive(Debug, Clone)]
pub struct Factor {
    /// The key.
    pub key: &'static Key,
    /// Its levels, in order; at least one.
    pub levels: Vec<Level>,
}

/// One level of a factor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// The printed form.
    pub label: String,
    /// Its value.
    pub value: Value,
    /// Other keys that it sets.
    pub with: Vec<(&'static Key, Value)>,
    /// The position of the definition.
    pub spot: Spot,
}

impl Plan {
    /// Returns the hash of everything that decides the trials.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let mut hash = StableHash::new();
        hash.number(HASH_VERSION);
        hash.number(self.seed);
        hash.number(self.blocks.len() as u64);
        for block in &self.blocks {
            hash.text(&block.name);
            let settings = block.fixed.concerned();
            // Recording more changes no figure, so records without it belong to this plan, too.
            let is_recorded = |key: &str| key == key::TIMELINE || key == key::USES;
            // Records from before this key was there had its default.
            let is_new = |key: &str, value: &Value| {
                key == key::GUEST_STREAM && *value == Value::Number(key::GUEST_STREAM_DEFAULT)
            };
            let settings: Vec<_> = settings
                .filter(|(key, value)| !is_recorded(key) && !is_new(key, value))
                .collect();
            hash.number(settings.len() as u64);
            for (key, value) in settings {
                hash.text(key);
                hash.text(&value.to_string());
            }
            hash.number(block.factors.len() as u64);
            for factor in &block.factors {
                hash.text(factor.key.name);
                hash.number(factor.levels.len() as u64);
                for level in &factor.levels {
                    hash.text(&level.value.to_string());
                    for (key, value) in &level.with {
                        hash.text(key.name);
                        hash.text(&value.to_string());
                    }
                }
            }
        }
        hash.finish()
    }

    /// Returns all trials, block by block, the last factor varying fastest, the repetitions of a
    /// trial together.
    #[must_use]
    pub fn trials(&self) -> Vec<Trial> {
        product::trials(self)
    }

    /// Returns every combination of levels, block by block, the last factor varying fastest.
    #[must_use]
    pub fn combinations(&self) -> Vec<Combination> {
        product::combinations(self)
    }

    /// Returns the plan with another number of repetitions, and without a precision. Its hash is
    /// the same.
    #[must_use]
    pub fn repeated(self, count: u32) -> Self {
        Self {
            repetitions: count,
            repetitions_max: count,
            precision: None,
            ..self
        }
    }

    /// Returns the rule that decides if a combination has enough repetitions.
    #[must_use]
    pub fn stopping_rule(&self) -> StoppingRule {
        StoppingRule {
            least: self.repetitions as usize,
            most: self.repetitions_max as usize,
            precision: self.precision,
        }
    }
}

#[cfg(test)]
mod tests;
