//! `mutants`: breaks rules of the engine on purpose, and measures the effort of detecting each.

mod document;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use clap::Args;
use crash::hunt::{Hunt, hunt};
use crash::mutant::{MUTANTS, Mutant, is_possible, named};
use serde_json::{Value, json};

use crate::output::{print, print_json, tell};

/// Command that makes a build with mutants.
const BUILD: &str = "cargo run -p xtask -- mutants";

/// Break rules of the engine, one at a time, and count the states until the explorer notices.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Hunt only these mutants.
    #[arg(long, value_name = "NAME", num_args = 1..)]
    names: Vec<String>,
    /// Seeds of the random choices; each mutant is hunted with each of them.
    #[arg(
        long = "seed",
        value_name = "SEED",
        value_delimiter = ',',
        default_value = "1"
    )]
    seeds: Vec<u64>,
    /// Maximum number of states of a hunt.
    #[arg(long, default_value_t = 50_000)]
    states_max: u64,
    /// Number of concurrent worlds; the number of processors by default.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Write the table into a document.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Hunts for a mutant, one for each seed.
struct Row {
    mutant: &'static Mutant,
    hunts: Vec<Hunt>,
}

/// Settings that all hunts of a run share.
struct Terms {
    seeds: Vec<u64>,
    states_max: u64,
}

impl Row {
    /// True if the mutant was caught with every seed.
    fn is_caught(&self) -> bool {
        self.hunts.iter().all(Hunt::is_caught)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if !is_possible() {
        bail!("this build breaks no rules: run {BUILD}");
    }
    let terms = Terms {
        seeds: arguments.seeds.clone(),
        states_max: arguments.states_max,
    };
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.map_or(available, usize::from);
    let rows = hunt_all(rows(&arguments.names)?, &terms, threads);
    let text = document::to_text(&rows, &terms);
    if let Some(path) = &arguments.out {
        let document = format!("{}{text}", document::HEAD);
        std::fs::write(path, document)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if arguments.json {
        let rows = rows.iter().map(|row| to_json(row, &terms));
        print_json(&Value::from(rows.collect::<Vec<_>>()))?;
    } else {
        print(&text)?;
    }
    Ok(if rows.iter().all(Row::is_caught) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the rows of the mutants to hunt.
fn rows(names: &[String]) -> Result<Vec<Row>> {
    let find = |name: &String| named(name).with_context(|| format!("no mutant is called {name}"));
    let mutants: Vec<&'static Mutant> = if names.is_empty() {
        MUTANTS.iter().collect()
    } else {
        names.iter().map(find).collect::<Result<_>>()?
    };
    let row = |mutant| Row {
        mutant,
        hunts: Vec::new(),
    };
    Ok(mutants.into_iter().map(row).collect())
}

/// Runs all hunts on all threads, and prints each result.
fn hunt_all(mut rows: Vec<Row>, terms: &Terms, threads: usize) -> Vec<Row> {
    let seeds = &terms.seeds;
    let job_count = rows.len() * seeds.len();
    let next = Mutex::new(0..job_count);
    let done = Mutex::new(Vec::new());
    let work = || {
        loop {
            let job = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(job) = job else { return };
            let (mutant, seed) = (rows[job / seeds.len()].mutant, seeds[job % seeds.len()]);
            let hunt = hunt(mutant, seed, terms.states_max);
            tell(&document::line(mutant.name, seed, &hunt));
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push((job, hunt));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(job, _)| *job);
    for (job, hunt) in done {
        rows[job / seeds.len()].hunts.push(hunt);
    }
    rows
}

fn to_json(row: &Row, terms: &Terms) -> Value {
    let of = |(seed, hunt): (&u64, &Hunt)| {
        let catch = hunt.catch.as_ref();
        json!({
            "seed": seed,
            "caught_by": catch.map(|catch| catch.broken.rule.to_string()),
            "what": catch.map(|catch| catch.broken.what.clone()),
            "unbroken": catch.and_then(|catch| Some(catch.control.broken.as_ref()?.to_string())),
            "workload": catch.map(document::workload_of),
            "workloads": hunt.workloads,
            "states": hunt.states,
            "seconds": hunt.elapsed.as_secs_f64(),
        })
    };
    let hunts = terms.seeds.iter().zip(&row.hunts);
    json!({
        "mutant": row.mutant.name,
        "breaks": row.mutant.rule,
        "hunted_with": format!("{:?}", row.mutant.prey),
        "hunts": hunts.map(of).collect::<Vec<Value>>(),
    })
}
