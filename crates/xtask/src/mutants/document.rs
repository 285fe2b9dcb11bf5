//! The document about mutants: the broken rules, and the effort of detecting each.

use std::fmt::Write as _;

use crash::hunt::{Catch, Hunt};
use crash::mutant::NAMED;
use crash::rule::Broken;

use super::{BUILD, Row, Terms};

/// Maximum number of characters shown of a finding.
const SHOWN_CHARACTERS: usize = 110;

pub(super) const HEAD: &str = "# Mutants

How strong is `jext crash`? Each mutant breaks one rule of the engine on purpose, and the explorer, which does not know, looks
for it with numbered workloads, once for each of several seeds. Which workloads hunt a mutant is chosen by hand, and some workloads were
written after others had missed it with these seeds: the figures say what the explorer can notice with help, not how soon it would without.

This document is written by

";

/// Mutants that were removed because no workload can distinguish them from the correct engine.
const EQUIVALENT: &str = "
## Equivalent, and removed

`revoke/not-cancelled-by-reuse` (using a block again as metadata cancels its revoke in the same transaction) broke nothing that a
volume can do. A revoke is noted by `Transaction::forget` only; `ext` calls that for map blocks, directories, journaled data and
attribute blocks, each time with the `free_blocks` of the same handle. `free_blocks` puts the run among those that
the transaction has freed, and the allocator takes none of these until that transaction's commit record is durable. So
whoever files the block again does it in a later transaction, whose set of revokes does not have it. The rule itself belongs to `jbd2`, whose
test `forgetting_gives_the_credit_back_and_reuse_cancels_the_revoke` looks at it without `ext`.

`abort/dropped-handle-committed` (a handle that is dropped after it has changed something stops all commits) broke nothing that a
failing device can bring about. `ext` reads what an operation needs before its first change, writes data outside handles or after
them, and takes its changes back before it returns an error: no handle is dropped after a change but by a panic. The explorer holds
that: a dropped handle would end all commits, and where nothing but reads has failed rule E5 complains of a volume that has become
read-only, with each read of the short workloads failed in turn. Of 4,252 journals that aborted in a run of two minutes with failing devices,
none did for that reason. The rule itself belongs to `jbd2`, whose tests `a_handle_dropped_after_a_change_aborts` and `a_handle_dropped_by_a_panic_aborts`
look at it without `ext`.
";

/// Returns the result of a hunt in one line.
pub(super) fn line(name: &str, seed: u64, hunt: &Hunt) -> String {
    let found = match &hunt.catch {
        Some(catch) if !hunt.is_caught() => {
            format!(
                "FALSE ALARM, with nothing broken, too, in {}",
                workload_of(catch)
            )
        }
        Some(catch) => format!("{} in {}", catch.broken.rule, workload_of(catch)),
        None => "no complaint".to_owned(),
    };
    let (states, seconds) = (hunt.states, hunt.elapsed.as_secs_f64());
    format!("{name}, seed {seed}: {found} after {states} states, {seconds:.1} s")
}

/// Returns the name of the workload that caught a mutant.
pub(super) fn workload_of(catch: &Catch) -> String {
    format!("{}: {} ({})", catch.kind, catch.number, catch.cell)
}

/// Returns a finding as one line that fits a table.
fn what_of(broken: &Broken) -> String {
    let line = broken.what.replace(['\n', '|'], " ");
    let short: String = line.chars().take(SHOWN_CHARACTERS).collect();
    if short.len() < line.len() {
        format!("{short}...")
    } else {
        short
    }
}

/// Returns the states for each seed; those of hunts without a catch are in brackets.
fn states_of(row: &Row) -> String {
    let of = |hunt: &Hunt| {
        if hunt.is_caught() {
            hunt.states.to_string()
        } else {
            format!("({})", hunt.states)
        }
    };
    row.hunts.iter().map(of).collect::<Vec<_>>().join(", ")
}

