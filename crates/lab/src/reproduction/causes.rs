//! The claims that are not reproduced, grouped by the causes that plans give.

use std::fmt::Write;

use super::{Distinct, Machines, Reproduction, Verdict};

const INFALLIBLE: &str = "writing to a string does not fail";
/// The cause of claims for which no plan gives one.
const UNKNOWN: &str = "not found out";
/// The verdicts whose claims are listed, one column each.
const LISTED: [Verdict; 2] = [Verdict::NotReproduced, Verdict::NotRun];

/// Writes a table for each kind of machines for which a plan gives causes.
pub(super) fn markdown(text: &mut String, all: &[Reproduction], claims: &[Distinct]) {
    for machines in Machines::ALL {
        let plans = all.iter().map(|own| &own.plan);
        let plans = plans.filter(|plan| Machines::of(plan) == machines);
        let mut causes: Vec<&str> = Vec::new();
        for cause in plans.flat_map(|plan| &plan.causes) {
            if !causes.contains(&cause.text.as_str()) {
                causes.push(&cause.text);
            }
        }
        if !causes.is_empty() {
            table(text, &causes, claims, machines);
        }
    }
}

fn table(text: &mut String, causes: &[&str], claims: &[Distinct], machines: Machines) {
    let heads = LISTED.map(Verdict::name).join(" | ");
    writeln!(
        text,
        "\n## Not reproduced, by cause: {}\n\n\
         A plan gives a cause only where figures show it. A claim is in one group.\n\n\
         | cause | {heads} |\n|---|---|---|",
        machines.head()
    )
    .expect(INFALLIBLE);
    let row = |cause: Option<&str>| {
        LISTED.map(|verdict| {
            let own = claims.iter().filter(|claim| {
                let column = claim.on(machines);
                column.verdict == verdict && column.cause.as_deref() == cause
            });
            own.map(|claim| claim.text.trim_end_matches('.'))
                .collect::<Vec<_>>()
        })
    };
    for cause in causes {
        write_row(text, cause, row(Some(cause)));
    }
    // A claim that is not run needs no cause: it may just have no records.
    let [others, _] = row(None);
    write_row(text, UNKNOWN, [others, Vec::new()]);
}

/// Writes the claims of a cause, with their number if there are several; nothing if there is none.
fn write_row(text: &mut String, cause: &str, groups: [Vec<&str>; LISTED.len()]) {
    if groups.iter().all(Vec::is_empty) {
        return;
    }
    let cells = groups.map(|claims| match claims.len() {
        0 | 1 => claims.concat(),
        count => format!("{count}: {}", claims.join("; ")),
    });
    writeln!(text, "| {cause} | {} |", cells.join(" | ")).expect(INFALLIBLE);
}
