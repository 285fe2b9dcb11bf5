//! `jext manual`: writes man pages of all commands, generated from the command line's definition.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Command;

/// Write man pages: jext.1, and one for each command.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Directory to write to, such as /usr/local/share/man/man1. It is created if missing.
    directory: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, command: Command) -> Result<ExitCode> {
    let directory = &arguments.directory;
    std::fs::create_dir_all(directory)
        .with_context(|| format!("{}: cannot be made", directory.display()))?;
    clap_mangen::generate_to(command, directory)
        .with_context(|| format!("{}: cannot be written to", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}
