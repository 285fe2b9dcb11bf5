//! `compare-kernel`: compares PostMark in this process with Debian's PostMark on the kernel's ext3
//! or ext4, and a large file that is written and read in order on both.
//!
//! Both file systems are made anew for every run, with the same size, block size, log size and
//! features. Both
//! are mounted with `data=ordered,commit=5`, both have an unlimited cache, and both timings include
//! a final sync of everything. The kernel's image is on a tmpfs and mounted through a loop device;
//! jext's is memory of this process. Runs are interleaved, so that other load on the machine
//! affects both. After each pair the counts of both programs are compared: the work must be
//! identical to the file.
//!
//! The command re-executes itself in a private mount namespace and mounts everything there. The
//! namespace ends with its processes, so that no mount or loop device remains, however the command
//! ends.

mod engine;
mod kernel;
mod report;
pub(crate) mod sequential;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::text::Size;
use clap::Args;
use lab::system::{namespace, tool};
use workload::Control;

use crate::compared_type::ComparedType;
use crate::engine::Form;
use crate::machine::Machine;
use crate::output;
use crate::postmark::Test;
use crate::progress::Steps;
use crate::spans::Spans;
use sequential::Phase;

/// Mount options that both sides share.
const MOUNT_OPTIONS: &str = "data=ordered,commit=5";

/// Compare PostMark and a large file on this engine and on the kernel's ext3 or ext4; needs root.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Tests to run: 1 (4000 files of 1 to 100 kB), 2 (30000 of up to 1 kB), 3 (4000 of 1 to 300
    /// kB).
    #[arg(long = "test", value_name = "NUMBERS", value_delimiter = ',', default_value = "1,2,3",
        value_parser = clap::value_parser!(u8).range(1..=3))]
    tests: Vec<u8>,
    /// Size of the file that is written and read in order; 0 for none.
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    sequential: String,
    /// Number of runs of each test on each side.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Type of both file systems.
    #[arg(short = 't', value_name = "TYPE", default_value = "ext4")]
    file_system: ComparedType,
    /// Size of both file systems.
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    size: String,
    /// Block size in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    block: u32,
    /// Size of both logs.
    #[arg(long, value_name = "MEGABYTES", default_value_t = 128)]
    journal: u32,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
    /// This process is in its mount namespace already.
    #[arg(long, hide = true)]
    inside: bool,
}

/// A task that is timed on both sides.
#[derive(Debug, Clone, Copy)]
enum Task {
    PostMark(Test),
    /// A phase with a file of this size.
    Sequential(Phase, u64),
}

/// Seconds of one task.
struct Comparison {
    task: Task,
    kernel: Spans,
    engine: Spans,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if !arguments.inside {
        tool::check(&kernel::TOOLS)?;
        return Err(namespace::enter("--inside"));
    }
    let form = Form {
        file_system: arguments.file_system,
        size_bytes: bytes("--size", &arguments.size)?,
        block_bytes: arguments.block,
        journal_megabytes: arguments.journal,
        bytes_per_inode: None,
    };
    let sequential_bytes = match arguments.sequential.as_str() {
        "0" => 0,
        size => bytes("--sequential", size)?,
    };
    let machine = Machine::read()?;
    let control = Arc::new(Control::new());
    let canceller = Arc::clone(&control);
    ctrlc::set_handler(move || canceller.cancel()).context("Ctrl-C")?;
    let place = kernel::Place::make(form)?;
    let mut comparisons = compare(arguments, form, &place, &control)?;
    if sequential_bytes > 0 {
        comparisons.extend(compare_sequential(
            arguments.runs,
            sequential_bytes,
            form,
            &place,
        )?);
    }
    if arguments.json {
        output::print_json(&report::json(&machine, form, &comparisons))?;
    } else {
        output::print(&report::text(&machine, form, &comparisons))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn bytes(flag: &str, size: &str) -> Result<u64> {
    let size = Size::parse(size).map_err(|error| anyhow::anyhow!("{flag} {size}: {error}"))?;
    Ok(size.bytes())
}

fn compare(
    arguments: &Arguments,
    form: Form,
    place: &kernel::Place,
    control: &Arc<Control>,
) -> Result<Vec<Comparison>> {
    let runs = arguments.runs as usize;
    let mut steps = Steps::new((arguments.tests.len() * runs * 2) as u64);
    let mut comparisons = Vec::new();
    for test in arguments.tests.iter().copied().map(Test::new) {
        let (mut kernel, mut engine) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            steps.begin(&format!("test {}: kernel", test.number));
            let theirs = place.run(test, control)?;
            steps.begin(&format!("test {}: jext", test.number));
            let ours = engine::run(test, form, control)?;
            if theirs.counts != ours.counts {
                let (theirs, ours) = (theirs.counts, ours.counts);
                bail!(
                    "test {}: the kernel's PostMark did {theirs:?}, ours {ours:?}",
                    test.number
                );
            }
            kernel.push(theirs.seconds);
            engine.push(ours.seconds);
        }
        comparisons.push(Comparison {
            task: Task::PostMark(test),
            kernel: Spans::new(kernel),
            engine: Spans::new(engine),
        });
    }
    Ok(comparisons)
}

fn compare_sequential(
    runs: u32,
    bytes: u64,
    form: Form,
    place: &kernel::Place,
) -> Result<Vec<Comparison>> {
    let mut steps = Steps::new(u64::from(runs) * 2);
    let (mut kernel, mut engine) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        steps.begin("sequential: kernel");
        kernel.push(place.run_sequential(bytes)?);
        steps.begin("sequential: jext");
        engine.push(engine::run_sequential(bytes, form)?);
    }
    let comparisons = (0..).zip(Phase::ALL).map(|(index, phase)| {
        let of = |runs: &[[f64; 3]]| Spans::new(runs.iter().map(|phases| phases[index]).collect());
        Comparison {
            task: Task::Sequential(phase, bytes),
            kernel: of(&kernel),
            engine: of(&engine),
        }
    });
    Ok(comparisons.collect())
}
