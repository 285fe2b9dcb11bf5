//! `jext completions`: what shells need to complete the command line, made from its own description.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;

/// Print completions for a shell: `source <(jext completions bash)`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which shell.
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    // In one piece: a reader that stops early is not an error of the generator's.
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "jext", &mut text);
    std::io::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}
