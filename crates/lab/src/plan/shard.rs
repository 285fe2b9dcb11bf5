//! [`Shard`]: a part of a plan's trials, so that several machines share a plan.

use std::fmt;
use std::str::FromStr;

use super::Trial;
use crate::hash::StableHash;

/// One of several parts of a plan's trials, chosen by the hashes of their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    // Invariant: 1 <= number <= count.
    number: u32,
    count: u32,
}

/// The error of a text that is not a shard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a shard: write I/N with I from 1 to N, such as 2/8")]
pub struct ShardError {
    text: String,
}

impl Shard {
    /// Returns true if a trial belongs to it.
    #[must_use]
    pub fn has(self, trial: &Trial) -> bool {
        let mut hash = StableHash::new();
        hash.text(&trial.id());
        hash.finish() % u64::from(self.count) == u64::from(self.number - 1)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let parse = || {
            let (number, count) = text.split_once('/')?;
            let (number, count) = (number.parse().ok()?, count.parse().ok()?);
            (1..=count)
                .contains(&number)
                .then_some(Self { number, count })
        };
        parse().ok_or_else(|| ShardError {
            text: text.to_owned(),
        })
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    #[test]
    fn texts_come_back_and_others_are_refused() {
        for text in ["1/1", "2/8", "8/8"] {
            assert_eq!(
                text.parse::<Shard>().map(|own| own.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in ["", "1", "0/2", "3/2", "1/0", "-1/2", "a/b", "1/2/3"] {
            let error = text.parse::<Shard>().expect_err(text).to_string();
            assert!(
                error.starts_with(&format!("\"{text}\" is not a shard")),
                "{error}"
            );
        }
    }

    #[test]
    fn every_trial_is_in_one_shard() {
        let text = "[plan]\nname = \"p\"\nquestion = \"?\"\nrepetitions = 5\n[fixed]\n\
                    device = \"sim:atlas-v-18\"\n[factors]\nfs.commit = [1, 2, 3, 4, 5, 6]\n";
        let trials = Plan::parse("p.toml", text)
            .expect("the plan is right")
            .trials();
        let shards: Vec<Shard> = (1..=4).map(|number| Shard { number, count: 4 }).collect();
        for trial in &trials {
            assert_eq!(shards.iter().filter(|shard| shard.has(trial)).count(), 1);
        }
        for shard in shards {
            let own = trials.iter().filter(|trial| shard.has(trial)).count();
            assert!((2..=14).contains(&own), "{shard} has {own} of 30");
        }
    }
}
