//! The verdict of `e2fsck` on images: a second check of a share of all closed volumes.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use block::MemoryDevice;
use tempfile::TempDir;

use crate::disks::Disks;
use crate::image::{BLOCK_BYTES, Image};
use crate::rule::{Broken, Rule};

/// Folder in memory, used if it exists, because thousands of images are written.
const FAST_FOLDER: &str = "/dev/shm";
/// The exit statuses of `e2fsck -y` and `-p` after which nothing is wrong.
const REPAIRED: [Option<i32>; 2] = [Some(0), Some(1)];

/// The message of e2fsck, and of what it runs on, where a file cannot grow.
const NO_ROOM: &str = "No space left on device";

/// The reason why e2fsck has not passed an image.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The image is wrong.
    Verdict(Broken),
    /// This machine fails: nothing is known of the image.
    Machine(Broken),
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        Self::Verdict(broken)
    }
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Verdict(broken) | Failure::Machine(broken) => broken,
        }
    }
}

/// Disks as files in a separate folder.
pub(crate) struct Files {
    /// File of the file-system device.
    pub(crate) image: PathBuf,
    /// File of the journal's device, if it is external.
    pub(crate) journal: Option<PathBuf>,
    _folder: TempDir,
}

impl Files {
    /// Writes the files.
    ///
    /// # Errors
    /// - U1 if they cannot be written.
    pub(crate) fn write(disks: &Disks) -> Result<Self, Failure> {
        Self::try_write(disks).map_err(|error| not_read(&error))
    }

    /// Writes the contents of devices, sparsely.
    ///
    /// # Errors
    /// - U1 if the files cannot be written.
    pub(crate) fn of_devices(
        home: &MemoryDevice,
        log: Option<&MemoryDevice>,
    ) -> Result<Self, Failure> {
        Self::with(home, log, |device, path| device.write_to_file(path))
            .map_err(|error| not_read(&error))
    }

    fn try_write(disks: &Disks) -> io::Result<Self> {
        let write = |image: &Image, path: &Path| std::fs::write(path, image.to_bytes());
        Self::with(&disks.home, disks.log.as_ref(), write)
    }

    /// Writes the files in memory, or in the temporary folder if there is no room.
    fn with<T>(
        home: &T,
        log: Option<&T>,
        write: impl Fn(&T, &Path) -> io::Result<()>,
    ) -> io::Result<Self> {
        let fast = tempfile::tempdir_in(FAST_FOLDER);
        if let Ok(files) = fast.and_then(|folder| Self::within(folder, home, log, &write)) {
            return Ok(files);
        }
        Self::within(tempfile::tempdir()?, home, log, &write)
    }

    fn within<T>(
        folder: TempDir,
        home: &T,
        log: Option<&T>,
        write: &impl Fn(&T, &Path) -> io::Result<()>,
    ) -> io::Result<Self> {
        let image = folder.path().join("image");
        write(home, &image)?;
        let journal = log.map(|log| {
            let journal = folder.path().join("journal");
            write(log, &journal).map(|()| journal)
        });
        Ok(Self {
            image,
            journal: journal.transpose()?,
            _folder: folder,
        })
    }

    /// Returns the current contents of the files, with the journal if it is on another device.
    ///
    /// # Errors
    /// - U1 if they cannot be read.
    pub(crate) fn read(&self, like: &Disks) -> Result<Disks, Failure> {
        let journal = self.journal.as_ref().map(std::fs::read).transpose();
        let home = std::fs::read(&self.image).map_err(|error| not_read(&error))?;
        let image = |bytes: Vec<u8>| {
            Image::new(bytes.len() as u64, |number| {
                let first = number as usize * BLOCK_BYTES;
                layout::Block::copy_from(&bytes[first..first + BLOCK_BYTES])
            })
        };
        Ok(Disks {
            home: image(home),
            log: journal.map_err(|error| not_read(&error))?.map(image),
            ..like.clone()
        })
    }

