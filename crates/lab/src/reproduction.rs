//! [`Reproduction`]: published results compared with records, claim by claim.
//!
//! # Claims
//!
//! Figures that stand beside each other where they were published (a [`PublishedSet`]) claim an
//! order and its size: of each pair that differs by more than [`TIE`](crate::plan::TIE), one is
//! higher by a factor. Seven figures have 21 pairs and no more than six independent differences, so
//! a set counts one claim for each figure other than its first; Kendall's tau is over all pairs. A
//! claim that several plans or sources state counts once, with a verdict of each kind of
//! [`Machines`] ([`Distinct`]).
//!
//! What a plan says in `[[claim]]` is decided by its own rule; "about the same" is a difference of
//! at most [`SATURATION`]. The rules are in [`Verdict`]; figures of ours are compared in pairs of
//! repetitions.
//!
//! A claim without records, or about a configuration that the plan does not run, counts as not run,
//! never as reproduced.

mod causes;
mod distinct;
mod document;
mod number;
mod stamp;
mod table;
mod verdict;

use std::path::Path;

use crate::metric::MetricKind;
use crate::plan::{
    Cell, Claim, ClaimRule, ClaimTest, Combination, Explanation, Limit, Pair, Plan, Published,
    PublishedSet, Size,
};
use crate::record::Record;
use crate::report::SATURATION;
use crate::report::gather::{Gathered, gather};
use crate::setup::Setup;
use crate::statistics::paired::{ByRepetition, LogRatio};
use crate::statistics::{Interval, Mean, Sample};
use crate::store::{Brief, Store, StoreError, latest};

pub use distinct::{Column, Distinct, Machines, distinct};
pub use stamp::{sentences as stamps, stamp};
pub use table::table;
pub use verdict::{Tally, Verdict};

/// The kind of a device in memory, in its text.
const MEMORY: &str = "mem:";

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
    /// True if one of them is the set's first figure: these pairs count as claims, the others
    /// follow from them.
    pub is_counted: bool,
    /// The verdict of our records.
    pub verdict: Verdict,
    /// The ratio of the published figures; `None` if the lower one is zero.
    pub published: Option<f64>,
    /// The ratio of our figures: the one claimed to be higher over the other.
    pub ours: Option<LogRatio>,
}

/// A claim with its verdict.
#[derive(Debug, Clone)]
pub struct Decided {
    /// The claim.
    pub claim: Claim,
    /// The verdict of our records.
    pub verdict: Verdict,
    /// The ratio of the two figures that it compares, if it compares two.
    pub ratio: Option<LogRatio>,
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

    /// Returns the number of claims with each verdict. A set of figures has as many claims as
    /// figures that differ from its first.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let orders = self.orders.iter().filter(|order| order.is_counted);
        let orders = orders.map(|order| order.verdict);
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
            .filter_map(|order| match order.ours?.mean {
                0.0 => Some(0.0),
                mean => Some(mean.signum()),
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

/// A figure by repetition.
struct Values {
    by_repetition: ByRepetition,
    /// True if the device of the trials is the memory of the machine that runs them.
    is_in_memory: bool,
}

impl Found<'_> {
    /// Returns a figure by repetition, if there are records of it.
    fn values(&self, cell: &Cell, metric: &str) -> Option<Values> {
        let mut all = self.gathered.iter();
        let own = all.find(|own| cell.is_at(&own.combination.trial(0, false)))?;
        let by_repetition = own.by_repetition(metric);
        (!by_repetition.is_empty()).then(|| Values {
            by_repetition,
            is_in_memory: is_in_memory(&own.combination),
        })
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
        let order = |pair: Pair<'_>| {
            let test = pair.cells.map(|(more, less)| ClaimTest {
                metric: own.metric,
                rule: ClaimRule::Higher(more.clone(), less.clone(), pair.ratio.map(Size::from)),
            });
            let (verdict, ours) = self.judge(test.as_ref(), own.limit, own.explained.as_ref());
            Order {
                set,
                higher: pair.higher.to_owned(),
                lower: pair.lower.to_owned(),
                is_counted: pair.is_counted,
                verdict,
                published: pair.ratio,
                ours,
            }
        };
        plan.pairs(set).into_iter().map(order).collect()
    }

    fn decide(&self, claim: &Claim) -> Decided {
        let test = claim.test.as_ref();
        let (verdict, ratio) = self.judge(test, claim.limit, claim.explained.as_ref());
        let ours = test.into_iter().flat_map(|test| {
            let cells = test.cells();
            cells.map(|cell| describe(&self.values(cell, test.metric)?))
        });
        Decided {
            claim: claim.clone(),
            verdict,
            ratio,
            ours: ours.collect(),
        }
    }

    /// Returns the verdict on a test, with the ratio of the figures that it compares.
    fn judge(
        &self,
        test: Option<&ClaimTest>,
        limit: Limit,
        explained: Option<&Explanation>,
    ) -> (Verdict, Option<LogRatio>) {
        let Some(test) = test else {
            return (Verdict::NotRun, None);
        };
        let values = |cell: &Cell| self.values(cell, test.metric);
        let (verdict, ratio) = apply(&test.rule, values);
        let is_in_memory = test.cells().filter_map(values).any(|own| own.is_in_memory);
        if is_in_memory && limit == Limit::Disk {
            return (Verdict::InMemory, ratio);
        }
        if let (true, Some(explained)) = (verdict.is_run(), explained)
            && verdict != Verdict::Reproduced
        {
            let (with, _) = apply(&test.rule, |cell| values(&explained.replace(cell)));
            if with == Verdict::Reproduced {
                return (Verdict::Explained, ratio);
            }
        }
        (verdict, ratio)
    }
}

/// Applies a rule to the figures of its cells.
fn apply(
    rule: &ClaimRule,
    values: impl Fn(&Cell) -> Option<Values>,
) -> (Verdict, Option<LogRatio>) {
    let ratio = |one: &Cell, other: &Cell| {
        let (one, other) = values(one).zip(values(other))?;
        LogRatio::of(&one.by_repetition, &other.by_repetition)
    };
    match rule {
        ClaimRule::Higher(more, less, size) => {
            let ratio = ratio(more, less);
            (Verdict::of_order(ratio, *size), ratio)
        }
        ClaimRule::Alike(one, other) => {
            let ratio = ratio(one, other);
            (Verdict::of_likeness(ratio, SATURATION), ratio)
        }
        ClaimRule::Between(cell, low, high) => {
            let (low, high) = (*low, *high);
            let mean = values(cell).and_then(|values| describe(&values));
            (Verdict::of_limits(mean, Interval { low, high }), None)
        }
    }
}

/// Returns true if the device of a combination is the memory of the machine that runs it.
fn is_in_memory(combination: &Combination) -> bool {
    let device = combination.settings.get("device").map(ToString::to_string);
    let setup = Setup::of(&combination.settings);
    device.is_some_and(|device| device.starts_with(MEMORY))
        && setup.is_ok_and(|setup| !setup.is_simulated())
}

fn describe(values: &Values) -> Option<Mean> {
    let sample = Sample::new(values.by_repetition.values().copied().collect())?;
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
