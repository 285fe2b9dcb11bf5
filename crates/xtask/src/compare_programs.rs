//! `compare-programs`: compares the benchmarks of `jext bench` with the programs that they are
//! named after.
//!
//! Runs PostMark, fs_mark, the block phases of Bonnie++ and dbench alternately as Debian's program
//! and as `jext bench`, with the same parameters, on a file system that is made anew for every run
//! or in one directory. In every second round jext runs first. The verdict uses the ratio of the
//! two figures of a round, so that other load on the machine affects both: its median, with a
//! bootstrap interval, against a tolerance of 5 %.
//!
//! Both programs are separate processes, and their processor times are compared too: on a busy
//! machine processor time is the steadier figure. A program that prepares its work while the clock
//! runs is slower on a file system in memory, and only there.

mod child;
mod peer;
mod place;
mod report;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Args;
use lab::system::{namespace, strays, tool};
use workload::Control;

use crate::machine::Machine;
use crate::output;
use crate::program;
use crate::progress::Steps;
use peer::{Measured, Peer, Side};
use place::Place;

/// Compare benchmarks with Debian's programs of the same name.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Programs to compare.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Peer::ALL)]
    programs: Vec<Peer>,
    /// Directory to run in.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["target", "device"])]
    dir: Option<String>,
    /// File system to run on, made and mounted anew for every run; needs root.
    #[arg(long, value_name = "kernel:TYPE", default_value = "kernel:ext4")]
    target: String,
    /// Device of that file system: a file, a block device, or memory. Its contents are lost.
    #[arg(long, value_name = "DEV", default_value = "mem:6GiB")]
    device: String,
    /// Number of runs of each program.
    #[arg(long, value_name = "COUNT", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    #[command(flatten)]
    amounts: Amounts,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
    /// This process is in its mount namespace already.
    #[arg(long, hide = true)]
    inside: bool,
}

/// Amount of work of both programs.
#[derive(Debug, Clone, Args)]
pub(crate) struct Amounts {
    /// Number of PostMark's transactions, on a pool of 2000 files of 500 to 10000 bytes.
    #[arg(long, value_name = "COUNT", default_value_t = 50_000)]
    transactions: u32,
    /// Number of fs_mark's files, of 51200 bytes.
    #[arg(long, value_name = "COUNT", default_value_t = 5000)]
    files: u32,
    /// fs_mark's sync method.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=6))]
    sync_method: u8,
    /// Size of Bonnie++'s file, in MiB.
    #[arg(long, value_name = "MEBIBYTES", default_value_t = 3072)]
    megabytes: u32,
    /// Size of Bonnie++'s chunks, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 8192)]
    chunk: u32,
    /// Number of dbench's clients.
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    clients: u32,
    /// Measured time of dbench, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    seconds: u32,
    /// File with dbench's load.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/usr/share/dbench/client.txt"
    )]
    load: String,
}

/// Measurements of all rounds of one program.
struct Comparison {
    peer: Peer,
    theirs: Vec<Measured>,
    ours: Vec<Measured>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let needed: Vec<_> = arguments.programs.iter().map(|peer| peer.tool()).collect();
    tool::check(&needed)?;
    if arguments.programs.contains(&Peer::Dbench) {
        let load = &arguments.amounts.load;
        std::fs::metadata(load).with_context(|| format!("--load {load}"))?;
    }
    let place = Place::new(arguments)?;
    if place.mounts() && !arguments.inside {
        strays::release().iter().for_each(|line| output::tell(line));
        return Err(namespace::enter("--inside"));
    }
    let machine = Machine::read()?;
    let control = Arc::new(Control::new());
    let canceller = Arc::clone(&control);
    ctrlc::set_handler(move || canceller.cancel()).context("Ctrl-C")?;
    let comparisons = compare(arguments, &place, &control)?;
    if arguments.json {
        output::print_json(&report::json(&machine, &place, &comparisons))?;
    } else {
        output::print(&report::text(&machine, &place, &comparisons))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn compare(arguments: &Arguments, place: &Place, control: &Control) -> Result<Vec<Comparison>> {
    let runs = arguments.programs.len() as u64 * u64::from(arguments.rounds) * 2;
    let program = program::find()?;
    let mut steps = Steps::new(runs);
    let mut comparisons = Vec::new();
    for peer in arguments.programs.iter().copied() {
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for round in 0..arguments.rounds {
            let mut order = [Side::Theirs, Side::Ours];
            if round % 2 == 1 {
                order.reverse();
            }
            for side in order {
                steps.begin(&format!("{}: {}", peer.name(), side.name()));
                let measured = place.with_folder(|folder, scratch| {
                    peer.measure(side, &program, &arguments.amounts, (folder, scratch))
                });
                ensure!(!control.is_cancelled(), "interrupted");
                match side {
                    Side::Theirs => theirs.push(measured?),
                    Side::Ours => ours.push(measured?),
                }
            }
            peer.check_same(&theirs[theirs.len() - 1], &ours[ours.len() - 1])?;
        }
        comparisons.push(Comparison { peer, theirs, ours });
    }
    Ok(comparisons)
}
