//! Running the tools of e2fsprogs.

use std::path::Path;
use std::process::{Command, Output};

/// Runs a tool; its absence is a failure that says how to install it.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .output()
        .unwrap_or_else(|error| {
            panic!("{program} does not run ({error}): run scripts/install-test-tools")
        })
}

/// Runs a tool that must succeed; what it printed.
pub(crate) fn run_well(program: &str, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    let text = text(&output);
    assert!(output.status.success(), "{program} {arguments:?}:\n{text}");
    text
}

/// What a tool printed, errors last.
pub(crate) fn text(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    format!("{}{error}", String::from_utf8_lossy(&output.stdout))
}

/// Lets debugfs do commands on an image, from a script beside it.
pub(crate) fn debugfs(image: &Path, commands: &[String]) {
    let script = image.with_extension("script");
    std::fs::write(&script, commands.join("\n") + "\n").unwrap();
    let (script, image) = (script.to_str().unwrap(), image.to_str().unwrap());
    let said = text(&run("debugfs", &["-w", "-f", script, image]));
    let errors = said.lines().filter(|line| {
        line.contains(": ") && !line.starts_with("debugfs") && !line.starts_with("Allocated inode")
    });
    let errors: Vec<&str> = errors.collect();
    assert!(errors.is_empty(), "debugfs {commands:?}: {errors:?}");
}

/// The exit status of `e2fsck -fn` and what it said.
pub(crate) fn e2fsck(image: &Path) -> (i32, String) {
    let output = run("e2fsck", &["-fn", image.to_str().unwrap()]);
    (output.status.code().unwrap_or(-1), text(&output))
}
