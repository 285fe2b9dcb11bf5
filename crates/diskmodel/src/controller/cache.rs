//! The contents of the controller's memory: the current version of each sector that is not on the
//! array yet, and the sectors in flight.
//!
//! Batches for the array are taken in ascending order from the end of the last one, and wrap around
//! (C-LOOK). If possible a batch ends with a stripe of the array, so that later adjacent writes
//! form whole stripes.

use std::collections::BTreeMap;
use std::ops::Range;

use block::payload::regroup;
use block::versions::{Version, Versions, write_requests};
use block::{Payload, Request};
use layout::SectorNr;

/// Number of sectors written to the array together: half a MiB.
const BATCH_SECTORS: usize = 1_024;

/// The dirty sectors.
pub(super) struct Cache {
    /// Dirty sectors. Invariant: at most one version of each sector.
    dirty: Versions,
    /// Number of the last write.
    sequence: u64,
    capacity_sectors: u64,
    /// Number of sectors in a stripe of the array; one if it has none.
    stripe_sectors: u64,
    /// Sector after the last batch.
    hand: u64,
    /// Ranges in flight: end by first sector.
    moving: BTreeMap<u64, u64>,
}

/// Sectors in flight to the array.
pub(super) struct Destage {
    sectors: Vec<(u64, Version)>,
    /// Number of the last write included.
    sequence: u64,
    pub(super) runs: Vec<Range<u64>>,
}

/// A part of a read.
pub(super) enum Part {
    Known(Payload),
    /// A request to the array.
    Missing(Request),
}

impl Cache {
    pub(super) fn new(capacity_bytes: u64, stripe_bytes: u64) -> Self {
        Self {
            dirty: Versions::default(),
            sequence: 0,
            capacity_sectors: capacity_bytes / SectorNr::SIZE,
            stripe_sectors: (stripe_bytes / SectorNr::SIZE).max(1),
            hand: 0,
            moving: BTreeMap::new(),
        }
    }

    /// Returns the number of dirty sectors.
    pub(super) fn used(&self) -> u64 {
        self.dirty.count()
    }

    /// Returns true if more than `percent` of the sectors are dirty.
    pub(super) fn is_above(&self, percent: u32) -> bool {
        self.used() * 100 > self.capacity_sectors * u64::from(percent)
    }

    /// Returns true if the sectors fit in. An empty cache accepts any number.
    pub(super) fn has_room(&self, sectors: u64) -> bool {
        self.used() == 0 || self.used() + sectors <= self.capacity_sectors
    }

    /// Stores a write. Returns the number of dirty sectors that it replaced.
    pub(super) fn write(&mut self, sector: SectorNr, payload: &Payload) -> u64 {
        let sectors = block::payload::payload_bytes(payload) / SectorNr::SIZE;
        let before = self.used();
        // A rewritten sector that is in flight stays in the request that writes it.
        self.dirty.drop_through(sector, sectors, self.sequence);
        self.sequence += 1;
        self.dirty.add(sector, payload, self.sequence);
        before + sectors - self.used()
    }

    /// Returns the cached parts of a read, and the requests for the others.
    pub(super) fn read(&self, sector: SectorNr, sectors: u64) -> Vec<Part> {
        let known = self.dirty.newest(sector, sectors);
        let end = sector.get() + sectors;
        let mut parts = Vec::new();
        let mut at = sector.get();
        let mut rest = known.as_slice();
        while at < end {
            let next = rest.first().map_or(end, |(next, _)| *next);
            if at < next {
                parts.push(Part::Missing(read_request(at..next)));
                at = next;
                continue;
            }
            let run = run_length(rest);
            for request in write_requests(&rest[..run]) {
                if let Request::Write { payload, .. } = request {
                    parts.push(Part::Known(payload));
                }
            }
            rest = &rest[run..];
            at += run as u64;
        }
        parts
    }

    /// Returns the next batch for the array, if there are dirty sectors that are not in flight.
    pub(super) fn next_batch(&mut self) -> Option<Destage> {
        let ahead = self.idle_from(self.hand);
        let mut batch = match ahead.is_empty() {
            true => self.idle_from(0),
            false => ahead,
        };
        self.end_with_a_stripe(&mut batch);
        let (last, _) = batch.last()?;
        self.hand = last + 1;
        let mut runs = Vec::new();
        let mut rest = batch.as_slice();
        while let Some((first, _)) = rest.first() {
            let run = run_length(rest);
            runs.push(*first..first + run as u64);
            rest = &rest[run..];
        }
        self.moving
            .extend(runs.iter().map(|run| (run.start, run.end)));
        Some(Destage {
            sectors: batch,
            sequence: self.sequence,
            runs,
        })
    }

    /// Drops the sectors that are on the array, unless they have been written again.
    pub(super) fn landed(&mut self, destage: &Destage) {
        for run in &destage.runs {
            self.moving.remove(&run.start);
            let first = SectorNr::new(run.start);
            self.dirty
                .drop_through(first, run.end - run.start, destage.sequence);
        }
    }

    /// Returns dirty sectors that are not in flight, starting at a sector.
    fn idle_from(&self, from: u64) -> Vec<(u64, Version)> {
        let limit = BATCH_SECTORS.max(2 * self.stripe_sectors as usize);
        let moving: u64 = self.moving.iter().map(|(first, end)| end - first).sum();
        let mut sectors = self
            .dirty
            .newest_from(from, self.sequence, limit + moving as usize);
        sectors.retain(|(sector, _)| !self.is_moving(*sector));
        sectors.truncate(limit);
        sectors
    }

    fn is_moving(&self, sector: u64) -> bool {
        let run = self.moving.range(..=sector).next_back();
        run.is_some_and(|(_, end)| sector < *end)
    }

