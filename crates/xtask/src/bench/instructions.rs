//! `bench instructions`: instruction counts of the engine's hot paths.
//!
//! The counts are taken of a build of its own, of the crate `bench` with the profile `gate`, so
//! that they do not depend on the profile of this command.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;

/// Compare instruction counts with the committed table.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Write the table instead.
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["run", "--quiet", "--locked", "--profile", "gate"])
        .args(["--package", "jext-bench", "--", "instructions"])
        .args(arguments.write.then_some("--write"))
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let status = command.status().context("cargo")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
