//! The command `jext`.
//!
//! An error is one line, `jext: what: where; what next`, and exit status 1; a wrong command line has status 2, as clap
//! says it.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "commands live in the real world"
)]

mod cli;
mod commands;
mod image;
mod output;
mod progress;
mod trace;

use std::process::ExitCode;

use clap::Parser;

use cli::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Err(error) = trace::start(cli.verbose) {
        return output::fail(&error);
    }
    match commands::run(cli.command) {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => output::fail(&error),
    }
}
