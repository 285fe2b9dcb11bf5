//! Complete files get their names: those that belong together one right after the other, or none.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, RenameFlags};
use rustix::io::Errno;

/// Added to the hidden name of a file, for the file that it replaces.
const OLD: &str = ".old";

/// A complete file, with a hidden name in the folder in which it will appear.
#[derive(Debug, Clone, Copy)]
pub struct Complete<'p> {
    /// The hidden name.
    pub hidden: &'p Path,
    /// The name that the file gets.
    pub path: &'p Path,
}

/// The reason that a file could not get its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unpublished {
    /// Number of the file.
    pub number: usize,
    /// Error of the system; `EXIST` if the name is taken and may not be replaced.
    pub errno: Errno,
}

/// Gives files their names in this order, with one system call for each. Replaces existing files
/// only if `replaces` is set. If a file cannot get its name, those before it lose theirs, and the
/// files that they replaced are back.
///
/// # Errors
/// Fails with the first file that cannot get its name.
pub fn publish(files: &[Complete<'_>], replaces: bool) -> Result<(), Unpublished> {
    let mut kept = Vec::new();
    let mut named = 0;
    let kept_all = keep(files, replaces, &mut kept);
    let published = kept_all.and_then(|()| rename_all(files, replaces, &mut named));
    for (number, (file, old)) in files.iter().zip(&kept).enumerate() {
        // The error that led to this is reported, not one of this.
        let _ = match (old, published) {
            (Some(old), Ok(())) => fs::remove_file(old),
            (Some(old), Err(_)) => bring_back(old, file.path),
            (None, Err(_)) if number < named => fs::remove_file(file.path),
            (None, _) => Ok(()),
        };
    }
    published
}

/// Gives each file that is replaced another name, but for the last: nothing can fail after it.
fn keep(
    files: &[Complete<'_>],
    replaces: bool,
    kept: &mut Vec<Option<PathBuf>>,
) -> Result<(), Unpublished> {
    for (number, file) in files.iter().enumerate() {
        let is_last = number + 1 == files.len();
        if !replaces || is_last {
            kept.push(None);
            continue;
        }
        let mut old = OsString::from(file.hidden);
        old.push(OLD);
        let linked = rustix::fs::linkat(CWD, file.path, CWD, &old, AtFlags::empty());
        let done = match linked {
            // The file system has no links.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) if !file.path.is_dir() => {
                rustix::fs::renameat(CWD, file.path, CWD, &old)
            }
            other => other,
        };
        match done {
            Ok(()) => kept.push(Some(old.into())),
            Err(Errno::NOENT) => kept.push(None),
            Err(errno) => return Err(Unpublished { number, errno }),
        }
    }
    Ok(())
}

/// Gives a replaced file its name again.
fn bring_back(old: &Path, path: &Path) -> io::Result<()> {
    fs::rename(old, path)?;
    // A link to the same file is left as it is.
    match fs::remove_file(old) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Renames the files, and counts those that have their names.
fn rename_all(
    files: &[Complete<'_>],
    replaces: bool,
    named: &mut usize,
) -> Result<(), Unpublished> {
    for (number, file) in files.iter().enumerate() {
        let renamed = rename(file.hidden, file.path, replaces);
        renamed.map_err(|errno| Unpublished { number, errno })?;
        *named += 1;
    }
    Ok(())
}

fn rename(from: &Path, to: &Path, replaces: bool) -> Result<(), Errno> {
    if replaces {
        return rustix::fs::renameat(CWD, from, CWD, to);
    }
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system does not support the flag.
        Err(Errno::INVAL | Errno::NOSYS) => match to.symlink_metadata() {
            Ok(_) => Err(Errno::EXIST),
            Err(_) => rustix::fs::renameat(CWD, from, CWD, to),
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.flatten().map(|entry| entry.file_name()).collect()
    }

    /// The second file cannot have its name, so that the first does not keep its own.
    #[test]
    fn files_that_belong_together_appear_together() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let [first, second] = ["first", "second"].map(at);
        let put = |path: &Path, text: &str| fs::write(path, text).expect("there is room");
        let give_names = |replaces| {
            let hidden = [".first", ".second"].map(at);
            hidden.iter().for_each(|hidden| put(hidden, "new"));
            let paths = [&first, &second].into_iter().zip(&hidden);
            let files: Vec<_> = paths
                .map(|(path, hidden)| Complete { hidden, path })
                .collect();
            let published = publish(&files, replaces);
            hidden
                .iter()
                .for_each(|hidden| drop(fs::remove_file(hidden)));
            published.map_err(|unpublished| unpublished.number)
        };
        for replaces in [false, true] {
            fs::create_dir(&second).expect("there is room");
            assert_eq!(give_names(replaces), Err(1));
            assert_eq!(names(folder.path()), ["second"]);
            put(&first, "old");
            let refused = if replaces { 1 } else { 0 };
            assert_eq!(give_names(replaces), Err(refused));
            assert_eq!(fs::read(&first).expect("it is back"), b"old");
            assert_eq!(names(folder.path()).len(), 2);
            fs::remove_dir(&second).expect("it is empty");
            if replaces {
                put(&second, "old");
            } else {
                fs::remove_file(&first).expect("it is there");
            }
            assert_eq!(give_names(replaces), Ok(()));
            for path in [&first, &second] {
                assert_eq!(fs::read(path).expect("it is there"), b"new");
                fs::remove_file(path).expect("it is there");
            }
            assert!(names(folder.path()).is_empty());
        }
    }
}
