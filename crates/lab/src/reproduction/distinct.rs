//! [`Distinct`]: a claim that counts once, whatever number of sources and plans state it.

use std::collections::BTreeMap;

use super::{Decided, Order, Reproduction, Tally, Verdict, kind};
use crate::metric::MetricKind;
use crate::plan::{ClaimRule, Size};
use crate::statistics::Mean;
use crate::statistics::paired::LogRatio;

/// A claim with the verdicts of both kinds of machines.
#[derive(Debug, Clone)]
pub struct Distinct {
    /// The claim as a sentence, or as figures of which one is higher.
    pub text: String,
    /// The sources that state it.
    pub sources: Vec<String>,
    /// Its published size, if it is a ratio.
    pub size: Option<Size>,
    /// The verdict of simulated machines of the period.
    pub simulated: Column,
    /// The verdict of the running kernel's file systems.
    pub kernel: Column,
}

/// The verdict of one kind of machines.
#[derive(Debug, Clone)]
pub struct Column {
    /// The verdict.
    pub verdict: Verdict,
    /// The plan that gave it; `None` if no plan of this kind has the claim.
    pub plan: Option<String>,
    /// Our ratio, if the claim compares two figures.
    pub ratio: Option<LogRatio>,
    /// Our figure, if the claim is about one.
    pub figure: Option<(&'static MetricKind, Mean)>,
    /// The input that explains the difference.
    pub explained: Option<String>,
}

impl Default for Column {
    fn default() -> Self {
        Self {
            verdict: Verdict::NotRun,
            plan: None,
            ratio: None,
            figure: None,
            explained: None,
        }
    }
}

/// Returns the claims of all plans, in their order, each once.
#[must_use]
pub fn distinct(all: &[Reproduction]) -> Vec<Distinct> {
    let mut claims: Vec<Distinct> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut add = |key: String, mounts: bool, claim: Distinct| {
        let place = *places.entry(key).or_insert(claims.len());
        if place == claims.len() {
            claims.push(claim);
            return;
        }
        let own = &mut claims[place];
        for source in claim.sources {
            if !own.sources.contains(&source) {
                own.sources.push(source);
            }
        }
        own.size = own.size.or(claim.size);
        let (own, new) = match mounts {
            true => (&mut own.kernel, claim.kernel),
            false => (&mut own.simulated, claim.simulated),
        };
        // Of several plans the first that was run decides.
        if own.plan.is_none() || own.verdict == Verdict::NotRun {
            *own = new;
        }
    };
    for own in all {
        let mounts = own.plan.mounts();
        for order in own.orders.iter().filter(|order| order.is_counted) {
            let (key, claim) = of_order(own, order, mounts);
            add(key, mounts, claim);
        }
        for decided in &own.claims {
            let claim = of_claim(own, decided, mounts);
            add(claim.text.to_lowercase(), mounts, claim);
        }
    }
    claims
}

impl Distinct {
    fn new(text: String, source: &str, size: Option<Size>, column: Column, mounts: bool) -> Self {
        let (simulated, kernel) = match mounts {
            true => (Column::default(), column),
            false => (column, Column::default()),
        };
        Self {
            text,
            sources: vec![source.to_owned()],
            size,
            simulated,
            kernel,
        }
    }
}

/// Returns the number of claims with each verdict, on simulated machines and on the kernel.
pub(super) fn tallies(claims: &[Distinct]) -> (Tally, Tally) {
    let simulated = claims.iter().map(|claim| claim.simulated.verdict);
    let kernel = claims.iter().map(|claim| claim.kernel.verdict);
    (simulated.collect(), kernel.collect())
}

fn of_order(own: &Reproduction, order: &Order, mounts: bool) -> (String, Distinct) {
    let set = &own.plan.published_sets[order.set];
    let (higher, lower) = (&order.higher, &order.lower);
    let subject = match set.what.as_str() {
        "" => kind(set.metric).title.to_owned(),
        what => format!("{what}: {}", kind(set.metric).title),
    };
    let key = format!(
        "{}|{}|{}|{higher}|{lower}",
        set.source, set.metric, set.what
    );
    let explained = set.explained.as_ref().map(|own| own.input.clone());
    let column = Column {
        verdict: order.verdict,
        plan: Some(own.plan.name.clone()),
        ratio: order.ours,
        figure: None,
        explained: explained.filter(|_| order.verdict == Verdict::Explained),
    };
    let text = format!("{subject}: {higher} > {lower}");
    let size = order.published.map(Size::from);
    let claim = Distinct::new(text, &set.source, size, column, mounts);
    (key.to_lowercase(), claim)
}

fn of_claim(own: &Reproduction, decided: &Decided, mounts: bool) -> Distinct {
    let claim = &decided.claim;
    let (size, metric) = match &claim.test {
        Some(test) => match &test.rule {
            ClaimRule::Higher(_, _, size) => (*size, None),
            ClaimRule::Alike(..) => (None, None),
            ClaimRule::Between(..) => (None, Some(kind(test.metric))),
        },
        None => (None, None),
    };
    let explained = claim.explained.as_ref().map(|own| own.input.clone());
    let figure = decided.ours.first().copied().flatten();
    let column = Column {
        verdict: decided.verdict,
        plan: Some(own.plan.name.clone()),
        ratio: decided.ratio,
        figure: metric.zip(figure),
        explained: explained.filter(|_| decided.verdict == Verdict::Explained),
    };
    Distinct::new(claim.text.clone(), &claim.source, size, column, mounts)
}
