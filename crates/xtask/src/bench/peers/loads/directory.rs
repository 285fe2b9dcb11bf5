//! One large directory: the cost of an operation, by the number of entries.
//!
//! All sizes do the same number of operations on files that were created one after another: a small
//! directory is followed by others of its size, and in a large one the files are a sample, in runs
//! that are spread over its numbers. So the inodes of a sample lie as densely in their blocks as
//! all inodes of a small directory, and what differs is the directory.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::super::opened::Opened;
use super::super::site::Site;
use super::Done;
use super::metadata::Operation;

/// Number of runs of consecutive files in a sample.
const RUNS: u32 = 50;
const MICROSECONDS: f64 = 1e6;

/// A directory with empty files.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Directory {
    pub(in super::super) entries: u32,
    /// Number of files that are looked up, renamed and removed.
    pub(in super::super) sample: u32,
}

/// Time and number of calls of an operation.
#[derive(Debug, Clone, Copy, Default)]
struct Total {
    time: Duration,
    calls: u32,
}

impl Directory {
    /// Returns the microseconds of one creation, lookup, renaming and removal. Those of changes
    /// include a sync.
    pub(super) fn run(self, site: &Site, opened: &Opened) -> Result<Done> {
        let mut totals = [Total::default(); Operation::ALL.len()];
        for number in 0..self.directory_count() {
            let directory = format!("large-{number}");
            opened.target().mkdir(&directory)?;
            opened.sync()?;
            for (operation, total) in Operation::ALL.into_iter().zip(&mut totals) {
                self.call_all(operation, &directory, (site, opened), total)?;
            }
        }
        let times = totals.map(|total| total.time.as_secs_f64() / f64::from(total.calls));
        Ok(Done::of(times.map(|seconds| seconds * MICROSECONDS)))
    }

    /// Calls an operation for all its files in a directory, and adds to its total.
    fn call_all(
        self,
        operation: Operation,
        directory: &str,
        (site, opened): (&Site, &Opened),
        total: &mut Total,
    ) -> Result<()> {
        let target = &**opened.target();
        let started = Instant::now();
        for number in self.numbers(operation) {
            site.check_running()?;
            operation.call(target, directory, number)?;
            total.calls += 1;
        }
        if operation.is_change() {
            opened.sync()?;
        }
        total.time += started.elapsed();
        Ok(())
    }

    /// Returns the number of directories that have a sample together.
    fn directory_count(self) -> u32 {
        (self.sample / self.entries).max(1)
    }

    /// Returns the numbers of the files of a directory that an operation is called for.
    fn numbers(self, operation: Operation) -> impl Iterator<Item = u32> {
        let is_whole = operation == Operation::Create || self.entries <= self.sample;
        let (runs, length) = match is_whole {
            true => (1, self.entries),
            false => (RUNS, self.sample / RUNS),
        };
        let distance = self.entries / runs;
        (0..runs).flat_map(move |run| run * distance..run * distance + length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sizes_do_the_same_number_of_operations() {
        for entries in [1000, 10_000, 100_000, 1_000_000] {
            let sample = 50_000;
            let load = Directory { entries, sample };
            for operation in [Operation::Lookup, Operation::Rename, Operation::Unlink] {
                let numbers: Vec<u32> = load.numbers(operation).collect();
                let calls = numbers.len() as u32 * load.directory_count();
                assert_eq!(calls, sample, "{entries}");
                assert!(numbers.is_sorted_by(|one, next| one < next), "{entries}");
                assert!(numbers.iter().all(|number| *number < entries), "{entries}");
                let steps = numbers.windows(2).filter(|pair| pair[1] == pair[0] + 1);
                let jumps = numbers.len() - 1 - steps.count();
                assert!(jumps < RUNS as usize, "{entries}");
            }
            let created = load.numbers(Operation::Create);
            assert!(created.eq(0..entries), "{entries}");
        }
    }
}
