//! Unnamed files for what is too large for memory.

use std::env::temp_dir;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

/// Number of files that this process has created.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Creates a file in the folder for temporary files (`TMPDIR`), which is deleted when it is closed.
pub(crate) fn file() -> Result<File> {
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("jext-scratch-{}-{number}", std::process::id());
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
