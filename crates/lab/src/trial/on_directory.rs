//! A trial in a directory: it creates a folder there and removes it afterwards.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use workload::Target;
use workload::directory::DirectoryTarget;

use super::Work;
use crate::record::Measured;
use crate::system::open_files;
use crate::timeline::Counts;

/// Prefix of the folder's name.
const FOLDER_PREFIX: &str = "jext-lab";

pub(super) fn run(path: &Path, work: &Work) -> Result<Measured> {
    open_files::raise_limit()?;
    let folder = path.join(format!("{FOLDER_PREFIX}-{}", std::process::id()));
    fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
    let result = DirectoryTarget::new(&folder)
        .map_err(Into::into)
        .and_then(|target| {
            let target: Arc<dyn Target> = Arc::new(target);
            // Dirty data of earlier trials must not count against this one.
            target.sync()?;
            work.run(target, Counts::default)
        });
    // The workload removes its own files; the folder is not empty after a failed run.
    let removed = fs::remove_dir_all(&folder).with_context(|| folder.display().to_string());
    let measured = result?;
    removed?;
    Ok(measured)
}
