//! The drive's volatile write cache: extents of dirty sectors, by location and by age.
//!
//! Writes that touch or overlap become one extent, as old as its oldest part, so that destaging an
//! extent satisfies every flush that waits for any part of it. An extent takes a segment of the
//! drive's memory; a write that continues the extent in flight continues its segment.

use std::collections::{BTreeMap, BTreeSet};

/// An extent of dirty sectors; its key is its start.
#[derive(Debug, Clone, Copy)]
struct Run {
    end: u64,
    age: u64,
}

/// Sectors that were acknowledged and are not on the platter yet.
#[derive(Debug, Clone)]
pub(super) struct WriteCache {
    capacity: u64,
    /// Maximum number of segments.
    segments_max: usize,
    /// Number of dirty sectors, those in flight included.
    used: u64,
    runs: BTreeMap<u64, Run>,
    /// The same extents as (age, start).
    ages: BTreeSet<(u64, u64)>,
    /// Age of the next write.
    next_age: u64,
    on_the_way: Option<InFlight>,
}

/// Sectors on their way to the platter.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    sectors: u64,
    age: u64,
    /// Sector after the last one.
    end: u64,
}

impl WriteCache {
    pub(super) fn new(capacity: u32, segments_max: Option<u32>) -> Self {
        Self {
            capacity: u64::from(capacity),
            segments_max: segments_max.map_or(usize::MAX, |most| most as usize),
            used: 0,
            runs: BTreeMap::new(),
            ages: BTreeSet::new(),
            next_age: 0,
            on_the_way: None,
        }
    }

    /// Returns true if a write of this length can ever be accepted.
    pub(super) fn can_hold(&self, sectors: u64) -> bool {
        sectors <= self.capacity
    }

    /// Returns true if a write can be accepted now.
    pub(super) fn has_room(&self, start: u64, end: u64) -> bool {
        let has_segment = self.segments() < self.segments_max
            || self.touching(start, end).is_some()
            || self.on_the_way.is_some_and(|moving| moving.end == start);
        has_segment && self.used + (end - start) <= self.capacity
    }

    /// Returns the number of segments in use.
    fn segments(&self) -> usize {
        let is_apart = |moving: InFlight| !self.runs.contains_key(&moving.end);
        self.runs.len() + usize::from(self.on_the_way.is_some_and(is_apart))
    }

    /// Returns true if there is an extent to destage.
    pub(super) fn is_dirty(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Returns true if destaging must not wait for an idle period.
    pub(super) fn is_above_high_water(&self) -> bool {
        self.used > self.capacity / 4 * 3
    }

    /// Returns true if a whole range is dirty and so can be read from the cache.
    pub(super) fn serves(&self, start: u64, end: u64) -> bool {
        self.runs
            .range(..=start)
            .next_back()
            .is_some_and(|(_, run)| end <= run.end)
    }

    /// Stores a write.
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        let mut whole = (start, end);
        let mut age = self.next_age;
        self.next_age += 1;
        while let Some((from, run)) = self.touching(whole.0, whole.1) {
            self.remove_run(from);
            whole = (whole.0.min(from), whole.1.max(run.end));
            age = age.min(run.age);
        }
        self.add_run(whole.0, Run { end: whole.1, age });
    }

