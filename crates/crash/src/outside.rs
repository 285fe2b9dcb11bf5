//! The comparison with other programs: random crash images of all generators, given to e2fsck and
//! to the kernel.
//!
//! | sample | requirement |
//! |---|---|
//! | recovered | `e2fsck -fn` and `fsck` find nothing, see below |
//! | unrecovered | jext, `e2fsck -fy` and the kernel recover it to the same tree, see below |
//! | without a journal | `e2fsck -fy` repairs it, and unchanged synced data is there |
//!
//! A recovered sample is checked after recovery, after it was closed, and as the volume that the
//! workload itself closed. Unrecovered samples are recovered to the same bytes if no orphan has to
//! be completed.
//!
//! The same bytes are those outside the fields that [`testkit::same`] names. Each program completes
//! an interrupted operation on an orphan in its own way and at its own time
//! (`crates/ext/tests/it/crossing/orphans.rs` has the details); in that case the trees are
//! compared, without the times of truncated files.
//!
//! An ext4 whose superblock a power cut tore apart is refused by e2fsck and by the kernel; such
//! images are counted only.
//!
//! The kernel accepts no log of fewer than 1,024 blocks, so unrecovered samples have one of that
//! length.

mod recovered;
mod repaired;
mod sample;
mod unrecovered;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::replay::ReplayId;
use crate::rule::Broken;
use crate::setting::{Cell, NO_JOURNAL};
use crate::volumes::Volumes;
use sample::Sampler;

/// Required programs: the first always, the others if images are mounted.
const TOOLS: [&str; 4] = ["e2fsck", "losetup", "mount", "umount"];

/// Settings of a comparison.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Cells of the samples.
    pub cells: Vec<Cell>,
    /// Seed of the samples.
    pub seed: u64,
    /// Number of recovered images.
    pub recovered: u64,
    /// Number of unrecovered ones; they need root.
    pub unrecovered: u64,
    /// Number of volumes without a journal.
    pub unjournaled: u64,
    /// Number of threads.
    pub threads: usize,
}

/// Numbers of compared samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Images that jext recovered and closed, on which e2fsck and `fsck` find nothing.
    pub recovered: u64,
    /// The same images right after recovery; none if orphans were completed, because that is still
    /// in the log.
    pub just_recovered: u64,
    /// Volumes that workloads closed themselves; none if a device failed.
    pub closed: u64,
    /// Images that e2fsck and the kernel recovered to the same tree as jext.
    pub same_trees: u64,
    /// Images among those that are equal block for block.
    pub same_bytes: u64,
    /// Images among those with the same tree in which something was replayed.
    pub replayed: u64,
    /// Images of volumes without a journal that e2fsck repaired.
    pub repaired: u64,
    /// The files on them that were synced and not changed since.
    pub synced_files: u64,
    /// Images that the others refuse, because the cut tore the superblock apart and its checksum
    /// does not match; they are not given to them. With a journal, jext recovers them.
    pub torn: u64,
}

/// A difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Replay id of the sample.
    pub id: ReplayId,
    /// The difference.
    pub broken: Broken,
}

/// The result of a comparison.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Numbers of compared samples.
    pub counts: Counts,
    /// The first difference.
    pub difference: Option<Difference>,
    /// Duration of the comparison.
    pub elapsed: Duration,
}

impl core::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.recovered += other.recovered;
        self.just_recovered += other.just_recovered;
        self.closed += other.closed;
        self.same_trees += other.same_trees;
        self.same_bytes += other.same_bytes;
        self.replayed += other.replayed;
        self.repaired += other.repaired;
        self.synced_files += other.synced_files;
        self.torn += other.torn;
    }
}

/// Returns the first required tool that is missing.
pub fn missing(comparison: &Comparison) -> Option<&'static str> {
    let tools = TOOLS.iter().take(if comparison.unrecovered > 0 {
        TOOLS.len()
    } else {
        1
    });
    tools.copied().find(|tool| !testkit::tool::is_there(tool))
}

struct Samplers {
    journaled: Sampler,
    unjournaled: Sampler,
}

#[derive(Default)]
struct Shared {
    next: u64,
    report: Report,
}

impl Comparison {
    /// Runs the comparison. `progress` is called with the number of completed samples.
    pub fn run(&self, progress: &(dyn Fn(u64) + Sync)) -> Report {
        let start = Instant::now();
        let samplers = Samplers {
            journaled: Sampler::new(self.cells.clone(), self.seed),
            unjournaled: Sampler::new(vec![NO_JOURNAL, NO_JOURNAL.ext4()], self.seed),
        };
        let shared = Mutex::new(Shared::default());
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| self.work(&samplers, &shared, progress));
            }
        });
        let shared = shared.into_inner();
        let mut report = shared.unwrap_or_else(PoisonError::into_inner).report;
        report.elapsed = start.elapsed();
        report
    }

    /// Returns the number of samples.
    pub fn count(&self) -> u64 {
        self.recovered + self.unrecovered + self.unjournaled
    }

    fn work(&self, samplers: &Samplers, shared: &Mutex<Shared>, progress: &(dyn Fn(u64) + Sync)) {
        let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut volumes = Volumes::default();
        loop {
            let number = {
                let mut shared = lock();
                let is_over = shared.next >= self.count();
                if is_over || shared.report.difference.is_some() {
                    return;
                }
                shared.next += 1;
                shared.next - 1
            };
            let result = self.check(samplers, number, &mut volumes);
            let mut shared = lock();
            match result {
                Ok(counts) => shared.report.counts += counts,
                Err(difference) => {
                    shared.report.difference.get_or_insert(*difference);
                }
            }
            progress(number + 1);
        }
    }

    fn check(
        &self,
        samplers: &Samplers,
        number: u64,
        volumes: &mut Volumes,
    ) -> Result<Counts, Box<Difference>> {
        let Samplers {
            journaled,
            unjournaled,
        } = samplers;
        if number < self.recovered {
            return recovered::check(&journaled.take(number, false, volumes)?);
        }
        let has_journal = number < self.recovered + self.unrecovered;
        let sample = match has_journal {
            true => journaled.take(number, true, volumes)?,
            false => unjournaled.take(number, false, volumes)?,
        };
        if sample.disks.is_superblock_torn() {
            return Ok(Counts {
                torn: 1,
                ..Counts::default()
            });
        }
        match has_journal {
            true => unrecovered::check(&sample),
            false => repaired::check(&sample),
        }
    }
}
