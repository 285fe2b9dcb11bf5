//! The search within a group: the shortest free extent that is long enough. All numbers are of
//! clusters.

use crate::cache::space::bitmap::{ClearRun, View};

/// Number of extents of the ideal length that are compared.
const COMPARED_MAX: u32 = 16;

/// Numbers of blocks that a search accepts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lengths {
    /// The shortest extent that is accepted.
    pub(super) least: u32,
    /// The length that is wanted. Among extents that have it the shortest is taken, among others
    /// the longest.
    pub(super) ideal: u32,
}

/// A search within a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fit {
    /// The index at which the search starts; it goes on at the start of the group.
    pub(super) from: u32,
    pub(super) lengths: Lengths,
    /// True if the first extent of the ideal length is taken.
    pub(super) is_first: bool,
    /// The group's first cluster.
    pub(super) first: u64,
    /// Number of clusters in a stripe. Extents of a stripe and more start at a multiple of it, if
    /// one is long enough.
    pub(super) stripe: u64,
}

impl Fit {
    /// Returns the best extent; its count may exceed what is wanted. Fails with the length of the
    /// longest extent of the group if none is long enough.
    pub(super) fn find(&self, view: View<'_>) -> Result<ClearRun, u32> {
        let bits = view.taken.bits();
        let is_striped = self.stripe > 1 && u64::from(self.lengths.least) >= self.stripe;
        let mut best = Best::default();
        let mut aligned = Best::default();
        let mut compared = 0;
        for (mut at, to) in [(self.from, bits), (0, self.from)] {
            while let Some(start) = view.first_clear(at, to) {
                let run = ClearRun {
                    start,
                    count: view.run_length(start, bits),
                };
                at = start + run.count;
                best.offer(run, self.lengths.ideal);
                if is_striped && let Some(run) = self.align(run) {
                    aligned.offer(run, self.lengths.ideal);
                }
                compared += u32::from(run.count >= self.lengths.ideal);
                let is_exact = run.count == self.lengths.ideal && !is_striped;
                if compared >= COMPARED_MAX || is_exact || self.is_first && compared > 0 {
                    return Ok(self.choose(best, aligned).unwrap_or(run));
                }
            }
        }
        self.choose(best, aligned)
            .filter(|run| run.count >= self.lengths.least)
            .ok_or(best.longest())
    }

    /// Returns the aligned extent if it is long enough, else the other one.
    fn choose(&self, best: Best, aligned: Best) -> Option<ClearRun> {
        let is_long = |run: &ClearRun| run.count >= self.lengths.least;
        aligned.run.filter(is_long).or(best.run)
    }

    /// Returns the part of an extent from the first multiple of the stripe on.
    fn align(&self, run: ClearRun) -> Option<ClearRun> {
        let first = self.first + u64::from(run.start);
        let skipped = first.next_multiple_of(self.stripe) - first;
        (skipped < u64::from(run.count)).then(|| ClearRun {
            start: run.start + skipped as u32,
            count: run.count - skipped as u32,
        })
    }
}

/// The best extent so far.
#[derive(Debug, Clone, Copy, Default)]
struct Best {
    run: Option<ClearRun>,
}

impl Best {
    fn offer(&mut self, run: ClearRun, ideal: u32) {
        let is_better = match self.run {
            None => true,
            Some(best) if best.count >= ideal => run.count >= ideal && run.count < best.count,
            Some(best) => run.count > best.count,
        };
        if is_better {
            self.run = Some(run);
        }
    }

    /// Returns the length of the longest extent, if none had the ideal length.
    fn longest(self) -> u32 {
        self.run.map_or(0, |run| run.count)
    }
}
