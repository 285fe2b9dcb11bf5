//! The settings of a mount.

use crate::mount_point::Description;
use crate::served::Owners;

/// Default number of requests processed at once. A thread that syncs waits for the device.
pub const THREADS: usize = 16;

/// The settings of a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Description for the table of mounts.
    pub description: Description,
    /// Owners that are shown instead of the inodes' own.
    pub owners: Owners,
    /// True if files are opened without a request. This is faster, but an open file does not report
    /// background write errors that another one has reported, and append-only files are not
    /// protected from being overwritten.
    pub is_lazy_open: bool,
    /// True if direct writes to one file are processed side by side. Their files bypass the
    /// kernel's cache, which then shows old times until it has forgotten the file. No effect if the
    /// kernel is older than Linux 6.6, or with `is_lazy_open`.
    pub is_direct_parallel: bool,
    /// Number of requests processed at once.
    pub threads: usize,
    /// True if an otherwise idle processor may poll for requests, or be kept occupied, while they
    /// are dense.
    pub may_poll: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            description: Description::default(),
            owners: Owners::default(),
            is_lazy_open: false,
            is_direct_parallel: false,
            threads: THREADS,
            may_poll: true,
        }
    }
}
