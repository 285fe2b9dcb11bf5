//! `bench peers`: measures works on jext and on its peers, in turn.
//!
//! A work has cases (PostMark 1, 2 and 3) and sides (jext in memory, tmpfs, the kernel's ext4).
//! Every side of a case runs once in each round, on a file system that is made anew; every other
//! round takes the sides in the opposite order, so that other load on the machine affects all.
//! Ratios are of the runs of a round.
//!
//! The command re-executes itself in a private mount namespace and mounts everything there. Its
//! folders have the process id in their names: a later run removes those of killed runs.

mod loads;
mod opened;
mod place;
mod report;
mod rounds;
mod side;
mod site;
mod tools;
mod verdict;
mod work;
mod works;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use lab::system::{namespace, strays};
use workload::Control;

use crate::machine::Machine;
use crate::output;
use crate::scratch::Scratch;
use side::Side;
use site::{Needs, Site};
use work::Work;

/// Part of the names of folders.
const PURPOSE: &str = "peers";

/// Measure works on jext and on other file systems and programs, in turn; needs root.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Works to measure; all by default.
    #[arg(value_name = "WORK")]
    works: Vec<String>,
    /// Sides to measure, of those that a work has; all by default.
    #[arg(long = "side", value_name = "SIDES", value_delimiter = ',')]
    sides: Vec<Side>,
    /// Number of rounds.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Folder on a disk for an image, which is removed afterwards; its file system must support
    /// direct I/O.
    #[arg(long, value_name = "FOLDER", default_value = "target")]
    folder: PathBuf,
    /// Leave out directories with more entries.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    entries_max: u32,
    /// Use loads of a hundredth of the size, to test the command: the figures mean nothing.
    #[arg(long)]
    small: bool,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
    /// List the works with their cases, sides and bars, and measure nothing.
    #[arg(long)]
    list: bool,
    /// This process is in its mount namespace already.
    #[arg(long, hide = true)]
    inside: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let works = selected(arguments)?;
    if arguments.list {
        output::print(&report::list(&works))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.inside {
        tools::check(&works)?;
        if works.iter().any(Work::needs_disk) {
            let folder = &arguments.folder;
            let is_folder = folder.is_dir();
            ensure!(
                is_folder,
                "{}: no folder; --folder names one on a disk",
                folder.display()
            );
        }
        strays::release().iter().for_each(|line| output::tell(line));
        Scratch::release_strays(&arguments.folder, PURPOSE);
        return Err(namespace::enter("--inside"));
    }
    let machine = Machine::read()?;
    let control = Arc::new(Control::new());
    let canceller = Arc::clone(&control);
    ctrlc::set_handler(move || canceller.cancel()).context("Ctrl-C")?;
    let site = Site::make(&needs(&works), &arguments.folder, arguments.small, control)?;
    let measured = rounds::measure(&site, &works, arguments.runs)?;
    if arguments.json {
        output::print_json(&report::json(&machine, &measured))?;
    } else {
        output::print(&report::text(&machine, &measured))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the needs of works.
fn needs(works: &[Work]) -> Needs {
    let has = |is_one: fn(Side) -> bool| {
        let mut sides = works.iter().flat_map(|work| &work.sides);
        sides.any(|side| is_one(*side))
    };
    Needs {
        disk: works.iter().any(Work::needs_disk),
        xfs: has(|side| side == Side::Xfs),
        // The image that programs check, and whose size others make, is one of jext.
        jext: has(Side::needs_jext) || works.iter().any(Work::is_of_programs),
    }
}

/// Returns the works and sides that the arguments select.
fn selected(arguments: &Arguments) -> Result<Vec<Work>> {
    let all = works::all(arguments.small, arguments.entries_max);
    for name in &arguments.works {
        if !all.iter().any(|work| work.name == name) {
            bail!("{name}: no such work; --list shows the works");
        }
    }
    let is_selected = |work: &Work| {
        arguments.works.is_empty() || arguments.works.iter().any(|own| own == work.name)
    };
    let mut works: Vec<Work> = all.into_iter().filter(is_selected).collect();
    if !arguments.sides.is_empty() {
        for work in &mut works {
            work.sides.retain(|side| arguments.sides.contains(side));
        }
        works.retain(|work| !work.sides.is_empty());
        ensure!(
            !works.is_empty(),
            "--side: none of these works has such a side; --list shows the sides"
        );
    }
    Ok(works)
}
