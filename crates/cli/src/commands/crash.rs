//! `jext crash`: power cuts at every point of a workload.

mod compare;
mod real;
mod recorded;
mod silent;

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use comfy_table::{CellAlignment, Table, presets};
use crash::crowd;
use crash::explore::{Limits, rate};
use crash::findings::Tally;
use crash::generator::exhaustive::COMPLETE_MAX;
use crash::generator::{Generator, Kind};
use crash::rule::RULES;
use crash::session::{Report, Session, Stop};
use crash::setting::{Cell, all_cells, journaled_cells};
use lab::plan::Shard;
use serde_json::{Value, json};

use crate::output::{print, print_json};
use crate::progress;

/// Maximum number of minutes: more than anything takes, and not too much for a clock.
const MINUTES_MAX: f64 = 1e9;

/// The form of a cell, as the help shows it.
const CELL_FORM: &str = "[STRUCTURES,]MODE,PLACE[,fast][,async]";

/// Run workloads in simulated worlds, cut the power after every event, and check what recovery
/// leaves.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// ext3 and ext4, all data modes with internal and external journals, and volumes without a
    /// journal.
    #[arg(long, conflicts_with = "cells")]
    all: bool,
    /// MODE,PLACE as in ordered,internal or journal,external. Before it ext4, or ext4 with a
    /// feature: inline, quota, mmp, bigalloc or, in place of metadata_csum, uninit_bg, as in
    /// inline,ordered,internal. After it fast, for fast commits, as in ext4,ordered,internal,fast,
    /// or async, for asynchronous commits, as in journal,internal,async, or both. May be repeated;
    /// a cell that does not exist lists all.
    /// writeback,none is a volume without a journal: it is checked after a clean close, and
    /// --compare lets e2fsck repair some that were cut off.
    #[arg(long = "cell", value_name = CELL_FORM)]
    cells: Vec<Cell>,
    /// Workloads to run: all short ones; random long ones in tight worlds; ones that soon reuse
    /// blocks, on a volume with free space or a full one; ones that wrap around the log several
    /// times; ones with racing clients; ones whose handles restart wherever possible; ones on files
    /// in many pieces; ones with concurrent renames and listings, with directories listed in small
    /// steps, or with inode numbers reused at once; ones with failing device commands, one after
    /// another, or with one failing write beside a background writer; ones on devices without space
    /// for blocks never written. The default is all of them, in turn.
    #[arg(long, value_enum)]
    generator: Option<GeneratorName>,
    /// Operations per exhaustive workload; up to 2 all combinations run, beyond that a sample
    /// chosen by the seed.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=6))]
    length: u8,
    /// Stop after this number of minutes.
    #[arg(long, value_parser = minutes)]
    minutes: Option<Duration>,
    /// Stop after this number of recovered states.
    #[arg(long)]
    states: Option<u64>,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Explore only a part of the workloads: shard I of N, such as 2/8. Together, the shards of one
    /// seed explore what one run without this option does. --minutes and --states hold for the
    /// shard.
    #[arg(long, value_name = "I/N", conflicts_with_all = ["compare", "real"])]
    shard: Option<Shard>,
    /// Number of parallel worlds; by default the number of processors. With --real, number of
    /// clients; 16 by default.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compare: compare::CompareArguments,
    #[command(flatten)]
    real: real::RealArguments,
    #[command(flatten)]
    recorded: recorded::RecordedArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GeneratorName {
    Exhaustive,
    Stress,
    Tight,
    Reuse,
    Laps,
    Races,
    Restarts,
    Scattered,
    Names,
    Listings,
    Numbers,
    Faults,
    Passing,
    Full,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let seed = arguments.seed;
    if let Some(path) = arguments.recorded.recording()? {
        let options = recorded::Options {
            minutes: arguments.minutes,
            states: arguments.states,
            seed,
            is_json: arguments.json,
        };
        return recorded::run(path, &arguments.recorded, &options);
    }
    let cells = cells(arguments)?;
    if arguments.compare.compare {
        let threads = threads(arguments);
        return compare::run(&arguments.compare, cells, seed, threads, arguments.json);
    }
    if arguments.real.real {
        let options = real::Options {
            cells,
            lanes: arguments.threads,
            minutes: arguments.minutes,
            seed,
            is_json: arguments.json,
        };
        return real::run(&arguments.real, options);
    }
    let length = usize::from(arguments.length);
    let kinds = match arguments.generator {
        Some(GeneratorName::Exhaustive) => vec![Kind::Exhaustive { length }],
        Some(GeneratorName::Stress) => vec![Kind::Stress],
        Some(GeneratorName::Tight) => vec![Kind::Tight],
        Some(GeneratorName::Reuse) => vec![Kind::Reuse],
        Some(GeneratorName::Laps) => vec![Kind::Laps],
        Some(GeneratorName::Races) => vec![Kind::Races],
        Some(GeneratorName::Restarts) => vec![Kind::Restarts],
        Some(GeneratorName::Scattered) => vec![Kind::Scattered],
        Some(GeneratorName::Names) => vec![Kind::Crowd(crowd::Kind::Names)],
        Some(GeneratorName::Listings) => vec![Kind::Crowd(crowd::Kind::Listings)],
        Some(GeneratorName::Numbers) => vec![Kind::Crowd(crowd::Kind::Numbers)],
        Some(GeneratorName::Faults) => vec![Kind::EachFault { length: 1 }, Kind::Faults],
        Some(GeneratorName::Passing) => vec![Kind::Passing],
        Some(GeneratorName::Full) => vec![Kind::Full],
        None => vec![
            Kind::Exhaustive { length },
            Kind::Faults,
            Kind::Passing,
            Kind::Full,
            Kind::Stress,
            Kind::Reuse,
            Kind::Laps,
            Kind::Races,
            Kind::Restarts,
            Kind::Scattered,
            Kind::Crowd(crowd::Kind::Names),
            Kind::Crowd(crowd::Kind::Listings),
            Kind::Crowd(crowd::Kind::Numbers),
            Kind::Tight,
        ],
    };
    let is_bounded = arguments.minutes.is_some() || arguments.states.is_some();
    let is_finite = kinds
        .iter()
        .all(|kind| matches!(kind, Kind::Exhaustive { .. }))
        && length <= COMPLETE_MAX;
    if !is_bounded && !is_finite {
        bail!("these workloads have no end: give --minutes or --states");
    }
    if let Some(shard) = arguments.shard
        && shard.single().is_none()
    {
        bail!("--shard {shard}: one shard at a time, such as 2/8");
    }
    if !arguments.json {
        print(&format!("{}\n", selection(arguments)))?;
    }
    let mut reports = Vec::new();
    for (index, kind) in kinds.iter().enumerate() {
        let shares = kinds.len() - index;
        let report = run_kind(arguments, (*kind, seed), &cells, shares, &reports)?;
        let is_over = report.violation.is_some();
        reports.push((*kind, report));
        if is_over {
            break;
        }
    }
    let has_violation = reports.iter().any(|(_, report)| report.violation.is_some());
    if arguments.json {
        print_json(&to_json(arguments, &reports, &cells))?;
    } else {
        print(&to_text(arguments, &reports, &cells))?;
    }
    Ok(if has_violation {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn cells(arguments: &Arguments) -> Result<Vec<Cell>> {
    // These commands default to all cells.
    let takes_all = arguments.compare.compare || arguments.real.real;
    if takes_all && (arguments.all || arguments.cells.is_empty()) {
        return Ok(journaled_cells());
    }
    let without = arguments.cells.iter().find(|cell| !cell.has_journal());
    if let (true, Some(cell)) = (takes_all, without) {
        bail!(
            "--real needs a journal, and --compare looks at volumes without one in any case: leave out --cell {cell}"
        );
    }
    if arguments.all {
        return Ok(all_cells());
    }
    if arguments.cells.is_empty() {
        bail!("which cells? --all, or --cell {CELL_FORM}");
    }
    Ok(arguments.cells.clone())
}

/// Returns the seed and the shard in words.
fn selection(arguments: &Arguments) -> String {
    let seed = arguments.seed;
    match arguments.shard {
        Some(shard) => format!("seed {seed}, shard {shard}"),
        None => format!("seed {seed}"),
    }
}

/// Returns the duration of a number of minutes; a negative one is zero.
fn minutes(text: &str) -> Result<Duration, String> {
    let count = text.parse::<f64>().ok();
    let count = count.filter(|count| *count <= MINUTES_MAX);
    let seconds = count.map(|count| count.max(0.0) * 60.0);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("give a number of minutes up to {MINUTES_MAX}"))
}

fn threads(arguments: &Arguments) -> usize {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    arguments.threads.map_or(available, usize::from)
}

/// Runs one generator, with its share of the remaining time and states.
fn run_kind(
    arguments: &Arguments,
    (kind, seed): (Kind, u64),
    cells: &[Cell],
    shares: usize,
    before: &[(Kind, Report)],
) -> Result<Report> {
    let mut generator = Generator::new(kind, cells.to_vec(), seed);
    if let Some((number, count)) = arguments.shard.and_then(Shard::single) {
        generator = generator.shard(number, count);
    }
    if let Kind::Exhaustive { length } = kind
        && !arguments.json
    {
        let orbits = generator.orbits();
        let (count, workloads) = (orbits.count(), orbits.workload_count());
        print(&format!(
            "{count} orbits of length {length}, {workloads} workloads with their sync calls, in each of {} cells\n",
            cells.len()
        ))?;
    }
    let elapsed: Duration = before.iter().map(|(_, report)| report.elapsed).sum();
    let done: u64 = before
        .iter()
        .map(|(_, report)| report.total().recovered)
        .sum();
    let after = arguments
        .minutes
        .map(|minutes| minutes.saturating_sub(elapsed) / shares as u32);
    let states = arguments
        .states
        .map(|states| states.saturating_sub(done) / shares as u64);
    let session = Session {
        generator,
        limits: Limits::new(seed),
        threads: threads(arguments),
        stop: Stop {
            after,
            states,
            workloads: None,
        },
    };
    let bar = progress::share(1000);
    let count = session.generator.count();
    let report = session.run(&|tally, elapsed| {
        let share = match (after, states, count) {
            (Some(after), ..) => elapsed.as_secs_f64() / after.as_secs_f64(),
            (_, Some(states), _) => tally.recovered as f64 / states as f64,
            (.., Some(count)) => tally.workloads as f64 / count as f64,
            _ => 0.0,
        };
        bar.set_position((share * 1000.0) as u64);
        bar.set_message(format!(
            "{} states, {:.0} a second",
            tally.recovered,
            rate(tally.recovered, elapsed)
        ));
    });
    bar.finish_and_clear();
    Ok(report)
}

fn to_text(arguments: &Arguments, reports: &[(Kind, Report)], cells: &[Cell]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "cell",
        "workloads",
        "cuts",
        "recovered",
        "equal",
        "compared",
        "nested",
        "used",
        "twice",
        "failed",
        "e2fsck",
        "damaged",
    ]);
    let mut total = Tally::default();
    for (kind, report) in reports {
        for (cell, tally) in cells.iter().zip(&report.cells) {
            table.add_row(row(&format!("{cell} ({kind})"), tally));
            total += tally;
        }
    }
    table.add_row(row("all", &total));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("{table}\n\n");
    for rule in RULES {
        let _ = writeln!(
            text,
            "{rule:3} {:>12}  {}",
            total.rules.get(*rule),
            rule.text()
        );
    }
    text.push_str(&silent::to_text(&total.silent));
    let elapsed: Duration = reports.iter().map(|(_, report)| report.elapsed).sum();
    let _ = writeln!(
        text,
        "\n{} images recovered, checked and compared in full in {:.1} s ({:.0} a second); {} more were equal to one of them",
        total.recovered,
        elapsed.as_secs_f64(),
        rate(total.recovered, elapsed),
        total.equal,
    );
    for (kind, report) in reports {
        if report.is_complete {
            let _ = match arguments.shard {
                Some(shard) => writeln!(text, "{kind}: shard {shard} complete"),
                None => writeln!(text, "{kind}: complete"),
            };
        }
        if let Some(violation) = &report.violation {
            let _ = writeln!(
                text,
                "violation of {}\njext replay '{}'",
                violation.broken, violation.id
            );
        }
    }
    if reports.iter().all(|(_, report)| report.violation.is_none()) {
        text.push_str("no violation\n");
    }
    text
}

