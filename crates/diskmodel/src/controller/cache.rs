//! The contents of the controller's memory: the current version of each sector that is not on the
//! array yet, the sectors in flight, and clean sectors in the room that is left.
//!
//! Batches for the array are taken in ascending order from the end of the last one, and wrap around
//! (C-LOOK), or from the stripe with the oldest write. If possible a batch ends with a stripe of
//! the array, so that later adjacent writes form whole stripes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use block::payload::regroup;
use block::versions::{Version, Versions, write_requests};
use block::{Payload, Request};
use layout::SectorNr;

use super::array_requests::ArrayReads;
use super::clean::Clean;
use super::model::{ControllerModel, DestageOrder};

/// Number of sectors written to the array together: half a MiB.
const BATCH_SECTORS: usize = 1_024;

/// The memory of a controller.
pub(super) struct Cache {
    /// Dirty sectors. Invariant: at most one version of each sector.
    dirty: Versions,
    /// Sectors that are on the array too. Invariant: none of them is dirty.
    clean: Clean,
    /// True if destaged sectors stay as clean.
    keeps_destaged: bool,
    order: DestageOrder,
    /// Writes by age, with their number, first sector and sector after the last; kept only for
    /// [`DestageOrder::Fifo`].
    arrivals: VecDeque<(u64, Range<u64>)>,
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
    pub(super) fn new(model: &ControllerModel, stripe_bytes: u64) -> Self {
        Self {
            dirty: Versions::default(),
            clean: Clean::default(),
            keeps_destaged: model.keeps_reads,
            order: model.destage,
            arrivals: VecDeque::new(),
            sequence: 0,
            capacity_sectors: model.cache_bytes / SectorNr::SIZE,
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
        if self.order == DestageOrder::Fifo {
            self.note_arrival(sector.get()..sector.get() + sectors);
        }
        self.clean.forget(sector, sectors);
        self.fit();
        before + sectors - self.used()
    }

    /// Keeps sectors that were read from the array and not written since.
    pub(super) fn keep(&mut self, sector: SectorNr, payload: &Payload) {
        self.clean.insert(sector, payload);
        self.fit();
    }

    /// Drops clean sectors that are written past the cache.
    pub(super) fn forget(&mut self, sector: SectorNr, sectors: u64) {
        self.clean.forget(sector, sectors);
    }

    /// Leaves to clean sectors only the room that dirty ones do not take.
    fn fit(&mut self) {
        let room = self.capacity_sectors.saturating_sub(self.used());
        self.clean.shrink_to(room);
    }

    /// Returns the cached parts of a read, and the requests for the others.
    pub(super) fn read(&mut self, sector: SectorNr, sectors: u64) -> Vec<Part> {
        let known = self.known(sector, sectors);
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

    /// Returns the cached sectors of a range, in order.
    fn known(&mut self, sector: SectorNr, sectors: u64) -> Vec<(u64, Version)> {
        let dirty = self.dirty.newest(sector, sectors);
        let clean = self.clean.read(sector, sectors);
        if clean.is_empty() {
            return dirty;
        }
        let mut all: BTreeMap<u64, Version> = clean.into_iter().collect();
        all.extend(dirty);
        all.into_iter().collect()
    }

    /// Returns the next batch for the array, if there are dirty sectors that are not in flight.
    /// Sectors that are being read wait.
    pub(super) fn next_batch(&mut self, reads: &ArrayReads) -> Option<Destage> {
        let batch = match self.order {
            DestageOrder::Clook => self.next_ascending(reads),
            DestageOrder::Fifo => self.next_oldest(reads),
        };
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

    fn next_ascending(&self, reads: &ArrayReads) -> Vec<(u64, Version)> {
        let ahead = self.idle_from(self.hand, reads);
        let mut batch = match ahead.is_empty() {
            true => self.idle_from(0, reads),
            false => ahead,
        };
        self.end_with_a_stripe(&mut batch);
        batch
    }

    /// Returns the dirty sectors of the stripe with the oldest write. Without stripes their size is
    /// that of a batch.
    fn next_oldest(&self, reads: &ArrayReads) -> Vec<(u64, Version)> {
        let unit = match self.stripe_sectors {
            1 => BATCH_SECTORS as u64,
            stripe => stripe,
        };
        for index in 0..self.arrivals.len() {
            let (number, range) = self.arrivals[index].clone();
            let is_next = |at: &u64| self.is_of(*at, number) && self.is_idle(*at, reads);
            let Some(oldest) = range.clone().find(is_next) else {
                continue;
            };
            let end = oldest - oldest % unit + unit;
            let mut batch = self.idle_from(end - unit, reads);
            batch.truncate(batch.partition_point(|(sector, _)| *sector < end));
            return batch;
        }
        Vec::new()
    }

    /// Drops the sectors that are on the array, unless they have been written again.
    pub(super) fn completed(&mut self, destage: &Destage, is_on_the_array: bool) {
        for run in &destage.runs {
            self.moving.remove(&run.start);
            let first = SectorNr::new(run.start);
            self.dirty
                .drop_through(first, run.end - run.start, destage.sequence);
        }
        if self.keeps_destaged && is_on_the_array {
            self.keep_destaged(destage);
        }
        while let Some((number, range)) = self.arrivals.front() {
            if range.clone().any(|at| self.is_of(at, *number)) {
                break;
            }
            self.arrivals.pop_front();
        }
    }

    /// Returns true if the dirty version of a sector is that of a write.
    fn is_of(&self, at: u64, number: u64) -> bool {
        let version = self.dirty.newest_through(SectorNr::new(at), u64::MAX);
        version.is_some_and(|version| version.sequence == number)
    }

    /// Notes a write for the order of arrival, and from time to time drops those that are gone.
    fn note_arrival(&mut self, range: Range<u64>) {
        self.arrivals.push_back((self.sequence, range));
        if self.arrivals.len() as u64 > 2 * self.capacity_sectors {
            let mut arrivals = std::mem::take(&mut self.arrivals);
            arrivals.retain(|(number, range)| range.clone().any(|at| self.is_of(at, *number)));
            self.arrivals = arrivals;
        }
    }

    /// Keeps the destaged sectors that have not been written again.
    fn keep_destaged(&mut self, destage: &Destage) {
        let is_clean = |sector: u64| {
            self.dirty
                .newest_through(SectorNr::new(sector), u64::MAX)
                .is_none()
        };
        let mut sectors = destage.sectors.clone();
        sectors.retain(|(sector, _)| is_clean(*sector));
        for request in write_requests(&sectors) {
            if let Request::Write {
                sector, payload, ..
            } = request
            {
                self.clean.insert(sector, &payload);
            }
        }
        self.fit();
    }

    /// Returns dirty sectors that are not in flight, starting at a sector.
    fn idle_from(&self, from: u64, reads: &ArrayReads) -> Vec<(u64, Version)> {
        let limit = BATCH_SECTORS.max(2 * self.stripe_sectors as usize);
        let moving: u64 = self.moving.iter().map(|(first, end)| end - first).sum();
        let mut sectors = self
            .dirty
            .newest_from(from, self.sequence, limit + moving as usize);
        sectors.retain(|(sector, _)| self.is_idle(*sector, reads));
        sectors.truncate(limit);
        sectors
    }

    /// Returns true if a sector is not being written to the array, or read from it.
    fn is_idle(&self, sector: u64, reads: &ArrayReads) -> bool {
        let is_read = !reads.is_empty() && reads.cover(&(sector..sector + 1));
        !is_read && !self.is_moving(sector)
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
        ordered(DestageOrder::Clook, stripe_sectors)
    }

    fn ordered(destage: DestageOrder, stripe_sectors: u64) -> Cache {
        let model = ControllerModel {
            cache_bytes: 1 << 20,
            destage,
            ..ControllerModel::default()
        };
        Cache::new(&model, stripe_sectors * 512)
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
        let first = cache
            .next_batch(&ArrayReads::default())
            .expect("there is something");
        assert_eq!(ends(&first), [(10, 14)]);
        assert!(
            cache.next_batch(&ArrayReads::default()).is_none(),
            "all of it is on its way"
        );
        put(&mut cache, 12, 4, 2);
        let second = cache
            .next_batch(&ArrayReads::default())
            .expect("there is something new");
        assert_eq!(ends(&second), [(14, 16)]);
        cache.completed(&first, true);
        assert_eq!(cache.used(), 4);
        let third = cache
            .next_batch(&ArrayReads::default())
            .expect("there is what was written again");
        assert_eq!(ends(&third), [(12, 14)]);
        cache.completed(&third, true);
        cache.completed(&second, true);
        assert_eq!(cache.used(), 0);
    }

    #[test]
    fn batches_go_around_and_end_with_a_stripe() {
        let mut cache = cache(96);
        put(&mut cache, 96, 1_500, 1);
        put(&mut cache, 5_000, 1, 1);
        let runs = |cache: &mut Cache| {
            let batch = cache
                .next_batch(&ArrayReads::default())
                .expect("there is something");
            cache.completed(&batch, true);
            ends(&batch)
        };
        assert_eq!(runs(&mut cache), [(96, 1_056)]);
        put(&mut cache, 3, 1, 1);
        assert_eq!(runs(&mut cache), [(1_056, 1_596), (5_000, 5_001)]);
        assert_eq!(runs(&mut cache), [(3, 4)]);
    }

    #[test]
    fn the_stripe_with_the_oldest_write_goes_first() {
        let mut cache = ordered(DestageOrder::Fifo, 96);
        for sector in [500, 10, 700, 590, 12] {
            put(&mut cache, sector, 1, 1);
        }
        put(&mut cache, 500, 1, 2);
        let mut runs = || {
            let batch = cache.next_batch(&ArrayReads::default())?;
            cache.completed(&batch, true);
            Some(ends(&batch))
        };
        // 500 was written again, last; its stripe ends at 576.
        assert_eq!(runs(), Some(vec![(10, 11), (12, 13)]));
        assert_eq!(runs(), Some(vec![(700, 701)]));
        assert_eq!(runs(), Some(vec![(590, 591)]));
        assert_eq!(runs(), Some(vec![(500, 501)]));
        assert_eq!(runs(), None);
        assert_eq!(cache.arrivals.len(), 0);
    }

    #[test]
    fn clean_sectors_take_the_room_that_dirty_ones_leave() {
        let mut cache = cache(1);
        put(&mut cache, 0, 1_024, 1);
        let batch = cache
            .next_batch(&ArrayReads::default())
            .expect("there is something");
        cache.completed(&batch, true);
        assert_eq!((cache.used(), cache.clean.count()), (0, 1_024));
        put(&mut cache, 4, 8, 2);
        assert_eq!((cache.used(), cache.clean.count()), (8, 1_016));
        let parts = cache.read(SectorNr::new(0), 16);
        assert!(parts.iter().all(|part| matches!(part, Part::Known(_))));
        let bytes: Vec<u8> = payload_to_bytes(&join(parts, Vec::new(), 8_192))
            .chunks(512)
            .map(|sector| sector[0])
            .collect();
        assert_eq!(bytes, [1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1]);
        for sector in 0..16 {
            put(&mut cache, 10_000 + sector * 128, 120, 3);
        }
        assert_eq!(cache.used() + cache.clean.count(), 1_928 + 120);
        assert!(
            cache.has_room(120) && !cache.has_room(121),
            "dirty ones are not kept out"
        );
    }

    #[test]
    fn what_is_being_read_waits() {
        let mut cache = cache(1);
        put(&mut cache, 0, 8, 1);
        put(&mut cache, 16, 8, 1);
        let mut reads = ArrayReads::default();
        let numbers = reads.start(std::iter::once(4..20), true);
        let batch = cache.next_batch(&reads).expect("there is something");
        assert_eq!(ends(&batch), [(0, 4), (20, 24)]);
        assert!(cache.next_batch(&reads).is_none());
        reads.end(numbers[0]);
        let batch = cache.next_batch(&reads).expect("there is the rest");
        assert_eq!(ends(&batch), [(4, 8), (16, 20)]);
    }

    #[test]
    fn what_did_not_reach_the_array_is_not_clean() {
        let mut cache = cache(1);
        put(&mut cache, 0, 8, 1);
        let batch = cache
            .next_batch(&ArrayReads::default())
            .expect("there is something");
        cache.completed(&batch, false);
        assert_eq!((cache.used(), cache.clean.count()), (0, 0));
    }
}
