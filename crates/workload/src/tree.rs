//! Removes whole trees of a target.

use crate::error::TargetError;
use crate::target::{FileKind, Target};

/// Removes a directory and everything below it. Continues after an error, and returns the first
/// one.
pub(crate) fn remove(target: &dyn Target, directory: &str) -> Result<(), TargetError> {
    let mut result = Ok(());
    for entry in target.readdir(directory)? {
        let path = format!("{directory}/{}", entry.name);
        let removed = if entry.kind == FileKind::Directory {
            remove(target, &path)
        } else {
            target.unlink(&path)
        };
        result = result.and(removed);
    }
    result.and(target.rmdir(directory))
}
