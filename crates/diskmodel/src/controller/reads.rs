//! Reads from the array: those of hosts, and read-ahead.
//!
//! What comes from the array may be kept as clean, unless its sectors were written while the read
//! was in progress. A host's read of sectors that are being read ahead, or written through, waits
//! for them. Read-ahead leaves them out.

use std::ops::Range;

use block::{Completer, DeviceError, Outcome, Payload};
use layout::SectorNr;
use rt::Nanos;

use super::cache::{Part, join};
use super::{Shared, State};

/// A read that no reader has taken yet.
pub(super) struct Read {
    pub(super) sector: SectorNr,
    pub(super) sectors: u64,
    /// The request of a host; absent for read-ahead.
    pub(super) host: Option<HostRead>,
}

/// A host that waits for a read.
pub(super) struct HostRead {
    pub(super) block_bytes: usize,
    pub(super) began: Nanos,
    /// Time at which the controller has processed the command.
    pub(super) understood: Nanos,
    pub(super) completer: Completer,
}

/// Returns the range that a part needs from the array.
fn missing(part: &Part) -> Option<Range<u64>> {
    match part {
        Part::Missing(request) => {
            let (sector, sectors) = request.range();
            Some(sector.get()..sector.get() + sectors)
        }
        Part::Known(_) => None,
    }
}

impl Shared {
    /// Runs a reader's task. It ends with the world.
    pub(super) fn run_reader(&self) {
        let mut state = self.state.lock();
        loop {
            let Some(read) = state.reads.pop_front() else {
                self.reads.wait(&mut state);
                continue;
            };
            drop(state);
            match read.host {
                Some(host) => self.read_for_host(read.sector, read.sectors, host),
                None => self.read_ahead(read.sector, read.sectors),
            }
            state = self.state.lock();
        }
    }

    fn read_for_host(&self, sector: SectorNr, sectors: u64, host: HostRead) {
        rt::sleep_until(host.understood);
        let mut state = self.state.lock();
        let mut parts = state.cache.read(sector, sectors);
        while parts
            .iter()
            .filter_map(missing)
            .any(|range| state.array_reads.are_ahead(&range) || state.writing.cover(&range))
        {
            self.arrived.wait(&mut state);
            parts = state.cache.read(sector, sectors);
        }
        let numbers = state
            .array_reads
            .start(parts.iter().filter_map(missing), false);
        if numbers.is_empty() {
            state.stats.controller.read_hits += 1;
        }
        drop(state);
        let found = self.ask_array(&parts);
        let mut state = self.state.lock();
        self.keep(&mut state, &parts, &numbers, &found, self.model.keeps_reads);
        let now = rt::monotonic();
        let done = state.transfer(self.model, now, sectors);
        state.finish(host.began, done);
        drop(state);
        rt::sleep_until(done);
        let answer = found.map(|found| Outcome::Read(join(parts, found, host.block_bytes)));
        host.completer.complete(vec![answer]);
        sim::requests_in_flight(-1);
        let mut state = self.state.lock();
        state.reading -= 1;
        state.asked = state.asked.max(rt::monotonic());
        if state.reading == 0 {
            self.dirt.notify_all();
        }
    }

    /// Reads sectors that no host has asked for. An error is that of the read that needs them.
    fn read_ahead(&self, sector: SectorNr, sectors: u64) {
        let mut state = self.state.lock();
        let mut parts = state.cache.read(sector, sectors);
        parts.retain(|part| {
            missing(part).is_some_and(|range| {
                !state.array_reads.cover(&range) && !state.writing.cover(&range)
            })
        });
        let numbers = state
            .array_reads
            .start(parts.iter().filter_map(missing), true);
        let wanted = parts.iter().filter_map(missing);
        let wanted: u64 = wanted.map(|range| range.end - range.start).sum();
        state.stats.controller.read_ahead_sectors += wanted;
        drop(state);
        let found = self.ask_array(&parts);
        let mut state = self.state.lock();
        self.keep(&mut state, &parts, &numbers, &found, true);
    }

    /// Ends the parts of a read, and keeps their contents.
    fn keep(
        &self,
        state: &mut State,
        parts: &[Part],
        numbers: &[u64],
        found: &Result<Vec<Payload>, DeviceError>,
        is_kept: bool,
    ) {
        let payloads = found.as_ref().map_or(&[][..], Vec::as_slice);
        let mut payloads = payloads.iter();
        for (range, number) in parts.iter().filter_map(missing).zip(numbers) {
            let is_current = state.array_reads.end(*number);
            if let Some(payload) = payloads.next()
                && is_current
                && is_kept
            {
                state.cache.keep(SectorNr::new(range.start), payload);
            }
        }
        if !numbers.is_empty() {
            self.arrived.notify_all();
            self.dirt.notify_all();
        }
    }

    /// Reads the missing parts of a read from the array.
    fn ask_array(&self, parts: &[Part]) -> Result<Vec<Payload>, DeviceError> {
        let requests: Vec<_> = parts
            .iter()
            .filter_map(|part| match part {
                Part::Missing(request) => Some(request.clone()),
                Part::Known(_) => None,
            })
            .collect();
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let results = self.array.submit(requests).wait();
        results
            .into_iter()
            .map(|result| match result? {
                Outcome::Read(payload) => Ok(payload),
                Outcome::Done => Err(DeviceError::Gone),
            })
            .collect()
    }
}
