//! [`Shard`]: a part of a plan's trials, so that several machines share a plan.

use std::fmt;
use std::str::FromStr;

use super::Trial;
use crate::hash::StableHash;

/// One of several parts of a plan's trials, chosen by the hashes of their ids, or adjacent ones
/// together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    // Invariant: 1 <= first <= last <= count.
    first: u32,
    last: u32,
    count: u32,
}

/// The error of a text that is not a shard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a shard: write I/N or I-J/N with I and J from 1 to N, such as 2/8")]
pub struct ShardError {
    text: String,
}

impl Shard {
    /// Returns the number, from 1 to `count`, of the part that a trial belongs to.
    ///
    /// # Panics
    /// Panics if `count` is 0.
    #[must_use]
    pub fn number_of(trial: &Trial, count: u32) -> u32 {
        let mut hash = StableHash::new();
        hash.text(&trial.id());
        // The remainder is below a `u32`.
        (hash.finish() % u64::from(count)) as u32 + 1
    }

    /// Returns true if a trial belongs to it.
    #[must_use]
    pub fn has(self, trial: &Trial) -> bool {
        (self.first..=self.last).contains(&Self::number_of(trial, self.count))
    }

    /// Returns its number and the number of parts; `None` if it is several of them.
    #[must_use]
    pub fn single(self) -> Option<(u32, u32)> {
        (self.first == self.last).then_some((self.first, self.count))
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        // `parse` alone takes a sign.
        let number = |digits: &str| {
            let is_plain = digits.bytes().all(|digit| digit.is_ascii_digit());
            is_plain.then(|| digits.parse::<u32>().ok()).flatten()
        };
        let parse = || {
            let (numbers, count) = text.split_once('/')?;
            let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
            let (first, last, count) = (number(first)?, number(last)?, number(count)?);
            (1 <= first && first <= last && last <= count).then_some(Self { first, last, count })
        };
        parse().ok_or_else(|| ShardError {
            text: text.to_owned(),
        })
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        if self.last > self.first {
            write!(f, "-{}", self.last)?;
        }
        write!(f, "/{}", self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    #[test]
    fn texts_come_back_and_others_are_refused() {
        for text in ["1/1", "2/8", "8/8", "1-8/8", "3-4/8"] {
            assert_eq!(
                text.parse::<Shard>().map(|own| own.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in [
            "", "1", "0/2", "3/2", "1/0", "-1/2", "a/b", "1/2/3", "2-1/2", "1-3/2", "1-/2", "+1/2",
            "1/+2", "+1-2/2", "1-+2/2", " 1/2",
        ] {
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
        let shard = |text: &str| text.parse::<Shard>().expect(text);
        let shards = ["1/4", "2/4", "3/4", "4/4"].map(shard);
        let pairs = ["1-2/4", "3-4/4"].map(shard);
        for trial in &trials {
            assert_eq!(shards.iter().filter(|shard| shard.has(trial)).count(), 1);
            let number = Shard::number_of(trial, 4);
            assert!(shards[number as usize - 1].has(trial));
            assert!(pairs[(number as usize - 1) / 2].has(trial));
            assert_eq!(pairs.iter().filter(|shard| shard.has(trial)).count(), 1);
        }
        for shard in shards {
            let own = trials.iter().filter(|trial| shard.has(trial)).count();
            assert!((2..=14).contains(&own), "{shard} has {own} of 30");
        }
    }
}