    /// Runs e2fsck on the files. Returns its exit status, and its output in one line.
    fn e2fsck(&self, flags: &str) -> io::Result<(Option<i32>, String)> {
        let mut command = Command::new("e2fsck");
        command.arg(flags).env("LC_ALL", "C");
        if let Some(journal) = &self.journal {
            command.arg("-j").arg(journal);
        }
        let output = command.arg(&self.image).output()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        Ok((output.status.code(), lines.join(" | ")))
    }

    /// Lets e2fsck replay the log and repair the file system.
    ///
    /// # Errors
    /// - U2, with its output, if e2fsck leaves errors.
    pub(crate) fn repair(&self) -> Result<(), Failure> {
        self.expect("-fy", &REPAIRED)
    }

    /// Lets e2fsck replay the log and do what it does without questions, as at boot.
    ///
    /// # Errors
    /// - U2, with its output, if e2fsck leaves errors.
    pub(crate) fn preen(&self) -> Result<(), Failure> {
        self.expect("-fp", &REPAIRED)
    }

    /// Expects that e2fsck finds nothing.
    ///
    /// # Errors
    /// - U2, with its output.
    pub(crate) fn expect_clean(&self) -> Result<(), Failure> {
        self.expect("-fn", &[Some(0)])
    }

    fn expect(&self, flags: &str, statuses: &[Option<i32>]) -> Result<(), Failure> {
        match self.e2fsck(flags) {
            Ok((status, _)) if statuses.contains(&status) => Ok(()),
            Ok((_, text)) => {
                let broken = Broken::new(Rule::U2, format!("e2fsck {flags}: {text}"));
                Err(match text.contains(NO_ROOM) {
                    true => Failure::Machine(broken),
                    false => Failure::Verdict(broken),
                })
            }
            Err(error) => Err(not_run(&error)),
        }
    }
}

/// Checks disks with e2fsck.
///
/// # Errors
/// - U2, with its output, or the reason why it could not be run; U1 if the files cannot be written.
pub fn check(disks: &Disks) -> Result<(), Broken> {
    Ok(Files::write(disks)?.expect_clean()?)
}

/// Returns the failure of a file.
pub(crate) fn not_read(error: &io::Error) -> Failure {
    let folder = std::env::temp_dir();
    let what = format!(
        "an image cannot be written or read, neither in {FAST_FOLDER} nor in {} ({error}): make room there, or set TMPDIR to a folder with room",
        folder.display()
    );
    Failure::Machine(Broken::new(Rule::U1, what))
}

fn not_run(error: &io::Error) -> Failure {
    let what = format!("e2fsck could not be run ({error}): run scripts/install-test-tools");
    Failure::Machine(Broken::new(Rule::U2, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a file, but not in memory.
    fn write_outside(bytes: &[u8; 3], path: &Path) -> io::Result<()> {
        match path.starts_with(FAST_FOLDER) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => std::fs::write(path, bytes),
        }
    }

    #[test]
    fn files_without_room_in_memory_are_in_the_temporary_folder() {
        let files = Files::with(b"abc", Some(b"def"), write_outside).expect("there is room");
        assert!(files.image.starts_with(std::env::temp_dir()));
        assert_eq!(std::fs::read(&files.image).expect("it is there"), b"abc");
        let journal = files.journal.as_ref().expect("it has a journal");
        assert_eq!(std::fs::read(journal).expect("it is there"), b"def");
    }

    #[test]
    fn a_full_machine_is_no_verdict() {
        let full = |_: &(), _: &Path| Err(io::ErrorKind::StorageFull.into());
        let error = Files::with(&(), None, full)
            .err()
            .expect("there is no room");
        let Failure::Machine(broken) = not_read(&error) else {
            panic!("the image is not known");
        };
        assert!(broken.what.contains("TMPDIR"), "{}", broken.what);
    }
}
