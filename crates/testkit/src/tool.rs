//! Execution of other programs.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

/// The search path; file-system tools are in directories that only root's path contains.
const PATH: &str = "/usr/sbin:/sbin:/usr/bin:/bin";

/// True if the tool is installed.
pub fn is_there(program: &str) -> bool {
    PATH.split(':')
        .any(|folder| Path::new(folder).join(program).is_file())
}

/// Runs a tool.
///
/// # Panics
/// Panics if the tool is missing; the message gives the installation command.
pub fn run<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Output {
    Command::new(program)
        .args(arguments)
        .env("PATH", PATH)
        .env("LC_ALL", "C")
        .output()
        .unwrap_or_else(|error| {
            panic!("{program} does not run ({error}): run scripts/install-test-tools")
        })
}

/// Runs a tool that must succeed, and returns its standard output.
///
/// # Panics
/// Panics if the tool is missing or fails.
pub fn run_well<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> String {
    let output = run(program, arguments);
    let line = || -> Vec<_> {
        let arguments = arguments.iter().map(AsRef::as_ref);
        arguments
            .map(|argument| argument.to_string_lossy())
            .collect()
    };
    assert!(
        output.status.success(),
        "{program} {}: {}",
        line().join(" "),
        said(&output)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the standard output and standard error of a program.
pub fn said(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    String::from_utf8_lossy(&output.stdout).into_owned() + &errors
}
