//! [`Reproduction`]: published results compared with records, claim by claim.
//!
//! # Claims
//!
//! Figures that stand beside each other where they were published (a [`PublishedSet`]) claim an
//! order and its size: of each pair that differs by more than [`TIE`], one is higher by a factor.
//! What a plan says in `[[claim]]` is decided by its own rule; "about the same" is a difference of
//! at most [`SATURATION`]. The rules are in [`Verdict`]; figures of ours are compared in pairs of
//! repetitions.
//!
//! A claim without records, or about a configuration that the plan does not run, counts as not run,
//! never as reproduced.

mod document;
mod verdict;

use std::path::Path;

use crate::metric::MetricKind;
use crate::plan::{Cell, Claim, ClaimRule, Plan, Published, PublishedSet};
use crate::record::Record;
use crate::report::gather::{Gathered, gather};
use crate::report::{SATURATION, TIE};
use crate::statistics::paired::{ByRepetition, LogRatio};
use crate::statistics::{Interval, Mean, Sample};
use crate::store::{Brief, Store, StoreError, latest};

pub use verdict::{Tally, Verdict};

/// A plan's published figures and claims with the results of its records.
#[derive(Debug, Clone)]
pub struct Reproduction {
    /// The plan.
    pub plan: Plan,
    /// The published figures with ours.
    pub figures: Vec<Figure>,
    /// The orders claimed by the published figures.
    pub orders: Vec<Order>,
    /// The claims of the plan's `[[claim]]`.
    pub claims: Vec<Decided>,
    /// The records that the results are from.
    pub records: Vec<Record>,
}

/// A published figure beside ours.
#[derive(Debug, Clone)]
pub struct Figure {
    /// The index of its set in the plan.
    pub set: usize,
    /// Its label in the set.
    pub label: String,
    /// The published figure, in the metric's SI unit.
    pub published: f64,
    /// Our figure.
    pub ours: Option<Mean>,
    /// True if the plan runs it.
    pub is_run: bool,
}

/// Two published figures of which one is higher.
#[derive(Debug, Clone)]
pub struct Order {
    /// The index of the set in the plan.
    pub set: usize,
    /// The higher one.
    pub higher: String,
    /// The lower one.
    pub lower: String,
    /// The verdict of our records.
    pub verdict: Verdict,
    /// The ratio of the published figures; `None` if the lower one is zero.
    pub published: Option<f64>,
    /// The ratio of our figures: the one claimed to be higher over the other.
    pub ratio: Option<f64>,
}

/// A claim with its verdict.
#[derive(Debug, Clone)]
pub struct Decided {
    /// The claim.
    pub claim: Claim,
    /// The verdict of our records.
    pub verdict: Verdict,
    /// The figures that decided it, in the order of its rule.
    pub ours: Vec<Option<Mean>>,
}

impl Reproduction {
    /// Reads the records in a folder and compares them with a plan's published figures.
    ///
    /// # Errors
    /// Fails if the records cannot be read.
    pub fn read(plan: Plan, folder: &Path) -> Result<Self, StoreError> {
        let store = Store::new(folder, &plan);
        let records: Vec<Record> = latest(store.read()?).into_values().collect();
        Ok(Self::of(plan, records))
    }

    /// Compares records with a plan's published figures.
    #[must_use]
    pub fn of(plan: Plan, records: Vec<Record>) -> Self {
        let briefs: Vec<Brief> = records.iter().map(Brief::from).collect();
        let found = Found {
            gathered: gather(&plan, &briefs),
        };
        let sets = || plan.published_sets.iter().enumerate();
        let figures = sets().flat_map(|(set, own)| found.figures(&plan, set, own));
        let orders = sets().flat_map(|(set, own)| found.orders(&plan, set, own));
        let claims = plan.claims.iter().map(|claim| found.decide(claim));
        let (figures, orders, claims) = (figures.collect(), orders.collect(), claims.collect());
        Self {
            figures,
            orders,
            claims,
            records,
            plan,
        }
    }

    /// Returns true if the plan has published figures or claims.
    #[must_use]
    pub fn has_claims(&self) -> bool {
        !self.figures.is_empty() || !self.claims.is_empty()
    }

    /// Returns the number of claims with each verdict.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let orders = self.orders.iter().map(|order| order.verdict);
        orders
            .chain(self.claims.iter().map(|own| own.verdict))
            .collect()
    }

    /// Returns Kendall's tau over the pairs of all tables: 1 if ours have the published order, -1
    /// if they have its reverse; `None` if no pair was run.
    #[must_use]
    pub fn tau(&self) -> Option<f64> {
        let signs: Vec<f64> = self
            .orders
            .iter()
            .filter_map(|order| match order.ratio? {
                1.0 => Some(0.0),
                ratio => Some((ratio - 1.0).signum()),
            })
            .collect();
        let count = signs.len() as f64;
        (count > 0.0).then(|| signs.iter().sum::<f64>() / count)
    }
}

