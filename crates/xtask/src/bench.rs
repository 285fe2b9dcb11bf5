//! `bench`: measurements of jext beside its peers, and instruction counts of its hot paths.

mod instructions;
mod peers;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Measure how fast jext is beside its peers, and count what its hot paths cost.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare the instructions of each case under valgrind with the committed table.
    Instructions(instructions::Arguments),
    /// Measure works on jext and on other file systems and programs, in turn; needs root.
    Peers(peers::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.command {
        Command::Instructions(arguments) => instructions::run(arguments),
        Command::Peers(arguments) => peers::run(arguments),
    }
}
