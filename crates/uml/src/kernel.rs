//! [`Kernel`]: the kernels that are installed.
//!
//! | kernel | installed by | time |
//! |---|---|---|
//! | `linux` in the cache folder | `jext lab kernel build` | virtual |
//! | `linux.uml` of Debian's package `user-mode-linux` | `jext lab kernel install` | real |

pub mod build;
mod library;

use std::env;
use std::path::PathBuf;

pub use self::library::Library;
use crate::GuestError;

/// Name of the folder of kernels in the user's cache folder.
const FOLDER: &str = "jext/kernel";
/// Name of the built kernel.
const BUILT: &str = "linux";
/// Debian's kernel.
const PACKAGED: &str = "linux.uml";

/// A kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Its program.
    pub path: PathBuf,
    /// The libraries that are loaded before its own.
    pub libraries: Vec<Library>,
}

impl Kernel {
    /// Returns the folder of built kernels; `None` if the user has no home.
    #[must_use]
    pub fn folder() -> Option<PathBuf> {
        let of = |name| env::var_os(name).map(PathBuf::from);
        let cache = of("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        let cache = cache.or_else(|| Some(of("HOME")?.join(".cache")))?;
        Some(cache.join(FOLDER))
    }

    /// Returns the kernel that runs in virtual time.
    ///
    /// # Errors
    /// Fails if it has not been built.
    pub fn in_virtual_time() -> Result<Self, GuestError> {
        let folder = Self::folder().unwrap_or_default();
        let path = folder.join(BUILT);
        if !path.is_file() {
            let what = "no kernel with virtual time: `jext lab kernel build` builds one";
            return Err(GuestError::Missing(what.to_owned()));
        }
        let libraries = [Library::Seeded].into_iter().chain(Library::registers());
        Ok(Self {
            path,
            libraries: libraries.collect(),
        })
    }

    /// Returns the kernel that runs in real time.
    ///
    /// # Errors
    /// Fails if it is not installed.
    pub fn in_real_time() -> Result<Self, GuestError> {
        let folders = env::var_os("PATH").unwrap_or_default();
        let mut paths = env::split_paths(&folders).map(|folder| folder.join(PACKAGED));
        let path = paths.find(|path| path.is_file());
        let path = path.ok_or_else(|| {
            let what = "no kernel for guests: `jext lab kernel install` installs one";
            GuestError::Missing(what.to_owned())
        })?;
        Ok(Self {
            path,
            libraries: Library::registers().into_iter().collect(),
        })
    }
}