/// Returns all reproductions as one document in Markdown.
#[must_use]
pub fn document(all: &[Reproduction]) -> String {
    document::render(all)
}

/// Returns all reproductions as JSON.
#[must_use]
pub fn json(all: &[Reproduction]) -> serde_json::Value {
    document::json(all)
}

/// The figures of the records, by combination.
struct Found<'r> {
    gathered: Vec<Gathered<'r>>,
}

impl Found<'_> {
    /// Returns a figure by repetition, if there are records of it.
    fn values(&self, cell: &Cell, metric: &str) -> Option<ByRepetition> {
        let mut all = self.gathered.iter();
        let own = all.find(|own| cell.is_at(&own.combination.trial(0, false)))?;
        Some(own.by_repetition(metric)).filter(|values| !values.is_empty())
    }

    fn figures(&self, plan: &Plan, set: usize, own: &PublishedSet) -> Vec<Figure> {
        let run = of_set(plan, set).map(|published| Figure {
            set,
            label: published.cell.label.clone(),
            published: published.value,
            ours: self
                .values(&published.cell, published.metric)
                .and_then(|values| describe(&values)),
            is_run: true,
        });
        let absent = own.absent.iter().map(|absent| Figure {
            set,
            label: absent.label.clone(),
            published: absent.value,
            ours: None,
            is_run: false,
        });
        run.chain(absent).collect()
    }

    /// Returns every pair of a set's figures that differ by more than a tie.
    fn orders(&self, plan: &Plan, set: usize, own: &PublishedSet) -> Vec<Order> {
        if !own.is_compared {
            return Vec::new();
        }
        let run = of_set(plan, set).map(|published| {
            let values = self.values(&published.cell, published.metric);
            (published.cell.label.as_str(), published.value, values)
        });
        let absent = own.absent.iter();
        let absent = absent.map(|absent| (absent.label.as_str(), absent.value, None));
        let mut all: Vec<(&str, f64, Option<ByRepetition>)> = run.chain(absent).collect();
        all.sort_by(|one, other| other.1.total_cmp(&one.1));
        let mut orders = Vec::new();
        for (index, (higher, more, our_more)) in all.iter().enumerate() {
            for (lower, less, our_less) in &all[index + 1..] {
                if *less > 0.0 && more / less - 1.0 <= TIE {
                    continue;
                }
                let ours = our_more.as_ref().zip(our_less.as_ref());
                let ours = ours.and_then(|(more, less)| LogRatio::of(more, less));
                let published = (*less > 0.0).then(|| more / less);
                orders.push(Order {
                    set,
                    higher: (*higher).to_owned(),
                    lower: (*lower).to_owned(),
                    verdict: Verdict::of_order(ours, published),
                    published,
                    ratio: ours.map(|ours| 1.0 + ours.share()),
                });
            }
        }
        orders
    }

    fn decide(&self, claim: &Claim) -> Decided {
        let Some(test) = &claim.test else {
            return Decided {
                claim: claim.clone(),
                verdict: Verdict::NotRun,
                ours: Vec::new(),
            };
        };
        let values: Vec<Option<ByRepetition>> = test
            .cells()
            .map(|cell| self.values(cell, test.metric))
            .collect();
        let ours: Vec<Option<Mean>> = values.iter().map(|own| describe(own.as_ref()?)).collect();
        let verdict = match (&test.rule, &values[..]) {
            (ClaimRule::Higher(..), [Some(more), Some(less)]) => {
                Verdict::of_order(LogRatio::of(more, less), None)
            }
            (ClaimRule::Alike(..), [Some(one), Some(other)]) => {
                Verdict::of_likeness(LogRatio::of(one, other), SATURATION)
            }
            (ClaimRule::Between(_, low, high), [Some(_)]) => {
                let (low, high) = (*low, *high);
                Verdict::of_limits(ours[0], Interval { low, high })
            }
            _ => Verdict::NotRun,
        };
        Decided {
            claim: claim.clone(),
            verdict,
            ours,
        }
    }
}

fn describe(values: &ByRepetition) -> Option<Mean> {
    let sample = Sample::new(values.values().copied().collect())?;
    Some(sample.describe())
}

fn of_set(plan: &Plan, set: usize) -> impl Iterator<Item = &Published> {
    plan.published.iter().filter(move |own| own.set == set)
}

/// Returns the metric of a set or claim.
fn kind(metric: &str) -> &'static MetricKind {
    MetricKind::named(metric).expect("a plan that was read has known metrics only")
}

#[cfg(test)]
mod tests;
