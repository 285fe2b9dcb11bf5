//! `compare-sync`: compares threads that create and sync small files on this engine and on the
//! kernel's ext4.
//!
//! All sides use the same file on disk, whose blocks were all written before, with a new ext4 that
//! mke2fs has made: the kernel through a loop device with direct I/O, the engine in this process on
//! the file with direct I/O, and the engine on the loop device, which shows what the loop device
//! costs. Each combination of fast commits, directories and threads runs in turn on all sides, so
//! that other load on the machine affects all. At the end e2fsck checks each image.
//!
//! The command re-executes itself in a private mount namespace and mounts everything there.

pub(crate) mod load;
mod report;
mod sides;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use block::text::Size;
use clap::Args;
use lab::system::tool::Needed;
use lab::system::{namespace, tool};
use workload::Control;

use crate::disk_image::{DiskImage, Format};
use crate::machine::Machine;
use crate::output;
use crate::progress::Steps;
use crate::scratch::Scratch;
use load::{Directories, Load};
use sides::{Measured, Side};

const TOOLS: [Needed; 5] = [
    ("mke2fs", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("losetup", "mount"),
];

/// Compare files that are created and synced on this engine and on the kernel's ext4; needs root.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder on a disk for the image and two templates, which are removed afterwards; its file
    /// system must support direct I/O.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Numbers of threads.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,10,100",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    threads: Vec<u32>,
    /// Number of files of all threads in a run.
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    files: u32,
    /// Size of a file.
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    file_size: String,
    /// Number of runs on each side.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Settings of fast commits: off, on, or both.
    #[arg(
        long,
        value_name = "off,on",
        value_delimiter = ',',
        default_value = "off,on"
    )]
    fast_commit: Vec<Switch>,
    /// Size of the image.
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    size: String,
    /// Size of the log.
    #[arg(long, value_name = "MEGABYTES", default_value_t = 64)]
    journal: u32,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
    /// This process is in its mount namespace already.
    #[arg(long, hide = true)]
    inside: bool,
}

/// A setting of fast commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    Off,
    On,
}

/// The image.
#[derive(Debug, Clone, Copy)]
struct Form {
    size_bytes: u64,
    journal_megabytes: u32,
}

/// A combination, and the measurements of all runs on each side.
struct Comparison {
    has_fast_commits: bool,
    load: Load,
    /// In the order of [`Side::ALL`].
    runs: [Vec<Measured>; 3],
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if !arguments.inside {
        tool::check(&TOOLS)?;
        return Err(namespace::enter("--inside"));
    }
    let form = Form {
        size_bytes: bytes("--size", &arguments.size)?,
        journal_megabytes: arguments.journal,
    };
    let machine = Machine::read()?;
    let control = Arc::new(Control::new());
    let canceller = Arc::clone(&control);
    ctrlc::set_handler(move || canceller.cancel()).context("Ctrl-C")?;
    let scratch = Scratch::make(&arguments.folder, "sync")?;
    let image = DiskImage::new(&scratch, form.size_bytes, form.journal_megabytes);
    let comparisons = compare(arguments, &image, &control)?;
    if arguments.json {
        output::print_json(&report::json(&machine, form, &comparisons))?;
    } else {
        output::print(&report::text(&machine, form, &comparisons))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn bytes(option: &str, text: &str) -> Result<u64> {
    let size = Size::parse(text).map_err(|expected| anyhow!("{option} {text}: {expected}"))?;
    Ok(size.bytes())
}

fn compare(arguments: &Arguments, image: &DiskImage, control: &Control) -> Result<Vec<Comparison>> {
    let bytes = usize::try_from(bytes("--file-size", &arguments.file_size)?)?;
    let mut comparisons = Vec::new();
    for fast in &arguments.fast_commit {
        for directories in [Directories::Own, Directories::Shared] {
            for threads in arguments.threads.iter().copied() {
                comparisons.push(Comparison {
                    has_fast_commits: *fast == Switch::On,
                    load: Load {
                        directories,
                        threads,
                        files: arguments.files,
                        bytes,
                    },
                    runs: Default::default(),
                });
            }
        }
    }
    let runs = arguments.runs as usize;
    let mut steps = Steps::new((comparisons.len() * runs * Side::ALL.len()) as u64);
    for comparison in &mut comparisons {
        for run in 0..runs {
            comparison.measure(image, run + 1 == runs, &mut steps, control)?;
        }
    }
    Ok(comparisons)
}

impl Comparison {
    /// Measures one run on each side.
    fn measure(
        &mut self,
        image: &DiskImage,
        is_checked: bool,
        steps: &mut Steps,
        control: &Control,
    ) -> Result<()> {
        for (side, runs) in Side::ALL.into_iter().zip(&mut self.runs) {
            ensure!(!control.is_cancelled(), "interrupted");
            let (threads, name) = (self.load.threads, side.name());
            let directories = self.load.directories.name();
            steps.begin(&format!("{threads} threads, {directories}: {name}"));
            image.renew(match self.has_fast_commits {
                true => Format::Ext4Fast,
                false => Format::Ext4,
            })?;
            let measured = side.run(&self.load, image);
            runs.push(measured.with_context(|| name.to_owned())?);
            if is_checked {
                image.check().with_context(|| name.to_owned())?;
            }
        }
        Ok(())
    }
}
