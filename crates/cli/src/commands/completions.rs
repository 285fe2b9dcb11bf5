//! `jext completions`: shell completions, generated from the definition of the command line.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::Command;
use clap_complete::Shell;

/// Print completions for a shell: `source <(jext completions bash)`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name of the shell.
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, command: &mut Command) -> Result<ExitCode> {
    // Written at once: the generator would panic if the reader stopped early.
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, command, "jext", &mut text);
    std::io::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}
