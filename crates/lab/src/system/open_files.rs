//! The limit of open files, which some workloads reach: filebench's database keeps thousands open.

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Default maximum number of open files of a process of root (`fs.nr_open`).
const FILES_MAX: u64 = 1 << 20;

/// Raises the limit of open files of this process, and of those that it starts.
///
/// # Errors
/// Fails if the system refuses even the limit that the process may give itself.
pub fn raise_limit() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let to = |most: Option<u64>| {
        setrlimit(
            Resource::Nofile,
            Rlimit {
                current: most,
                maximum: most,
            },
        )
    };
    // If even root may not raise the hard limit, the soft limit is raised to it.
    to(limit.maximum.map(|most| most.max(FILES_MAX)))
        .or_else(|_| to(limit.maximum))
        .context("the limit of open files")
}
