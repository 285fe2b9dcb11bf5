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
    pub(crate) fn write(disks: &Disks) -> Result<Self, Broken> {
        Self::try_write(disks).map_err(|error| not_read(&error))
    }

    /// Writes the contents of devices, sparsely.
    ///
    /// # Errors
    /// - U1 if the files cannot be written.
    pub(crate) fn of_devices(
        home: &MemoryDevice,
        log: Option<&MemoryDevice>,
    ) -> Result<Self, Broken> {
        Self::with(home, log, |device, path| device.write_to_file(path))
            .map_err(|error| not_read(&error))
    }

    fn try_write(disks: &Disks) -> io::Result<Self> {
        let write = |image: &Image, path: &Path| std::fs::write(path, image.to_bytes());
        Self::with(&disks.home, disks.log.as_ref(), write)
    }

    fn with<T>(
        home: &T,
        log: Option<&T>,
        write: impl Fn(&T, &Path) -> io::Result<()>,
    ) -> io::Result<Self> {
        let folder = if Path::new(FAST_FOLDER).is_dir() {
            tempfile::tempdir_in(FAST_FOLDER)?
        } else {
            tempfile::tempdir()?
        };
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
    pub(crate) fn read(&self, like: &Disks) -> Result<Disks, Broken> {
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
    pub(crate) fn repair(&self) -> Result<(), Broken> {
        self.expect("-fy", &REPAIRED)
    }

    /// Lets e2fsck replay the log and do what it does without questions, as at boot.
    ///
    /// # Errors
    /// - U2, with its output, if e2fsck leaves errors.
    pub(crate) fn preen(&self) -> Result<(), Broken> {
        self.expect("-fp", &REPAIRED)
    }

    /// Expects that e2fsck finds nothing.
    ///
    /// # Errors
    /// - U2, with its output.
    pub(crate) fn expect_clean(&self) -> Result<(), Broken> {
        self.expect("-fn", &[Some(0)])
    }

    fn expect(&self, flags: &str, statuses: &[Option<i32>]) -> Result<(), Broken> {
        match self.e2fsck(flags) {
            Ok((status, _)) if statuses.contains(&status) => Ok(()),
            Ok((_, text)) => Err(Broken::new(Rule::U2, format!("e2fsck {flags}: {text}"))),
            Err(error) => Err(not_run(&error)),
        }
    }
}

/// Checks disks with e2fsck.
///
/// # Errors
/// - U2, with its output, or the reason why it could not be run; U1 if the files cannot be written.
pub fn check(disks: &Disks) -> Result<(), Broken> {
    Files::write(disks)?.expect_clean()
}

fn not_read(error: &io::Error) -> Broken {
    let what = format!("an image cannot be written or read: {error}");
    Broken::new(Rule::U1, what)
}

fn not_run(error: &io::Error) -> Broken {
    let what = format!("e2fsck could not be run ({error}): run scripts/install-test-tools");
    Broken::new(Rule::U2, what)
}
