//! A file that appears under its name only when it is complete.
//!
//! Until then it has no name (`O_TMPFILE`): nothing is left behind however the command ends, even
//! by `kill -9`. On file systems without `O_TMPFILE` it has a hidden name in the same directory,
//! which an error or a signal removes.
//!
//! Files that belong together get their names one right after the other, by one system call each.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use transfer::publish::{Complete, publish};

use crate::interrupt::{self, OnSignal};

/// Permissions of a new file, before the umask.
const MODE: u32 = 0o666;

/// Maximum bytes of the name of a file in its hidden name, which other words follow.
const SHOWN_BYTES_MAX: usize = 200;

/// An unfinished file.
pub(crate) struct NewFile {
    path: PathBuf,
    file: File,
    /// Its temporary name, if it has one.
    hidden: Option<Hidden>,
    _on_signal: OnSignal,
}

/// A temporary name, removed on drop unless the file was renamed.
struct Hidden {
    path: PathBuf,
    _on_signal: OnSignal,
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // The name is already gone if the file was renamed.
        let _ = fs::remove_file(&self.path);
    }
}

impl NewFile {
    /// Creates an empty file, open for reading and writing, that will appear at `path`.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let context = || path.display().to_string();
        if path.file_name().is_none() {
            bail!("{}: is no name of a file", path.display());
        }
        // A file without a name needs no cleanup; a signal only reports the path.
        let on_signal = interrupt::on_signal(context(), || {});
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let (file, hidden) = match rustix::fs::open(folder, flags, Mode::from_raw_mode(MODE)) {
            Ok(file) => (File::from(file), None),
            // The kernel is too old, or the file system has no `O_TMPFILE`.
            Err(Errno::ISDIR | Errno::OPNOTSUPP | Errno::INVAL) => {
                let hidden = Hidden::beside(path);
                let mut options = File::options();
                let options = options.read(true).write(true).create_new(true);
                (
                    options.open(&hidden.path).with_context(context)?,
                    Some(hidden),
                )
            }
            Err(error) => return Err(error).with_context(context),
        };
        Ok(Self {
            path: path.to_owned(),
            file,
            hidden,
            _on_signal: on_signal,
        })
    }

    /// Returns the file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name. Replaces an existing file only if `replaces` is set.
    pub(crate) fn finish(self, replaces: bool) -> Result<()> {
        Self::finish_all(vec![self], replaces)
    }

    /// Gives complete files their names, one right after the other in this order. If one of them
    /// cannot get its name, those before it lose theirs, and the files that they replaced are back.
    pub(crate) fn finish_all(mut files: Vec<Self>, replaces: bool) -> Result<()> {
        if let ([file], false) = (&files[..], replaces)
            && file.hidden.is_none()
        {
            return file.link(&file.path).map_err(|errno| file.refused(errno));
        }
        // A file without a name cannot replace another in one step.
        let hidden = files
            .iter_mut()
            .map(Self::hide)
            .collect::<Result<Vec<_>>>()?;
        let complete = files.iter().zip(&hidden);
        let complete: Vec<_> = complete
            .map(|(file, hidden)| Complete {
                hidden,
                path: &file.path,
            })
            .collect();
        let published = publish(&complete, replaces);
        published.map_err(|unpublished| files[unpublished.number].refused(unpublished.errno))
    }

    fn refused(&self, errno: Errno) -> Error {
        let path = self.path.display();
        match errno {
            Errno::EXIST => anyhow!("{path}: is there already"),
            errno => Error::from(errno).context(path.to_string()),
        }
    }

    /// Returns the hidden name, which a file without a name gets.
    fn hide(&mut self) -> Result<PathBuf> {
        let hidden = match self.hidden.take() {
            Some(hidden) => hidden,
            None => {
                let hidden = Hidden::beside(&self.path);
                self.link(&hidden.path)
                    .map_err(|errno| self.refused(errno))?;
                hidden
            }
        };
        let path = hidden.path.clone();
        self.hidden = Some(hidden);
        Ok(path)
    }

    fn link(&self, name: &Path) -> Result<(), Errno> {
        let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::linkat(CWD, open, CWD, name, AtFlags::SYMLINK_FOLLOW)
    }
}

impl Hidden {
    /// Returns a hidden name in the directory of a path.
    fn beside(path: &Path) -> Self {
        let path = hidden_name(path);
        let (name, at_signal) = (path.display().to_string(), path.clone());
        Self {
            path,
            _on_signal: interrupt::on_signal(name, move || {
                let _ = fs::remove_file(at_signal);
            }),
        }
    }
}

/// Returns a hidden name in the directory of a path: random, so that no other process uses or
/// predicts it, and no longer than names may be.
pub(crate) fn hidden_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    let own = path.file_name().unwrap_or_default().as_bytes();
    name.push(OsStr::from_bytes(&own[..own.len().min(SHOWN_BYTES_MAX)]));
    name.push(format!(".unfinished-{:016x}", rt::random_u64()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn names(folder: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.flatten().map(|entry| entry.file_name()).collect()
    }

    #[test]
    fn a_file_appears_when_it_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new");
        let new = NewFile::create(&path).expect("there is room");
        new.file().write_all(b"first").expect("there is room");
        assert!(!path.exists());
        new.finish(false).expect("nothing has its name");
        assert_eq!(fs::read(&path).expect("it is there"), b"first");
        let second = || {
            let new = NewFile::create(&path).expect("there is room");
            new.file().write_all(b"second").expect("there is room");
            new
        };
        let refused = second().finish(false).expect_err("it is there").to_string();
        assert!(refused.ends_with("new: is there already"), "{refused}");
        second().finish(true).expect("it may be replaced");
        assert_eq!(fs::read(&path).expect("it is there"), b"second");
        drop(second());
        assert_eq!(names(folder.path()), ["new"]);
    }

    #[test]
    fn a_name_may_be_as_long_as_names_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("n".repeat(255));
        for replaces in [false, true] {
            let new = NewFile::create(&path).expect("there is room");
            new.finish(replaces).expect("it gets its name");
        }
        assert_eq!(names(folder.path()).len(), 1);
    }
}