    /// Drops a range that has been written past the cache.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        while let Some((from, run)) = self.overlapping(start, end) {
            self.remove_run(from);
            if from < start {
                self.add_run(
                    from,
                    Run {
                        end: start,
                        age: run.age,
                    },
                );
            }
            if end < run.end {
                self.add_run(
                    end,
                    Run {
                        end: run.end,
                        age: run.age,
                    },
                );
            }
        }
    }

    /// Returns the starts of the extents nearest to a sector, at most `each` on either side.
    pub(super) fn nearest(&self, sector: u64, each: usize) -> impl Iterator<Item = u64> + '_ {
        let after = self
            .runs
            .range(sector..)
            .take(each)
            .map(|(start, _)| *start);
        let before = self
            .runs
            .range(..sector)
            .rev()
            .take(each)
            .map(|(start, _)| *start);
        after.chain(before)
    }

    /// Returns the start of the first extent from a sector on, or else of the very first one.
    pub(super) fn next_from(&self, sector: u64) -> Option<u64> {
        let after = self.runs.range(sector..).next();
        let first = || self.runs.first_key_value();
        after.or_else(first).map(|(start, _)| *start)
    }

    /// Returns the start of the oldest extent.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.ages.first().map(|(_, start)| *start)
    }

    /// Starts writing the extent at `start`, or its first `sectors_max` sectors. Returns their
    /// number.
    ///
    /// # Panics
    /// Panics if there is no such extent, or another is in flight.
    pub(super) fn send(&mut self, start: u64, sectors_max: u64) -> u64 {
        assert!(self.on_the_way.is_none(), "there is one arm");
        let run = self.remove_run(start);
        let cut = run.end.min(start + sectors_max);
        if cut < run.end {
            self.add_run(
                cut,
                Run {
                    end: run.end,
                    age: run.age,
                },
            );
        }
        let sectors = cut - start;
        self.used += sectors;
        self.on_the_way = Some(InFlight {
            sectors,
            age: run.age,
            end: cut,
        });
        sectors
    }

    /// Returns the dirty parts of a range, in ascending order, without those in flight.
    pub(super) fn dirty_within(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let before = self.runs.range(..start).next_back();
        let runs = before.into_iter().chain(self.runs.range(start..end));
        let parts = runs.map(|(from, run)| (start.max(*from), end.min(run.end)));
        parts.filter(|(from, to)| from < to).collect()
    }

    /// Completes the write in flight.
    pub(super) fn complete(&mut self) {
        let moving = self.on_the_way.take().expect("something was on its way");
        self.used -= moving.sectors;
    }

    /// Returns a mark that covers all writes accepted so far.
    pub(super) fn mark(&self) -> u64 {
        self.next_age
    }

    /// Returns true if all writes before a mark are on the platter.
    pub(super) fn is_clean_before(&self, mark: u64) -> bool {
        let resting = self.ages.first().is_some_and(|(age, _)| *age < mark);
        let on_the_way = self.on_the_way.is_some_and(|moving| moving.age < mark);
        !resting && !on_the_way
    }

    /// Returns an extent that overlaps or touches a range.
    fn touching(&self, start: u64, end: u64) -> Option<(u64, Run)> {
        let (from, run) = self.runs.range(..=end).next_back()?;
        (run.end >= start).then_some((*from, *run))
    }

    fn overlapping(&self, start: u64, end: u64) -> Option<(u64, Run)> {
        let (from, run) = self.runs.range(..end).next_back()?;
        (run.end > start).then_some((*from, *run))
    }

    fn add_run(&mut self, start: u64, run: Run) {
        self.used += run.end - start;
        self.ages.insert((run.age, start));
        self.runs.insert(start, run);
    }

    fn remove_run(&mut self, start: u64) -> Run {
        let run = self.runs.remove(&start).expect("the run exists");
        assert!(
            self.ages.remove(&(run.age, start)),
            "each run is in both indexes"
        );
        self.used -= run.end - start;
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(cache: &WriteCache) -> Vec<(u64, u64)> {
        cache
            .runs
            .iter()
            .map(|(start, run)| (*start, run.end))
            .collect()
    }

    #[test]
    fn writes_that_touch_become_one_run() {
        let mut cache = WriteCache::new(100, None);
        cache.insert(10, 20);
        cache.insert(30, 40);
        assert_eq!(runs(&cache), [(10, 20), (30, 40)]);
        cache.insert(15, 32);
        assert_eq!(runs(&cache), [(10, 40)]);
        cache.insert(40, 41);
        cache.insert(9, 10);
        assert_eq!(runs(&cache), [(9, 41)]);
        assert_eq!(cache.used, 32);
        assert!(cache.serves(9, 41));
        assert!(!cache.serves(8, 10));
        assert!(cache.has_room(1_000, 1_068));
        assert!(!cache.has_room(1_000, 1_069));
    }

    #[test]
    fn an_extent_takes_a_segment_until_it_is_on_the_platter() {
        let mut cache = WriteCache::new(100, Some(2));
        cache.insert(10, 20);
        assert!(cache.has_room(50, 60));
        cache.insert(50, 60);
        assert!(!cache.has_room(80, 90), "there are two");
        assert!(cache.has_room(20, 30), "it continues the first one");
        cache.send(10, 6);
        assert!(!cache.has_room(80, 90), "the rest of the first one is here");
        cache.complete();
        cache.send(16, 100);
        assert!(!cache.has_room(80, 90), "it is on its way");
        assert!(cache.has_room(20, 30), "it continues what is on its way");
        cache.insert(20, 30);
        assert!(!cache.has_room(80, 90));
        cache.complete();
        assert!(!cache.has_room(80, 90), "its segment has grown");
        cache.send(20, 100);
        cache.complete();
        assert!(cache.has_room(80, 90));
    }

    #[test]
    fn forgetting_cuts_runs() {
        let mut cache = WriteCache::new(100, None);
        cache.insert(10, 40);
        cache.forget(20, 30);
        assert_eq!(runs(&cache), [(10, 20), (30, 40)]);
        cache.forget(0, 100);
        assert_eq!(runs(&cache), []);
        assert_eq!(cache.used, 0);
    }

    #[test]
    fn a_mark_covers_what_was_there_and_nothing_later() {
        let mut cache = WriteCache::new(100, None);
        cache.insert(10, 20);
        cache.insert(50, 60);
        let mark = cache.mark();
        cache.insert(80, 90);
        assert_eq!(cache.oldest(), Some(10));
        assert_eq!(cache.send(10, 6), 6);
        assert!(!cache.is_clean_before(mark));
        cache.complete();
        assert_eq!(cache.oldest(), Some(16));
        for start in [16, 50] {
            assert!(!cache.is_clean_before(mark));
            cache.send(start, 100);
            cache.complete();
        }
        assert!(cache.is_clean_before(mark));
        assert!(cache.is_dirty());
        assert_eq!(cache.used, 10);
    }

    #[test]
    fn dirty_parts_of_a_range_are_cut_to_it() {
        let mut cache = WriteCache::new(100, None);
        for (start, end) in [(10, 20), (30, 40), (50, 60)] {
            cache.insert(start, end);
        }
        assert_eq!(cache.dirty_within(15, 55), [(15, 20), (30, 40), (50, 55)]);
        assert_eq!(cache.dirty_within(12, 13), [(12, 13)]);
        assert_eq!(cache.dirty_within(20, 30), []);
        cache.send(30, 5);
        assert_eq!(cache.dirty_within(0, 100), [(10, 20), (35, 40), (50, 60)]);
    }

    #[test]
    fn the_nearest_runs_come_from_both_sides() {
        let mut cache = WriteCache::new(100, None);
        for start in [10, 20, 30, 40, 50] {
            cache.insert(start, start + 1);
        }
        assert_eq!(cache.nearest(30, 2).collect::<Vec<_>>(), [30, 40, 20, 10]);
    }
}
