//! `jext crash --mutants`: rules of the engine that are broken on purpose, and what it takes to notice.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use clap::Args;
use crash::mutant::{Hunt, MUTANTS, Mutant, Prey, hunt, is_possible, named};
use serde_json::{Value, json};

use crate::output::{print, print_json};
use crate::progress;

/// How such a build is made.
const BUILD: &str =
    "RUSTFLAGS='--cfg jext_mutants' cargo run --target-dir target/mutants -- crash --mutants";
/// How much of what was found is shown.
const SHOWN_CHARACTERS: usize = 110;

/// Breaking the engine on purpose.
#[derive(Debug, Args)]
pub(crate) struct MutantArguments {
    /// Break rules of the engine, one at a time, and count the states until the explorer notices. Only a build for it can.
    #[arg(long, conflicts_with_all = ["all", "cells", "generator", "minutes", "states"])]
    pub(crate) mutants: bool,
    /// Only these mutants.
    #[arg(long, requires = "mutants", value_name = "NAME", num_args = 1..)]
    names: Vec<String>,
    /// After how many states a hunt is given up.
    #[arg(long, requires = "mutants", default_value_t = 50_000)]
    states_max: u64,
    /// Write the table into a document.
    #[arg(long, requires = "mutants", value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A hunt, and for which mutant; none is the engine as it is.
struct Row {
    mutant: Option<&'static Mutant>,
    prey: Prey,
    hunt: Hunt,
}

pub(super) fn run(
    arguments: &MutantArguments,
    seed: u64,
    threads: usize,
    is_json: bool,
) -> Result<ExitCode> {
    if !is_possible() {
        bail!("this build breaks no rules: run {BUILD}");
    }
    let mut jobs: Vec<(Option<&'static Mutant>, Prey)> = Vec::new();
    if arguments.names.is_empty() {
        jobs.extend(Prey::ALL.map(|prey| (None, prey)));
        jobs.extend(MUTANTS.iter().map(|mutant| (Some(mutant), mutant.prey)));
    }
    for name in &arguments.names {
        let mutant = named(name).with_context(|| format!("no mutant is called {name}"))?;
        jobs.push((Some(mutant), mutant.prey));
    }
    let rows = hunt_all(&jobs, seed, arguments.states_max, threads);
    let text = to_text(&rows, seed, arguments.states_max);
    if let Some(path) = &arguments.out {
        let document = format!("{HEAD}{text}");
        std::fs::write(path, document)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if is_json {
        print_json(&Value::from(rows.iter().map(to_json).collect::<Vec<_>>()))?;
    } else {
        print(&text)?;
    }
    let is_good = |row: &Row| row.mutant.is_some() == row.hunt.catch.is_some();
    Ok(if rows.iter().all(is_good) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn hunt_all(
    jobs: &[(Option<&'static Mutant>, Prey)],
    seed: u64,
    states_max: u64,
    threads: usize,
) -> Vec<Row> {
    let bar = progress::share(jobs.len() as u64);
    let next = Mutex::new(0..jobs.len());
    let rows = Mutex::new(Vec::new());
    let work = || {
        loop {
            let job = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(job) = job else { return };
            let (mutant, prey) = jobs[job];
            let hunt = hunt(mutant, prey, seed, states_max);
            let row = Row { mutant, prey, hunt };
            let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
            rows.push((job, row));
            bar.inc(1);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    bar.finish_and_clear();
    let mut rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    rows.sort_by_key(|(job, _)| *job);
    rows.into_iter().map(|(_, row)| row).collect()
}

const HEAD: &str = "# Mutants

How strong is `jext crash`? Each mutant breaks one rule of the engine on purpose, and the explorer, which does not know, looks
for it with workloads of a fixed seed. Which workloads hunt a mutant is chosen by hand, for some after others had missed it, and the seed is one: the figures say what
the explorer can notice with help, not how soon it would without.

This document is written by

";

/// Mutants that were removed because no workload can tell them from the engine as it is.
const EQUIVALENT: &str = "
## Equivalent, and removed

`revoke/not-cancelled-by-reuse` (using a block again as metadata cancels its revoke in the same transaction) broke nothing that a
volume can do. A revoke is noted by `Transaction::forget` only; `ext` calls that for map blocks, directories, journaled data and
attribute blocks, each time with the `free_blocks` of the same handle. `free_blocks` puts the run among those that
the transaction has freed, and the allocator takes none of these until that transaction's commit record is durable. So
whoever files the block again does it in a later transaction, whose set of revokes does not have it. The rule itself belongs to `jbd2`, whose
test `forgetting_gives_the_credit_back_and_reuse_cancels_the_revoke` looks at it without `ext`.
";

fn workload_of(hunt: &Hunt) -> String {
    hunt.catch.as_ref().map_or_else(String::new, |catch| {
        let kind = super::name(catch.kind);
        format!("{kind}: {} ({})", catch.number, catch.cell)
    })
}

/// What was found, in a line that fits into a table.
fn what_of(hunt: &Hunt) -> String {
    let what = hunt.catch.as_ref().map_or("", |catch| &catch.broken.what);
    let line = what.replace(['\n', '|'], " ");
    let short: String = line.chars().take(SHOWN_CHARACTERS).collect();
    if short.len() < line.len() {
        format!("{short}...")
    } else {
        short
    }
}

fn to_text(rows: &[Row], seed: u64, states_max: u64) -> String {
    let mut text = format!(
        "    {BUILD} --seed {seed} --states-max {states_max} --out docs/mutants.md\n\n\
         A *state* is an image that a power cut left, and that was recovered, checked and compared in full; counted are those\n\
         that passed until the first complaint. A panic or a deadlock of the engine counts as a complaint. A hunt ends after\n\
         {states_max} states, at the end of a workload.\n\n\
         ## The engine as it is\n\n| workloads | number | states | complaints |\n|---|--:|--:|---|\n"
    );
    for row in rows.iter().filter(|row| row.mutant.is_none()) {
        let Hunt {
            workloads, states, ..
        } = row.hunt;
        let found = row.hunt.catch.as_ref();
        let found = found.map_or_else(|| "none".to_owned(), |_| what_of(&row.hunt));
        let _ = writeln!(
            text,
            "| {:?} | {workloads} | {states} | {found} |",
            row.prey
        );
    }
    let hunted = || rows.iter().filter_map(|row| Some((row.mutant?, &row.hunt)));
    let caught = || hunted().filter(|(_, hunt)| hunt.catch.is_some());
    let mut states: Vec<u64> = caught().map(|(_, hunt)| hunt.states).collect();
    states.sort_unstable();
    let (count, all) = (states.len(), hunted().count());
    let _ = writeln!(text, "\n## Caught: {count} of {all}\n");
    if let Some(median) = states.get(count / 2) {
        let most = states[count - 1];
        let _ = writeln!(
            text,
            "States until caught: {median} in the median, {most} at most.\n"
        );
    }
    text.push_str("| mutant | breaks | caught by | workload | states | what was seen |\n|---|---|---|---|--:|---|\n");
    for (mutant, hunt) in caught() {
        let rule = hunt
            .catch
            .as_ref()
            .map(|catch| catch.broken.rule.to_string());
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} |",
            mutant.name,
            mutant.rule,
            rule.unwrap_or_default(),
            workload_of(hunt),
            hunt.states,
            what_of(hunt)
        );
    }
    let _ = writeln!(text, "\n## Not caught: {}\n", all - count);
    let free: Vec<_> = hunted().filter(|(_, hunt)| hunt.catch.is_none()).collect();
    if !free.is_empty() {
        text.push_str("| mutant | breaks | states |\n|---|---|--:|\n");
    }
    for (mutant, hunt) in free {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} |",
            mutant.name, mutant.rule, hunt.states
        );
    }
    text.push_str(EQUIVALENT);
    text
}

fn to_json(row: &Row) -> Value {
    let catch = row.hunt.catch.as_ref();
    json!({
        "mutant": row.mutant.map(|mutant| mutant.name),
        "breaks": row.mutant.map(|mutant| mutant.rule),
        "hunted_with": format!("{:?}", row.prey),
        "caught_by": catch.map(|catch| catch.broken.rule.to_string()),
        "what": catch.map(|catch| catch.broken.what.clone()),
        "workload": workload_of(&row.hunt),
        "workloads": row.hunt.workloads,
        "states": row.hunt.states,
        "seconds": row.hunt.elapsed.as_secs_f64(),
    })
}
