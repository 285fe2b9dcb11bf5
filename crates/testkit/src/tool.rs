//! Execution of other programs.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The search path; file-system tools are in directories that only root's path contains.
const PATH: &str = "/usr/sbin:/sbin:/usr/bin:/bin";

/// True if the tool is installed.
pub fn is_there(program: &str) -> bool {
    find(program).is_some()
}

fn find(program: &str) -> Option<PathBuf> {
    let mut places = PATH
        .split(':')
        .map(|folder| Path::new(folder).join(program));
    places.find(|path| path.is_file())
}

/// Runs a tool.
///
/// # Panics
/// Panics if the tool is missing; the message gives the installation command.
pub fn run<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Output {
    // Found here: `Command` forks to look for a name in another search path, which copies the page
    // tables of tests that have hundreds of megabytes.
    Command::new(find(program).unwrap_or_else(|| program.into()))
        .arg0(program)
        .args(arguments)
        .env("PATH", PATH)
        .env("LC_ALL", "C")
        .output()
        .unwrap_or_else(|error| {
            panic!("{program} does not run ({error}): run scripts/install-test-tools")
        })
}

/// Asserts that `e2fsck -fn` did not skip a log: it says nothing of such a volume.
///
/// # Panics
/// Panics with its output if it did.
pub fn assert_log_not_skipped(output: &Output) {
    let text = said(output);
    let is_whole = !text.contains("skipping journal recovery");
    assert!(is_whole, "e2fsck -fn has not read the log: {text}");
}

/// Runs a tool that must succeed, and returns its standard output.
///
/// # Panics
/// Panics if the tool is missing or fails, or if it is an e2fsck that skips a log.
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
    assert_log_not_skipped(&output);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the standard output and standard error of a program.
pub fn said(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    String::from_utf8_lossy(&output.stdout).into_owned() + &errors
}