    /// Leaves the last stripe of a full batch for the next one, unless it is the only one.
    fn end_with_a_stripe(&self, batch: &mut Vec<(u64, Version)>) {
        let limit = BATCH_SECTORS.max(2 * self.stripe_sectors as usize);
        let Some((last, _)) = batch.last().filter(|_| batch.len() == limit) else {
            return;
        };
        let border = (last + 1) - (last + 1) % self.stripe_sectors;
        let whole = batch.partition_point(|(sector, _)| *sector < border);
        if whole > 0 {
            batch.truncate(whole);
        }
    }
}

impl Destage {
    /// Returns the writes of the batch.
    pub(super) fn requests(&self, is_forced: bool) -> Vec<Request> {
        let mut requests = write_requests(&self.sectors);
        for request in &mut requests {
            if let Request::Write {
                force_unit_access, ..
            } = request
            {
                *force_unit_access = is_forced;
            }
        }
        requests
    }
}

/// Joins the parts of a read; `found` holds the answers to its missing parts, in order.
pub(super) fn join(parts: Vec<Part>, found: Vec<Payload>, block_bytes: usize) -> Payload {
    let mut found = found.into_iter();
    let pieces = parts
        .into_iter()
        .flat_map(|part| match part {
            Part::Known(payload) => payload,
            Part::Missing(_) => found.next().unwrap_or_default(),
        })
        .collect();
    regroup(pieces, block_bytes)
}

fn read_request(range: Range<u64>) -> Request {
    let bytes = (range.end - range.start) * SectorNr::SIZE;
    Request::Read {
        sector: SectorNr::new(range.start),
        blocks: 1,
        block_bytes: u32::try_from(bytes).expect("a request is below 4 GiB"),
    }
}

/// Returns the number of contiguous sectors at the start.
fn run_length(sectors: &[(u64, Version)]) -> usize {
    let first = sectors.first().map_or(0, |(sector, _)| *sector);
    sectors
        .iter()
        .zip(first..)
        .take_while(|((sector, _), at)| sector == at)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::payload::{payload_from_bytes, payload_to_bytes};

    fn cache(stripe_sectors: u64) -> Cache {
        Cache::new(1 << 20, stripe_sectors * 512)
    }

    fn put(cache: &mut Cache, sector: u64, sectors: u64, byte: u8) -> u64 {
        let payload = payload_from_bytes(&vec![byte; sectors as usize * 512], 512);
        cache.write(SectorNr::new(sector), &payload)
    }

    fn ends(batch: &Destage) -> Vec<(u64, u64)> {
        batch.runs.iter().map(|run| (run.start, run.end)).collect()
    }

    #[test]
    fn what_is_written_again_takes_no_more_room() {
        let mut cache = cache(1);
        assert_eq!(put(&mut cache, 8, 8, 1), 0);
        assert_eq!(put(&mut cache, 12, 8, 2), 4);
        assert_eq!(cache.used(), 12);
        assert!(cache.has_room(2_036) && !cache.has_room(2_037));
        assert!(!cache.is_above(1));
        assert!(cache.is_above(0));
    }

    #[test]
    fn a_read_finds_what_is_here_and_asks_for_the_rest() {
        let mut cache = cache(1);
        put(&mut cache, 10, 2, 1);
        put(&mut cache, 14, 1, 2);
        let parts = cache.read(SectorNr::new(8), 8);
        let missing: Vec<(u64, u64)> = parts
            .iter()
            .filter_map(|part| match part {
                Part::Missing(request) => Some((request.range().0.get(), request.range().1)),
                Part::Known(_) => None,
            })
            .collect();
        assert_eq!(missing, [(8, 2), (12, 2), (15, 1)]);
        let found = missing
            .iter()
            .map(|(_, sectors)| payload_from_bytes(&vec![9; *sectors as usize * 512], 512))
            .collect();
        let joined = join(parts, found, 2_048);
        assert_eq!(joined.len(), 2);
        let bytes: Vec<u8> = payload_to_bytes(&joined)
            .chunks(512)
            .map(|sector| sector[0])
            .collect();
        assert_eq!(bytes, [9, 9, 1, 1, 9, 9, 2, 9]);
    }

    #[test]
    fn what_is_written_while_it_is_on_its_way_stays() {
        let mut cache = cache(1);
        put(&mut cache, 10, 4, 1);
        let first = cache.next_batch().expect("there is something");
        assert_eq!(ends(&first), [(10, 14)]);
        assert!(cache.next_batch().is_none(), "all of it is on its way");
        put(&mut cache, 12, 4, 2);
        let second = cache.next_batch().expect("there is something new");
        assert_eq!(ends(&second), [(14, 16)]);
        cache.landed(&first);
        assert_eq!(cache.used(), 4);
        let third = cache.next_batch().expect("there is what was written again");
        assert_eq!(ends(&third), [(12, 14)]);
        cache.landed(&third);
        cache.landed(&second);
        assert_eq!(cache.used(), 0);
    }

    #[test]
    fn batches_go_around_and_end_with_a_stripe() {
        let mut cache = cache(96);
        put(&mut cache, 96, 1_500, 1);
        put(&mut cache, 5_000, 1, 1);
        let runs = |cache: &mut Cache| {
            let batch = cache.next_batch().expect("there is something");
            cache.landed(&batch);
            ends(&batch)
        };
        assert_eq!(runs(&mut cache), [(96, 1_056)]);
        put(&mut cache, 3, 1, 1);
        assert_eq!(runs(&mut cache), [(1_056, 1_596), (5_000, 5_001)]);
        assert_eq!(runs(&mut cache), [(3, 4)]);
    }
}
