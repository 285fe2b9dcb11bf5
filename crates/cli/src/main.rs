//! The command `jext`.
//!
//! An error is one line, `jext: what: where; what next`, with exit status 1. A wrong command line
//! exits with status 2, the convention of clap. A signal ends a command with status 128 plus its
//! number. `jext fsck` has the statuses of fsck(8).

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "commands live in the real world"
)]

mod advice;
mod cli;
mod commands;
mod foreign;
mod image;
mod in_use;
mod interrupt;
mod new_file;
mod output;
mod progress;
mod trace;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use cli::Cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse_from(commands::mount::helper::arguments(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    // These commands inject device errors on purpose.
    let is_on_purpose = matches!(
        cli.command,
        cli::Command::Crash(_) | cli::Command::Replay(_)
    );
    if let Err(error) = trace::start(cli.verbose, is_on_purpose) {
        return output::fail(&error);
    }
    match commands::run(cli.command, cli.verbose > 0) {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let code = output::fail(&error);
            interrupt::status().map_or(code, ExitCode::from)
        }
    }
}

/// Prints an error of the command line, or the requested help text or version.
fn usage(error: &clap::Error) -> ExitCode {
    // A closed stream leaves no reader to report to.
    let _ = error.print();
    let mut words = std::env::args_os().skip(1);
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    let is_fsck = words
        .find(|word| !is_option(word))
        .is_some_and(|word| word == "fsck");
    match error.exit_code() {
        0 => ExitCode::SUCCESS,
        _ if is_fsck => ExitCode::from(commands::fsck::USAGE),
        code => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
    }
}