fn row(name: &str, tally: &Tally) -> Vec<String> {
    let numbers = [
        tally.workloads,
        tally.moments,
        tally.recovered,
        tally.equal,
        tally.compared,
        tally.nested,
        tally.used,
        tally.repeated,
        tally.failed,
        tally.e2fsck,
        tally.damaged,
    ];
    let numbers = numbers.iter().map(ToString::to_string);
    std::iter::once(name.to_owned()).chain(numbers).collect()
}

fn to_json(arguments: &Arguments, reports: &[(Kind, Report)], cells: &[Cell]) -> Value {
    let of = |(kind, report): &(Kind, Report)| {
        let cells: Vec<Value> = cells
            .iter()
            .zip(&report.cells)
            .map(|(cell, tally)| json!({"cell": cell.to_string(), "tally": tally_json(tally)}))
            .collect();
        let violation = report.violation.as_ref().map(|violation| {
            json!({
                "rule": violation.broken.rule.to_string(),
                "what": violation.broken.what,
                "replay": violation.id.to_string(),
            })
        });
        json!({
            "generator": kind.to_string(),
            "complete": report.is_complete,
            "seconds": report.elapsed.as_secs_f64(),
            "cells": cells,
            "total": tally_json(&report.total()),
            "violation": violation,
        })
    };
    json!({
        "seed": arguments.seed,
        "shard": arguments.shard.map(|shard| shard.to_string()),
        "sessions": reports.iter().map(of).collect::<Vec<Value>>(),
    })
}

fn tally_json(tally: &Tally) -> Value {
    let rules: serde_json::Map<String, Value> = RULES
        .iter()
        .map(|rule| (rule.to_string(), tally.rules.get(*rule).into()))
        .collect();
    json!({
        "workloads": tally.workloads,
        "cuts": tally.moments,
        "recovered": tally.recovered,
        "equal": tally.equal,
        "compared": tally.compared,
        "nested": tally.nested,
        "used": tally.used,
        "twice": tally.repeated,
        "failed": tally.failed,
        "e2fsck": tally.e2fsck,
        "damaged": tally.damaged,
        "silent": silent::to_json(&tally.silent),
        "rules": rules,
    })
}
