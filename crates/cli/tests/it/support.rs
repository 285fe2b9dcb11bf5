//! Running `jext` and `e2fsck`.

use std::path::Path;

use assert_cmd::Command as Assert;
use tempfile::TempDir;
use testkit::tool;

/// A folder in which commands run.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// With a file system in `disk.img`.
    pub(crate) fn with_image() -> Self {
        let folder = Self::new();
        folder.good("mkfs -q disk.img 16M");
        folder
    }

    /// With a file system without checksums in `disk.img`, so that damage is not noticed at once.
    pub(crate) fn with_image_of_ext3() -> Self {
        let folder = Self::new();
        folder.good("mkfs -q -t ext3 disk.img 16M");
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The command, its arguments separated by spaces.
    pub(crate) fn command(&self, line: &str) -> Assert {
        let mut command = Assert::cargo_bin("jext").unwrap();
        command
            .current_dir(self.path())
            .env_remove("JEXT_LOG")
            .args(line.split_whitespace());
        command
    }

    /// Returns the output of a command that succeeds.
    pub(crate) fn good(&self, line: &str) -> String {
        let output = self.command(line).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "jext {line}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the output of a command that succeeds, as JSON.
    pub(crate) fn json(&self, line: &str) -> serde_json::Value {
        serde_json::from_str(&self.good(line)).unwrap()
    }

    /// The one line that a command that fails says.
    pub(crate) fn bad(&self, line: &str) -> String {
        let output = self.command(line).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "jext {line} must fail");
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.starts_with("jext: "), "{error}");
        error.trim_start_matches("jext: ").trim_end().to_owned()
    }

    /// Lets e2fsck look at an image; it must find nothing, and the state must be clean.
    pub(crate) fn check(&self, image: &str) {
        let image = self.path().join(image);
        tool::run_well("e2fsck", &["-fn".as_ref(), image.as_os_str()]);
        let facts = tool::run_well("dumpe2fs", &["-h".as_ref(), image.as_os_str()]);
        let state = facts.lines().find(|line| line.contains("state:"));
        let state = state.expect("dumpe2fs tells the state");
        assert!(state.ends_with(" clean"), "{}: {state}", image.display());
    }

    pub(crate) fn write(&self, name: &str, contents: &[u8]) {
        std::fs::write(self.path().join(name), contents).unwrap();
    }

    /// Puts a copy in the place of an image that this process had open: threads that are just
    /// ending, and programs that are just being started, may hold the other one for a moment
    /// longer.
    pub(crate) fn renew(&self, name: &str) {
        let bytes = self.read(name);
        std::fs::remove_file(self.path().join(name)).unwrap();
        self.write(name, &bytes);
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path().join(name)).unwrap()
    }
}
