//! Sessions: many workloads, on several threads, until all are explored or time is up.
//!
//! Threads take workloads by number, a family at a time, and share nothing else: each has separate
//! disks.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::explore::Limits;
use crate::findings::Tally;
use crate::generator::Generator;
use crate::replay::ReplayId;
use crate::rule::Broken;
use crate::shrink::shrink;
use crate::sweep::try_all;
use crate::volumes::Volumes;

/// Interval of progress reports.
const PROGRESS: Duration = Duration::from_millis(500);
/// Maximum time of the search for a shorter workload: one that takes seconds has hundreds of them.
const SHRINKING_MAX: Duration = Duration::from_secs(60);

/// Settings of a session.
pub struct Session {
    /// The workloads.
    pub generator: Generator,
    /// Limits of the exploration of each.
    pub limits: Limits,
    /// Number of threads.
    pub threads: usize,
    /// Limits of the session.
    pub stop: Stop,
}

/// Limits of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stop {
    /// Maximum duration.
    pub after: Option<Duration>,
    /// Maximum number of states.
    pub states: Option<u64>,
    /// Maximum number of workloads.
    pub workloads: Option<u64>,
}

/// The outcome of a session.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Counts of the work done in each cell.
    pub cells: Vec<Tally>,
    /// The first violation.
    pub violation: Option<Violation>,
    /// The duration.
    pub elapsed: Duration,
    /// True if all workloads were explored.
    pub is_complete: bool,
}

/// A violation, shrunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Replay id of the violation.
    pub id: ReplayId,
    /// The broken rule.
    pub broken: Broken,
}

impl Report {
    /// Returns the counts of all cells together.
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.cells.iter().for_each(|tally| total += tally);
        total
    }
}

struct Shared {
    next: u64,
    report: Report,
    is_over: bool,
    /// True if a thread has stopped before it explored all that it took.
    has_left_some: bool,
    told: Instant,
}

impl Session {
    /// Runs the session. `progress` is called periodically with the counts so far.
    pub fn run(&self, progress: &(dyn Fn(&Tally, Duration) + Sync)) -> Report {
        let start = Instant::now();
        let shared = Mutex::new(Shared {
            next: 0,
            report: Report {
                cells: vec![Tally::default(); self.generator.cells().len()],
                ..Report::default()
            },
            is_over: false,
            has_left_some: false,
            told: start,
        });
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| self.work(&shared, start, progress));
            }
        });
        let shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        Report {
            elapsed: start.elapsed(),
            is_complete: shared.report.is_complete && !shared.has_left_some,
            ..shared.report
        }
    }

    fn work(
        &self,
        shared: &Mutex<Shared>,
        start: Instant,
        progress: &(dyn Fn(&Tally, Duration) + Sync),
    ) {
        let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut volumes = Volumes::default();
        let mut taken = 0..0;
        loop {
            let number = {
                let mut shared = lock();
                if taken.is_empty() {
                    if self.is_over(&mut shared, start) {
                        return;
                    }
                    taken = self.take(&mut shared);
                    if self.generator.has_families() {
                        volumes.begin_family();
                    }
                } else if self.is_stopped(&shared, start) {
                    shared.has_left_some = true;
                    return;
                }
                taken.start += 1;
                taken.start - 1
            };
            let (cell, workload) = self.generator.workload(number);
            let kind = self.generator.kind();
            let (tally, found) = try_all(&mut volumes, kind, &workload, self.limits);
            let mut shared = lock();
            shared.report.cells[cell] += &tally;
            if let Some((workload, found)) = found {
                shared.is_over = true;
                let is_first = shared.report.violation.is_none();
                drop(shared);
                if is_first {
                    let until = Instant::now() + SHRINKING_MAX;
                    let is_late = || Instant::now() >= until;
                    let (id, broken) = shrink(&workload, found, self.limits, &is_late);
                    lock()
                        .report
                        .violation
                        .get_or_insert(Violation { id, broken });
                }
                return;
            }
            if shared.told.elapsed() >= PROGRESS {
                shared.told = Instant::now();
                progress(&shared.report.total(), start.elapsed());
            }
        }
    }

    fn is_over(&self, shared: &mut Shared, start: Instant) -> bool {
        if self
            .generator
            .count()
            .is_some_and(|count| shared.next >= count)
        {
            shared.report.is_complete = true;
            return true;
        }
        self.is_stopped(shared, start)
            || self
                .stop
                .workloads
                .is_some_and(|count| shared.next >= count)
    }

    /// Takes workloads that have not been taken.
    fn take(&self, shared: &mut Shared) -> Range<u64> {
        let first = shared.next;
        let ends = [self.generator.count(), self.stop.workloads];
        let end = ends
            .into_iter()
            .flatten()
            .fold(first + self.generator.workloads_of_family(), u64::min);
        shared.next = end;
        first..end
    }

    fn is_stopped(&self, shared: &Shared, start: Instant) -> bool {
        let total = || shared.report.total();
        shared.is_over
            || self
                .stop
                .after
                .is_some_and(|after| start.elapsed() >= after)
            || self
                .stop
                .states
                .is_some_and(|states| total().recovered >= states)
    }
}
