//! Unnamed files for what is too large for memory.

use std::env::temp_dir;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Context, Result};

/// Creates a file in the folder for temporary files (`TMPDIR`), which is deleted when it is closed.
pub(crate) fn file() -> Result<File> {
    // Random, so that no other process has taken the name.
    let number = RandomState::new().hash_one(std::process::id());
    let name = format!("jext-scratch-{number:016x}");
    let path = temp_dir().join(name);
    let context = || path.display().to_string();
    let mut options = File::options();
    let options = options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(&path).with_context(context)?;
    std::fs::remove_file(&path).with_context(context)?;
    Ok(file)
}

/// Returns the folder for temporary files, for errors of [`file`]s there.
pub(crate) fn folder() -> String {
    let folder = temp_dir();
    format!(
        "{}, the folder for temporary files (TMPDIR names another)",
        folder.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes of several containers have the same numbers, and may share the folder.
    #[test]
    fn names_of_other_processes_are_no_obstacle() {
        let process = std::process::id();
        let taken = |number| temp_dir().join(format!("jext-scratch-{process}-{number}"));
        (0..100).for_each(|number| std::fs::write(taken(number), b"").expect("there is room"));
        let files: Vec<Result<File>> = (0..50).map(|_| file()).collect();
        (0..100).for_each(|number| std::fs::remove_file(taken(number)).expect("its own"));
        files
            .into_iter()
            .for_each(|file| drop(file.expect("there is room")));
    }
}
