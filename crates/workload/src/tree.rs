//! Whole trees of a target: removing one, whatever is in it.

use crate::error::TargetError;
use crate::target::{FileKind, Target};

/// Removes everything below a directory, and then the directory. An error does not keep the rest from being removed; the
/// first one is returned.
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
