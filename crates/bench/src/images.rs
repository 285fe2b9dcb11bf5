//! Images with directories of many names, which are made once, before anything is measured: under
//! valgrind that would take minutes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use block::MemoryDevice;
use ext::mkfs;
use ext::volume::NewInode;
use ext::{MountOptions, Volume};

use crate::rig::{Setup, device, name};

/// Numbers of names in a directory.
pub(crate) const SOME_NAMES: u64 = 10_000;
pub(crate) const MANY_NAMES: u64 = 100_000;
/// Size of an image in bytes.
const IMAGE_BYTES: u64 = 24 << 20;
/// Number of names that an inode gets: ext3 allows 32,000.
const NAMES_OF_INODE: u64 = 30_000;

/// A folder with the images.
pub struct Images {
    folder: PathBuf,
}

impl Images {
    /// Takes the images from a folder.
    pub fn at(folder: &Path) -> Self {
        let folder = folder.to_owned();
        Self { folder }
    }

    /// Makes the images in a folder.
    ///
    /// # Errors
    /// Returns the errors of the engine and of the folder.
    pub fn make(folder: &Path) -> Result<Self> {
        let images = Self::at(folder);
        for setup in Setup::ORDERED {
            for count in [SOME_NAMES, MANY_NAMES] {
                let path = images.path(setup, count);
                make(setup, count)?
                    .write_to_file(&path)
                    .with_context(|| path.display().to_string())?;
            }
        }
        Ok(images)
    }

    /// Returns a volume with a directory `/directory` of this number of names.
    pub(crate) fn load(&self, setup: Setup, count: u64) -> Result<Arc<MemoryDevice>> {
        let path = self.path(setup, count);
        let loaded = MemoryDevice::load_from_file(&path);
        Ok(Arc::new(
            loaded.with_context(|| path.display().to_string())?,
        ))
    }

    fn path(&self, setup: Setup, count: u64) -> PathBuf {
        self.folder.join(format!("{}-{count}", setup.format()))
    }
}

fn make(setup: Setup, count: u64) -> Result<MemoryDevice> {
    let memory = Arc::new(MemoryDevice::new(IMAGE_BYTES));
    mkfs::format(&device(&memory), &setup.mkfs())?;
    let volume = Volume::open(device(&memory), None, MountOptions::default())?;
    let directory = volume.create_directory("/directory")?;
    let mut target = None;
    for number in 0..count {
        let name = name(number);
        match target {
            Some(nr) if number % NAMES_OF_INODE != 0 => volume.link(nr, directory, &name)?,
            _ => target = Some(volume.create(directory, &name, &NewInode::default())?),
        }
    }
    volume.close()?;
    Ok(memory.snapshot())
}
