//! [`Cause`]: a cause that several claims of a plan have in common; [`Pair`]: the claims that
//! published figures make.

use super::published::{Cell, Published, PublishedSet};
use super::{Plan, PlanError, Spot};
use crate::metric::MetricKind;

/// Relative difference below which two published figures are equal.
pub const TIE: f64 = 0.02;

/// A cause for which claims are not reproduced, or not run.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// The cause as sentences. Causes of the same text in several plans are one.
    pub text: String,
    /// The claims, by their texts or, of published figures, by their names ([`Pair::name`]).
    pub claims: Vec<(String, Spot)>,
}

/// Two published figures of which one is higher.
#[derive(Debug, Clone)]
pub struct Pair<'p> {
    /// The higher one.
    pub higher: &'p str,
    /// The lower one.
    pub lower: &'p str,
    /// The ratio of the two; `None` if the lower one is zero.
    pub ratio: Option<f64>,
    /// Their cells; `None` if the plan does not run both.
    pub cells: Option<(&'p Cell, &'p Cell)>,
    /// True if one of them is the first figure of the set: these pairs count as claims, the others
    /// follow from them.
    pub is_counted: bool,
}

impl Plan {
    /// Returns every pair of a set's figures that differ by more than a tie, the highest first.
    #[must_use]
    pub fn pairs(&self, set: usize) -> Vec<Pair<'_>> {
        let own = &self.published_sets[set];
        if !own.is_compared {
            return Vec::new();
        }
        let run = self.published.iter().filter(|other| other.set == set);
        let run = run.map(|own: &Published| (own.cell.label.as_str(), own.value, Some(&own.cell)));
        let absent = own.absent.iter();
        let absent = absent.map(|absent| (absent.label.as_str(), absent.value, None));
        let mut all: Vec<(&str, f64, Option<&Cell>)> = run.chain(absent).collect();
        let Some((first, ..)) = all.first().copied() else {
            return Vec::new();
        };
        all.sort_by(|one, other| other.1.total_cmp(&one.1));
        let mut pairs = Vec::new();
        for (index, (higher, more, our_more)) in all.iter().enumerate() {
            for (lower, less, our_less) in &all[index + 1..] {
                if *less > 0.0 && more / less - 1.0 <= TIE {
                    continue;
                }
                pairs.push(Pair {
                    higher,
                    lower,
                    ratio: (*less > 0.0).then(|| more / less),
                    cells: our_more.zip(*our_less),
                    is_counted: first == *higher || first == *lower,
                });
            }
        }
        pairs
    }

    /// Returns the cause of a claim that has this text or name, if the plan gives one.
    #[must_use]
    pub fn cause_of(&self, claim: &str) -> Option<&str> {
        let has_claim = |cause: &&Cause| cause.claims.iter().any(|(name, _)| name == claim);
        self.causes.iter().find(has_claim).map(|own| &*own.text)
    }

    /// Checks that every claim of every cause is a claim of the plan, and has one cause.
    pub(super) fn check_causes(&self) -> Result<(), PlanError> {
        if self.causes.is_empty() {
            return Ok(());
        }
        let counted = (0..self.published_sets.len()).flat_map(|set| {
            let pairs = self.pairs(set).into_iter().filter(|pair| pair.is_counted);
            pairs.map(move |pair| pair.name(&self.published_sets[set]))
        });
        let mut unused: Vec<String> = self.claims.iter().map(|claim| claim.text.clone()).collect();
        unused.extend(counted);
        for (name, spot) in self.causes.iter().flat_map(|cause| &cause.claims) {
            let Some(place) = unused.iter().position(|claim| claim == name) else {
                let again = self.cause_count(name) > 1;
                let message = match again {
                    true => format!("claims: {name:?} has two causes; list it once"),
                    false => format!(
                        "claims: there is no claim {name:?}; `jext lab reproductions` prints their names"
                    ),
                };
                return Err(PlanError::at(spot, &message));
            };
            unused.remove(place);
        }
        Ok(())
    }

    fn cause_count(&self, claim: &str) -> usize {
        let all = self.causes.iter().flat_map(|cause| &cause.claims);
        all.filter(|(name, _)| name == claim).count()
    }
}

impl PublishedSet {
    /// Returns the subject of its claims.
    #[must_use]
    pub fn subject(&self) -> String {
        let kind = MetricKind::named(self.metric);
        let title = kind.map_or(self.metric, |kind| kind.title);
        match self.what.as_str() {
            "" => title.to_owned(),
            what => format!("{what}: {title}"),
        }
    }
}

impl Pair<'_> {
    /// Returns the name of the claim that it makes, as a figure of a set.
    #[must_use]
    pub fn name(&self, set: &PublishedSet) -> String {
        name(set, self.higher, self.lower)
    }
}

/// Returns the name of the claim that a figure of a set is higher than another.
#[must_use]
pub fn name(set: &PublishedSet, higher: &str, lower: &str) -> String {
    format!("{}: {higher} > {lower}", set.subject())
}
