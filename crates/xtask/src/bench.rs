//! `bench`: measurements of jext beside its peers.

mod peers;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Measure how fast jext is beside its peers on this machine.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure works on jext and on other file systems and programs, in turn; needs root.
    Peers(peers::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.command {
        Command::Peers(arguments) => peers::run(arguments),
    }
}
