//! Finds the program `jext` to measure.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Environment variable that selects another program.
const VARIABLE: &str = "JEXT";

/// Returns the path of the program: the value of JEXT, or else this workspace's program, built with
/// the profile of this command.
pub(crate) fn find() -> Result<PathBuf> {
    if let Some(path) = env::var_os(VARIABLE) {
        return Ok(PathBuf::from(path));
    }
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--locked", "--package", "jext-cli"]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).status();
    ensure!(
        built.context("cargo")?.success(),
        "jext cannot be built; {VARIABLE} names a program that is there"
    );
    let own = env::current_exe().context("this program")?;
    Ok(own.with_file_name("jext"))
}
