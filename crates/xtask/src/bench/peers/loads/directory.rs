//! One large directory: the cost of an operation, by the number of entries.

use std::time::Instant;

use anyhow::Result;

use super::super::opened::Opened;
use super::super::site::Site;
use super::Done;
use super::metadata::Operation;

const DIRECTORY: &str = "large";
/// Maximum number of files that are looked up, renamed and removed, spread over the directory.
const SAMPLE_MAX: u32 = 50_000;
const MICROSECONDS: f64 = 1e6;

/// A directory with empty files.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Directory {
    pub(in super::super) entries: u32,
}

impl Directory {
    /// Returns the microseconds of one creation, lookup, renaming and removal. Those of changes
    /// include a sync.
    pub(super) fn run(self, site: &Site, opened: &Opened) -> Result<Done> {
        let target = &**opened.target();
        target.mkdir(DIRECTORY)?;
        opened.sync()?;
        let mut times = Vec::new();
        for operation in Operation::ALL {
            let count = match operation {
                Operation::Create => self.entries,
                _ => self.entries.min(SAMPLE_MAX),
            };
            let step = self.entries / count;
            let started = Instant::now();
            for index in 0..count {
                site.check_running()?;
                operation.call(target, DIRECTORY, index * step)?;
            }
            if operation.is_change() {
                opened.sync()?;
            }
            times.push(started.elapsed().as_secs_f64() * MICROSECONDS / f64::from(count));
        }
        Ok(Done::of(times))
    }
}
