//! `jext bench`: benchmarks on a directory, an image or memory, and those whose figures are in `docs/performance.md`.

mod compare_build;
mod compare_kernel;
mod compare_programs;
mod figures;
mod load;
mod machine;
mod memory;
mod named;
mod place;
mod postmark;
mod spans;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Run a benchmark.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// PostMark: many small files that live for a short time.
    Postmark(Box<postmark::Arguments>),
    #[command(flatten)]
    Other(named::Named),
    /// jext build against mke2fs -d, on a tree of many files.
    CompareBuild(compare_build::Arguments),
    /// PostMark on this engine against PostMark on the kernel's ext3; needs root.
    CompareKernel(compare_kernel::Arguments),
    /// The benchmarks here against Debian's programs of the same name.
    ComparePrograms(compare_programs::Arguments),
    /// The memory of copying a large file into an image and out of it.
    Memory(memory::Arguments),
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.workload {
        Workload::Postmark(arguments) => postmark::run(&arguments),
        Workload::Other(named) => load::run(named.definition, &named.arguments),
        Workload::CompareBuild(arguments) => compare_build::run(&arguments),
        Workload::CompareKernel(arguments) => compare_kernel::run(&arguments),
        Workload::ComparePrograms(arguments) => compare_programs::run(&arguments),
        Workload::Memory(arguments) => memory::run(&arguments),
    }
}
