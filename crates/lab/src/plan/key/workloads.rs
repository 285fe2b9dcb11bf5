//! The keys of the workloads, derived from their tables of parameters.

use std::borrow::Cow;

use workload::{Definition, Parameter, ParameterKind, Setting, WORKLOADS, stage};

use super::{Initial, Key};
use crate::plan::value::Kind;

/// The names of all workloads.
pub(super) const NAMES: [&str; WORKLOADS.len()] = names();

/// The number of keys in the workloads' tables.
pub(super) const COUNT: usize = count();

/// Returns true if a key applies to a workload: it is one of its parameters, or no workload's.
pub(crate) fn concerns(key: &str, workload: &str) -> bool {
    let has = |definition: &Definition| definition.all_parameters().any(|own| own.name == key);
    let mut owners = WORKLOADS
        .iter()
        .filter(|definition| has(definition))
        .peekable();
    owners.peek().is_none() || owners.any(|owner| owner.name == workload)
}

/// Joins the lab's own keys with those of the workloads.
pub(super) const fn join<const OWN: usize, const ALL: usize>(own: &[Key; OWN]) -> [Key; ALL] {
    let mut all = [own[0]; ALL];
    let mut at = 0;
    while at < OWN {
        all[at] = own[at];
        at += 1;
    }
    let mut table = 0;
    while table <= WORKLOADS.len() {
        let parameters = parameters(table);
        let mut row = 0;
        while row < parameters.len() {
            all[at] = key_of(&parameters[row]);
            at += 1;
            row += 1;
        }
        table += 1;
    }
    assert!(at == ALL, "every key is in its place");
    all
}

/// Returns the parameters of a table: table 0 is common to all workloads, table n belongs to the
/// workload n - 1.
const fn parameters(table: usize) -> &'static [Parameter] {
    if table == 0 {
        stage::PARAMETERS
    } else {
        WORKLOADS[table - 1].parameters
    }
}

const fn count() -> usize {
    let (mut count, mut table) = (0, 0);
    while table <= WORKLOADS.len() {
        count += parameters(table).len();
        table += 1;
    }
    count
}

const fn names() -> [&'static str; WORKLOADS.len()] {
    let mut names = [""; WORKLOADS.len()];
    let mut at = 0;
    while at < WORKLOADS.len() {
        names[at] = WORKLOADS[at].name;
        at += 1;
    }
    names
}

const fn key_of(parameter: &Parameter) -> Key {
    Key {
        name: parameter.name,
        kind: match parameter.kind {
            ParameterKind::Switch => Kind::Switch,
            ParameterKind::Number(least, most) => Kind::Number(least, most),
            ParameterKind::Bytes => Kind::Bytes,
            ParameterKind::Time => Kind::Time,
            ParameterKind::Range(most) => Kind::Range(most),
            ParameterKind::Word(words) => Kind::Word(words),
            ParameterKind::Text => Kind::Text,
        },
        default: match &parameter.default {
            Setting::Switch(on) => Initial::Switch(*on),
            Setting::Number(number) => Initial::Number(*number),
            Setting::Bytes(bytes) => Initial::Bytes(*bytes),
            Setting::Time(span) => Initial::Nanos(span.get()),
            Setting::Range(low, high) => Initial::Range(*low, *high),
            Setting::Text(Cow::Borrowed(text)) => Initial::Text(text),
            Setting::Text(Cow::Owned(_)) => panic!("a table holds no owned text"),
        },
        meaning: parameter.meaning,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_concerns_its_workload_or_all() {
        for (key, workload, expected) in [
            ("device", "postmark", true),
            ("device", "synctest", true),
            ("postmark.seed", "postmark", true),
            ("postmark.seed", "synctest", false),
            ("bench.seed", "synctest", true),
            ("bench.seed", "postmark", false),
            ("synctest.tasks", "synctest", true),
            ("synctest.tasks", "postmark", false),
        ] {
            assert_eq!(concerns(key, workload), expected, "{key} {workload}");
        }
    }
}