/// Returns the tables.
pub(super) fn to_text(rows: &[Row], terms: &Terms) -> String {
    let seeds: Vec<String> = terms.seeds.iter().map(ToString::to_string).collect();
    let (seeds, states_max) = (seeds.join(","), terms.states_max);
    let mut text = format!(
        "    {BUILD} --seed {seeds} --states-max {states_max} --out docs/mutants.md\n\n\
         A *state* is an image that a power cut left, and that was recovered, checked and compared in full; counted are those\n\
         that passed until the first complaint, for each seed. A panic or a deadlock of the engine counts as a complaint. A hunt ends after\n\
         {states_max} states, at the end of a workload; the states of one that caught nothing are in brackets.\n\n"
    );
    unbroken(&mut text, rows);
    let is_seen = |row: &&Row| row.hunts.iter().any(Hunt::is_caught);
    let (always, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.is_caught());
    let (sometimes, never): (Vec<_>, Vec<_>) = others.into_iter().partition(is_seen);
    let all = rows.len();
    let _ = writeln!(
        text,
        "## Caught with every seed: {} of {all}\n",
        always.len()
    );
    median(&mut text, &always);
    caught(&mut text, &always);
    if !sometimes.is_empty() {
        let _ = writeln!(
            text,
            "\n## Caught with some seeds: {} of {all}\n",
            sometimes.len()
        );
        caught(&mut text, &sometimes);
    }
    let _ = writeln!(text, "\n## Not caught: {} of {all}", never.len());
    if !never.is_empty() {
        text.push_str("\n| mutant | breaks | states |\n|---|---|--:|\n");
    }
    for row in never {
        let (name, rule, states) = (row.mutant.name, row.mutant.rule, states_of(row));
        let _ = writeln!(text, "| `{name}` | {rule} | {states} |");
    }
    by_tests(&mut text);
    text.push_str(EQUIVALENT);
    text
}

/// Appends the mutants that tests of the engine catch.
fn by_tests(text: &mut String) {
    text.push_str(
        "\n## Caught by tests of the engine\n\nWhat these break shows in no image that a power cut leaves. The test breaks the rule \
         in a simulated world and\nfails if nobody notices.\n\n| mutant | breaks | test |\n|---|---|---|\n",
    );
    for mutant in NAMED {
        let (name, rule, test) = (mutant.name, mutant.rule, mutant.test);
        let _ = writeln!(text, "| `{name}` | {rule} | `crates/{test}` |");
    }
}

/// Appends the results of the catching workloads on the correct engine.
fn unbroken(text: &mut String, rows: &[Row]) {
    let hunts = rows.iter().flat_map(|row| &row.hunts);
    let catches: Vec<&Catch> = hunts.filter_map(|hunt| hunt.catch.as_ref()).collect();
    let states: u64 = catches.iter().map(|catch| catch.control.states).sum();
    let _ = writeln!(
        text,
        "Each workload that caught a mutant was then explored with nothing broken: {} times, {states} states.",
        catches.len()
    );
    let complaints = catches.iter().filter_map(|catch| {
        let broken = catch.control.broken.as_ref()?;
        Some(format!("- {}: {}\n", workload_of(catch), what_of(broken)))
    });
    let complaints: String = complaints.collect();
    text.push_str(if complaints.is_empty() {
        "There was no complaint.\n\n"
    } else {
        "These are complaints about the engine as it is:\n\n"
    });
    text.push_str(&complaints);
}

/// Appends the number of states until a catch, with the slowest seed of each mutant.
fn median(text: &mut String, rows: &[&Row]) {
    let worst = |row: &&Row| row.hunts.iter().map(|hunt| hunt.states).max();
    let mut states: Vec<u64> = rows.iter().filter_map(worst).collect();
    states.sort_unstable();
    let (Some(median), Some(most)) = (states.get(states.len() / 2), states.last()) else {
        return;
    };
    let _ = writeln!(
        text,
        "States until caught, with the seed that took most: {median} in the median, {most} at most.\n"
    );
}

/// Appends a table of the caught mutants: the first catch of each, and the states of all hunts.
fn caught(text: &mut String, rows: &[&Row]) {
    text.push_str("| mutant | breaks | caught by | workload | states | what was seen |\n|---|---|---|---|--:|---|\n");
    for row in rows {
        let Some(catch) = row.hunts.iter().find_map(|hunt| hunt.catch.as_ref()) else {
            continue;
        };
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} |",
            row.mutant.name,
            row.mutant.rule,
            catch.broken.rule,
            workload_of(catch),
            states_of(row),
            what_of(&catch.broken)
        );
    }
}
