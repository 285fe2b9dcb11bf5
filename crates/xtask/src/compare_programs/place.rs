//! The place where both programs run: one directory, or a file system that is made anew for every
//! run.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use lab::file_system::{MountedFileSystem, MountedSetup};
use lab::plan::key::Key;
use lab::plan::settings::Settings;
use lab::setup::{self, Setup};

use super::Arguments;

/// Name prefix of the folders of runs.
const FOLDER_PREFIX: &str = "jext-compare";

/// The place where the programs run.
pub(super) enum Place {
    Directory(String),
    Mounted {
        setup: Box<MountedSetup>,
        target: String,
        device: String,
    },
}

impl Place {
    /// Returns the place that the arguments select.
    pub(super) fn new(arguments: &Arguments) -> Result<Self> {
        let Arguments {
            dir,
            target,
            device,
            ..
        } = arguments;
        if let Some(path) = dir {
            let is_directory = fs::metadata(path).with_context(|| path.clone())?.is_dir();
            return match is_directory {
                true => Ok(Self::Directory(path.clone())),
                false => bail!("{path}: is no directory"),
            };
        }
        let mut settings = Settings::defaults();
        for (key, text) in [("target", target), ("device", device)] {
            let key = Key::named(key).context("a key of plans")?;
            let value = key.kind.parse(text);
            let value = value.map_err(|error| anyhow!("--{} {text}: {error}", key.name))?;
            settings.set(key.name, value, None);
        }
        match Setup::of(&settings)?.place {
            setup::Environment::Mounted { file_system } => Ok(Self::Mounted {
                setup: file_system,
                target: target.clone(),
                device: device.clone(),
            }),
            _ => bail!("--target {target}: only file systems of the kernel; a directory is --dir"),
        }
    }

    /// True if a file system is mounted for each run.
    pub(super) fn mounts(&self) -> bool {
        matches!(self, Self::Mounted { .. })
    }

    /// Returns a description of the place.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Directory(path) => path.clone(),
            Self::Mounted { target, device, .. } => {
                format!("{target} on {device}, made anew for every run")
            }
        }
    }

    /// Runs `work` with a new folder in the place, and a second folder for other files of the
    /// program. Syncs a directory first, so that earlier dirty data does not affect the run.
    pub(super) fn with_folder<T>(&self, work: impl FnOnce(&Path, &Path) -> Result<T>) -> Result<T> {
        let scratch = Folder::make(&std::env::temp_dir())?;
        match self {
            Self::Directory(path) => {
                let folder = Folder::make(Path::new(path))?;
                let root = File::open(path).with_context(|| path.clone())?;
                rustix::fs::syncfs(&root).context("sync")?;
                work(&folder.0, &scratch.0)
            }
            Self::Mounted { setup, .. } => {
                let mounted = MountedFileSystem::make(setup)?;
                let result = work(&mounted.path(), &scratch.0)?;
                mounted.close()?;
                Ok(result)
            }
        }
    }
}

/// A folder that is removed with its contents on drop.
struct Folder(std::path::PathBuf);

impl Folder {
    fn make(parent: &Path) -> Result<Self> {
        let parent = fs::canonicalize(parent).with_context(|| parent.display().to_string())?;
        let path = parent.join(format!("{FOLDER_PREFIX}-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Drop cannot return an error, and the run that left files there has already failed.
        let _ = fs::remove_dir_all(&self.0);
    }
}
