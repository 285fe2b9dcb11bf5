//! [`Distinct`]: a claim that counts once, whatever number of sources and plans state it.

use std::collections::BTreeMap;

use super::{Decided, Order, Reproduction, Tally, Verdict, kind};
use crate::metric::MetricKind;
use crate::plan::{ClaimRule, Plan, Size, claim_name};
use crate::statistics::Mean;
use crate::statistics::paired::LogRatio;

/// The machines of a plan. Verdicts of different kinds are never added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machines {
    /// The engine on simulated machines of the period.
    Simulated,
    /// The file systems of the running kernel.
    Kernel,
    /// The file systems of a guest's kernel on simulated disks of the period.
    Guest,
}

impl Machines {
    /// All kinds, in the order of a table.
    pub const ALL: [Self; 3] = [Self::Simulated, Self::Kernel, Self::Guest];

    /// Returns the machines of a plan.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        match (plan.mounts(), plan.has_guests()) {
            (true, _) => Self::Kernel,
            (false, true) => Self::Guest,
            (false, false) => Self::Simulated,
        }
    }

    /// Returns the head of a column.
    #[must_use]
    pub fn head(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Kernel => "kernel",
            Self::Guest => "kernel 6.1, simulated disk",
        }
    }

    /// Returns a description.
    #[must_use]
    pub fn described(self) -> &'static str {
        match self {
            Self::Simulated => "simulated, of the period",
            Self::Kernel => "this machine, the running kernel",
            Self::Guest => "kernel 6.1 in a guest, simulated disk and memory of the period",
        }
    }
}

/// A claim with the verdicts of all kinds of machines.
#[derive(Debug, Clone)]
pub struct Distinct {
    /// The claim as a sentence, or as figures of which one is higher.
    pub text: String,
    /// The sources that state it.
    pub sources: Vec<String>,
    /// Its published size, if it is a ratio.
    pub size: Option<Size>,
    // The verdicts, in the order of `Machines::ALL`.
    columns: [Column; Machines::ALL.len()],
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
    /// The cause that the plan gives, which counts if the claim is not reproduced or not run.
    pub cause: Option<String>,
}

impl Default for Column {
    fn default() -> Self {
        Self {
            verdict: Verdict::NotRun,
            plan: None,
            ratio: None,
            figure: None,
            explained: None,
            cause: None,
        }
    }
}

/// Returns the claims of all plans, in their order, each once.
#[must_use]
pub fn distinct(all: &[Reproduction]) -> Vec<Distinct> {
    let mut claims: Vec<Distinct> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut add = |key: String, machines: Machines, mut claim: Distinct| {
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
        let (own, new) = [&mut own.columns, &mut claim.columns]
            .map(|columns| &mut columns[machines as usize])
            .into();
        // Of several plans the first that was run decides.
        if own.plan.is_none() || own.verdict == Verdict::NotRun {
            std::mem::swap(own, new);
        }
    };
    for own in all {
        let machines = Machines::of(&own.plan);
        for order in own.orders.iter().filter(|order| order.is_counted) {
            let (key, claim) = of_order(own, order, machines);
            add(key, machines, claim);
        }
        for decided in &own.claims {
            let claim = of_claim(own, decided, machines);
            add(claim.text.to_lowercase(), machines, claim);
        }
    }
    claims
}

impl Distinct {
    fn new(
        text: String,
        source: &str,
        size: Option<Size>,
        column: Column,
        machines: Machines,
    ) -> Self {
        let mut columns: [Column; Machines::ALL.len()] = std::array::from_fn(|_| Column::default());
        columns[machines as usize] = column;
        Self {
            text,
            sources: vec![source.to_owned()],
            size,
            columns,
        }
    }

    /// Returns the verdict of one kind of machines.
    #[must_use]
    pub fn on(&self, machines: Machines) -> &Column {
        &self.columns[machines as usize]
    }
}

/// Returns the kinds of machines that any of the claims has a plan of.
pub(super) fn present(claims: &[Distinct]) -> Vec<Machines> {
    let has_plan = |machines: &Machines| claims.iter().any(|own| own.on(*machines).plan.is_some());
    Machines::ALL.into_iter().filter(has_plan).collect()
}

/// Returns the number of claims with each verdict on one kind of machines.
pub(super) fn tally(claims: &[Distinct], machines: Machines) -> Tally {
    claims.iter().map(|own| own.on(machines).verdict).collect()
}

fn of_order(own: &Reproduction, order: &Order, machines: Machines) -> (String, Distinct) {
    let set = &own.plan.published_sets[order.set];
    let (higher, lower) = (&order.higher, &order.lower);
    let text = claim_name(set, higher, lower);
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
        cause: own.plan.cause_of(&text).map(str::to_owned),
    };
    let size = order.published.map(Size::from);
    let claim = Distinct::new(text, &set.source, size, column, machines);
    (key.to_lowercase(), claim)
}

fn of_claim(own: &Reproduction, decided: &Decided, machines: Machines) -> Distinct {
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
        cause: own.plan.cause_of(&claim.text).map(str::to_owned),
    };
    Distinct::new(claim.text.clone(), &claim.source, size, column, machines)
}
