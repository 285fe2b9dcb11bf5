//! [`stamp`]: a digest of what a document of reproductions is made from, apart from the records.
//!
//! Plans of guests need a kernel that is built apart, so that a document may be made without their
//! records. They have a stamp of their own.

use super::{Machines, Reproduction};
use crate::hash::StableHash;
use crate::plan::{Cell, ClaimRule, Limit, Plan};

/// Returns a digest of the trials, published figures and claims of plans, in hexadecimal. A
/// document with another stamp was made before one of them changed.
#[must_use]
pub fn stamp<'p>(plans: impl IntoIterator<Item = &'p Plan>) -> String {
    let mut hash = StableHash::new();
    for plan in plans {
        add(&mut hash, plan);
    }
    format!("{:016x}", hash.finish())
}

/// Returns the stamps of plans as sentences: one of the plans of guests, one of all others.
#[must_use]
pub fn sentences<'p>(plans: impl IntoIterator<Item = &'p Plan>) -> [Option<String>; 2] {
    let is_guest = |plan: &&Plan| Machines::of(plan) == Machines::Guest;
    let (guests, others): (Vec<&Plan>, Vec<&Plan>) = plans.into_iter().partition(is_guest);
    [
        ("Plans and claims", others),
        ("Plans of guests and their claims", guests),
    ]
    .map(|(what, plans)| {
        let is_any = !plans.is_empty();
        is_any.then(|| format!("{what}: {}.", stamp(plans)))
    })
}

pub(super) fn of(all: &[Reproduction]) -> String {
    stamp(all.iter().map(|own| &own.plan))
}

fn add(hash: &mut StableHash, plan: &Plan) {
    hash.text(&plan.name);
    hash.number(plan.hash());
    for set in &plan.published_sets {
        for text in [set.metric, &set.what, &set.unit, &set.source] {
            hash.text(text);
        }
        optional(hash, set.why.as_deref());
        hash.number(u64::from(set.is_compared));
        limit(hash, set.limit);
        for absent in &set.absent {
            hash.text(&absent.label);
            hash.number(absent.value.to_bits());
        }
        let explained = set.explained.as_ref();
        optional(hash, explained.map(|own| own.input.as_str()));
    }
    for published in &plan.published {
        cell(hash, &published.cell);
        hash.number(published.value.to_bits());
        hash.number(published.set as u64);
    }
    for claim in &plan.claims {
        hash.text(&claim.text);
        hash.text(&claim.source);
        optional(hash, claim.why.as_deref());
        limit(hash, claim.limit);
        let explained = claim.explained.as_ref();
        optional(hash, explained.map(|own| own.input.as_str()));
        let Some(test) = &claim.test else {
            continue;
        };
        hash.text(test.metric);
        test.cells().for_each(|own| cell(hash, own));
        let numbers = match &test.rule {
            ClaimRule::Higher(_, _, size) => size.map(|size| [size.least, size.most]),
            ClaimRule::Alike(..) => Some([0.0, 0.0]),
            ClaimRule::Between(_, low, high) => Some([*low, *high]),
        };
        let numbers = numbers.into_iter().flatten();
        numbers.for_each(|number| hash.number(number.to_bits()));
    }
    for cause in &plan.causes {
        hash.text(&cause.text);
        cause.claims.iter().for_each(|(name, _)| hash.text(name));
    }
}

fn limit(hash: &mut StableHash, limit: Limit) {
    hash.number(u64::from(limit == Limit::Host));
}

fn optional(hash: &mut StableHash, text: Option<&str>) {
    hash.text(text.unwrap_or_default());
}

fn cell(hash: &mut StableHash, cell: &Cell) {
    optional(hash, cell.block.as_deref());
    hash.text(&cell.label);
    for (key, value) in &cell.at {
        hash.text(key.name);
        hash.text(&value.to_string());
    }
}
