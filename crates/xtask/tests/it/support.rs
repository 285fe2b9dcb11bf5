//! Helpers that run `xtask`.

use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::Command as Assert;
use tempfile::TempDir;

/// A folder in which commands run.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns a command with arguments separated by spaces.
    pub(crate) fn command(&self, line: &str) -> Assert {
        let mut command = Assert::cargo_bin("xtask").unwrap();
        command
            .current_dir(self.path())
            .env("JEXT", jext())
            .args(line.split_whitespace());
        command
    }

    /// Returns the same as a command that can be spawned.
    pub(crate) fn process(&self, line: &str) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("xtask"));
        command
            .current_dir(self.path())
            .env("JEXT", jext())
            .args(line.split_whitespace());
        command
    }

    /// Returns the JSON that a command prints; panics if the command fails.
    pub(crate) fn json(&self, line: &str) -> serde_json::Value {
        let output = self.command(line).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "xtask {line}: {error}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Returns the program to measure. Builds it unless tests of the workspace have done so.
fn jext() -> PathBuf {
    let path = assert_cmd::cargo::cargo_bin("jext");
    if !path.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "--package", "jext-cli"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(built.success());
    }
    path
}
