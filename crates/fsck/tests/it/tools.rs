//! The tools of e2fsprogs, run on an image.

use std::path::Path;

use testkit::tool::{run, said};

/// Runs debugfs commands on an image, from a script beside it.
pub(crate) fn debugfs(image: &Path, commands: &[String]) {
    let script = image.with_extension("script");
    std::fs::write(&script, commands.join("\n") + "\n").unwrap();
    let (script, image) = (script.to_str().unwrap(), image.to_str().unwrap());
    let printed = said(&run("debugfs", &["-w", "-f", script, image]));
    let errors = printed.lines().filter(|line| {
        let says = ["debugfs", "Allocated inode", "Filesystem features"];
        line.contains(": ") && !says.iter().any(|start| line.starts_with(start))
    });
    let errors: Vec<&str> = errors.collect();
    assert!(errors.is_empty(), "debugfs {commands:?}: {errors:?}");
}

/// Returns the exit status and the output of `e2fsck -fn`.
pub(crate) fn e2fsck(image: &Path) -> (i32, String) {
    let output = run("e2fsck", &["-fn", image.to_str().unwrap()]);
    (output.status.code().unwrap_or(-1), said(&output))
}
