//! `jext bench`: benchmarks on a directory, an image or memory.

mod figures;
mod guest;
mod load;
mod named;
mod place;
mod postmark;

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
    /// PostMark: many short-lived small files.
    Postmark(Box<postmark::Arguments>),
    #[command(flatten)]
    Other(named::Named),
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.workload {
        Workload::Postmark(arguments) => postmark::run(&arguments),
        Workload::Other(named) => load::run(named.definition, &named.arguments),
    }
}
