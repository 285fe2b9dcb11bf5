//! The replay of a trace: the states of a device that a power cut after any event could leave.
//!
//! The state is the durable contents and the undecided versions. A write adds versions when it is
//! submitted, since a cut may leave any part of it from then on. A completed flush settles the
//! writes that were known to be completed when it was submitted. A completed forced write settles
//! itself, and so does any completed write on a device without a volatile cache. A failed or
//! detached write is not settled by its own completion, but by a later write to the same sectors;
//! nor does a later flush settle the writes that a failed flush was to cover.

use std::collections::BTreeMap;

use layout::{Block, SectorNr};

use super::Event;
use crate::device::{Geometry, Request};
use crate::memory::MemoryDevice;
use crate::payload::Payload;
use crate::versions::{Version, Versions, write_requests};
use rt::split_mix::{SplitMix, mix_pair};

/// Size of a block of zeroes that stands for part of a discard.
const DISCARD_BYTES: u64 = 64 * 1024;

/// A store for the durable contents.
pub trait Medium {
    /// Returns the same contents, from now on independent.
    fn snapshot(&self) -> Self;

    /// Stores versions of sectors, in ascending order of the sectors.
    fn store(&mut self, versions: &[(SectorNr, Version)]);
}

/// The state of a device after a number of events of its trace.
pub struct Replay<M = MemoryDevice> {
    device: usize,
    geometry: Geometry,
    durable: M,
    versions: Versions,
    /// Writes with undecided versions, by sequence.
    writes: BTreeMap<u64, Undecided>,
    /// Batches in flight: the sequences of their writes and flushes, request by request.
    batches: BTreeMap<u64, Vec<Step>>,
    sequence: u64,
}

impl Medium for MemoryDevice {
    fn snapshot(&self) -> Self {
        Self::snapshot(self)
    }

    fn store(&mut self, versions: &[(SectorNr, Version)]) {
        let plain: Vec<(u64, Version)> = versions
            .iter()
            .map(|(sector, version)| (sector.get(), version.clone()))
            .collect();
        for request in write_requests(&plain) {
            if let Request::Write {
                sector, payload, ..
            } = request
            {
                self.write(sector.byte_offset(), &payload);
            }
        }
    }
}

impl<M: Medium> Clone for Replay<M> {
    fn clone(&self) -> Self {
        Self {
            device: self.device,
            geometry: self.geometry.clone(),
            durable: self.durable.snapshot(),
            versions: self.versions.clone(),
            writes: self.writes.clone(),
            batches: self.batches.clone(),
            sequence: self.sequence,
        }
    }
}

#[derive(Debug, Clone)]
struct Undecided {
    sector: SectorNr,
    sectors: u64,
    is_complete: bool,
    is_discard: bool,
}

#[derive(Debug, Clone)]
enum Step {
    /// A request that does not matter after a crash.
    Read,
    Write {
        sequence: u64,
        is_forced: bool,
    },
    /// Writes that were known to be completed.
    Flush(Vec<u64>),
}

impl Replay {
    /// Creates the state of the device with this number before its first event. `geometry` is that
    /// of the traced device, `initial` its contents.
    pub fn new(device: usize, geometry: Geometry, initial: &MemoryDevice) -> Self {
        Self::on(device, geometry, initial)
    }
}

impl<M: Medium> Replay<M> {
    /// Creates the state before the first event, on any medium.
    pub fn on(device: usize, geometry: Geometry, initial: &M) -> Self {
        Self {
            device,
            geometry,
            durable: initial.snapshot(),
            versions: Versions::default(),
            writes: BTreeMap::new(),
            batches: BTreeMap::new(),
            sequence: 0,
        }
    }

    /// Applies an event. Those of other devices change nothing.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Submitted {
                device,
                batch,
                requests,
            } if *device == self.device => {
                // A flush covers requests completed before the batch, so its position in the batch
                // does not matter.
                let steps = requests
                    .iter()
                    .map(|request| self.submit(request))
                    .collect();
                self.batches.insert(*batch, steps);
            }
            Event::Completed {
                device,
                batch,
                results,
            } if *device == self.device => {
                let steps = self.batches.remove(batch).unwrap_or_default();
                for (step, result) in steps.into_iter().zip(results) {
                    match result {
                        Ok(()) => self.complete(step),
                        Err(_) => self.fail(step),
                    }
                }
            }
            Event::Detached { device, batch } if *device == self.device => {
                self.batches.remove(batch);
            }
            _ => {}
        }
    }

    fn submit(&mut self, request: &Request) -> Step {
        match request {
            Request::Read { .. } => Step::Read,
            Request::Write {
                sector,
                payload,
                force_unit_access,
            } => self.add(*sector, payload, (*force_unit_access, false)),
            Request::Discard { sector, sectors } => {
                // A discarded range may read as anything; real devices return old contents or
                // zeroes.
                let zeroes = zeroes(*sectors * SectorNr::SIZE);
                self.add(*sector, &zeroes, (false, true))
            }
            Request::Flush => Step::Flush(
                self.writes
                    .iter()
                    .filter(|(_, write)| write.is_complete)
                    .map(|(sequence, _)| *sequence)
                    .collect(),
            ),
        }
    }

    fn add(
        &mut self,
        sector: SectorNr,
        payload: &Payload,
        (is_forced, is_discard): (bool, bool),
    ) -> Step {
        self.sequence += 1;
        let sequence = self.sequence;
        self.versions.add(sector, payload, sequence);
        let sectors = crate::payload::payload_bytes(payload) / SectorNr::SIZE;
        self.writes.insert(
            sequence,
            Undecided {
                sector,
                sectors,
                is_complete: false,
                is_discard,
            },
        );
        Step::Write {
            sequence,
            is_forced,
        }
    }

    fn complete(&mut self, step: Step) {
        match step {
            Step::Read => {}
            Step::Write {
                sequence,
                is_forced,
            } => {
                if is_forced || !self.geometry.has_volatile_cache {
                    self.settle(sequence);
                } else if let Some(write) = self.writes.get_mut(&sequence) {
                    write.is_complete = true;
                }
            }
            Step::Flush(covered) => covered
                .into_iter()
                .for_each(|sequence| self.settle(sequence)),
        }
    }

    /// Handles a failed request: the writes that a failed flush was to cover may be lost, and no
    /// later flush covers them.
    fn fail(&mut self, step: Step) {
        let Step::Flush(covered) = step else { return };
        for sequence in covered {
            if let Some(write) = self.writes.get_mut(&sequence) {
                write.is_complete = false;
            }
        }
    }

    /// Makes a write durable: its sectors can no longer hold older versions.
    fn settle(&mut self, sequence: u64) {
        let Some(write) = self.writes.remove(&sequence) else {
            return;
        };
        let own: Vec<(SectorNr, Version)> = (write.sector.get()
            ..write.sector.get() + write.sectors)
            .map(SectorNr::new)
            .filter_map(|sector| {
                let version = self.versions.newest_through(sector, sequence)?;
                (version.sequence == sequence).then(|| (sector, version.clone()))
            })
            .collect();
        self.durable.store(&own);
        self.versions
            .drop_through(write.sector, write.sectors, sequence);
    }

    /// Returns the undecided versions, by sector.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// True if a discard made this undecided version.
    pub fn is_discard(&self, version: &Version) -> bool {
        let write = self.writes.get(&version.sequence);
        write.is_some_and(|write| write.is_discard)
    }

    /// Returns the durable contents, without any undecided write.
    pub fn durable(&self) -> &M {
        &self.durable
    }

    /// Returns a state that a power cut here could leave. `pick` chooses for each sector of the
    /// device among `0..=n`: 0 is the durable version, `n` the newest.
    pub fn image_with(&self, pick: &mut dyn FnMut(SectorNr, usize) -> usize) -> M {
        let mut image = self.durable.snapshot();
        let chosen = self.versions.choose(self.geometry.sector_bytes, pick);
        image.store(&chosen);
        image
    }

    /// Returns a state that a power cut here could leave, determined by the seed.
    pub fn image(&self, seed: u64) -> M {
        self.image_with(&mut |sector, count| {
            let mut random = SplitMix::new(mix_pair(seed, sector.get()));
            random.below(count as u64 + 1) as usize
        })
    }

    /// Returns the state in which all undecided writes are lost.
    pub fn image_all_lost(&self) -> M {
        self.durable.snapshot()
    }

    /// Returns the state in which all undecided writes are kept.
    pub fn image_all_kept(&self) -> M {
        self.image_with(&mut |_, count| count)
    }
}

fn zeroes(bytes: u64) -> Payload {
    let (whole, rest) = (bytes / DISCARD_BYTES, bytes % DISCARD_BYTES);
    let block = Block::zeroed(DISCARD_BYTES as usize).into_arc();
    let mut payload: Payload = core::iter::repeat_n(block, whole as usize).collect();
    if rest > 0 {
        payload.push(Block::zeroed(rest as usize).into_arc());
    }
    payload
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::*;
    use crate::device::BlockDevice;
    use crate::fault::{Effect, FaultDevice, FaultPlan, FaultRule, Operations, When};
    use crate::payload::payload_from_bytes;
    use crate::trace::{Trace, TraceDevice};

    struct Bench {
        trace: Arc<Trace>,
        device: TraceDevice,
        initial: MemoryDevice,
    }

    impl Bench {
        fn new() -> Self {
            let memory = MemoryDevice::new(64 * 512);
            let initial = memory.snapshot();
            let trace = Trace::new();
            let device = trace.attach(Arc::new(memory)).with_volatile_cache(true);
            Self {
                trace,
                device,
                initial,
            }
        }

        fn submit(&self, sector: u64, byte: u8, force_unit_access: bool) -> crate::ticket::Ticket {
            let payload = payload_from_bytes(&[byte; 512], 512);
            let sector = SectorNr::new(sector);
            self.device.submit(vec![Request::Write {
                sector,
                payload,
                force_unit_access,
            }])
        }

        fn write(&self, sector: u64, byte: u8) {
            self.submit(sector, byte, false)
                .wait_all()
                .expect("memory does not fail");
        }

        fn flush(&self) {
            (&self.device as &dyn BlockDevice)
                .flush()
                .expect("memory does not fail");
        }

        /// Returns the possible contents of the first sectors after all events.
        fn outcomes(&self, sectors: usize) -> Vec<Vec<u8>> {
            let mut replay = Replay::new(0, self.device.geometry(), &self.initial);
            self.trace
                .events()
                .iter()
                .for_each(|event| replay.apply(event));
            let mut seen = vec![BTreeSet::new(); sectors];
            for seed in 0..64 {
                let bytes = replay.image(seed).to_bytes();
                for (sector, set) in seen.iter_mut().enumerate() {
                    set.insert(bytes[sector * 512]);
                }
            }
            seen.into_iter()
                .map(|set| set.into_iter().collect())
                .collect()
        }
    }

    #[test]
    fn a_flush_settles_what_was_done_before_it() {
        let bench = Bench::new();
        bench.write(0, 1);
        let in_flight = bench.submit(1, 1, false);
        bench.flush();
        bench.write(0, 2);
        assert_eq!(bench.outcomes(2), [vec![1, 2], vec![0, 1]]);
        in_flight.wait_all().expect("memory does not fail");
        assert_eq!(bench.outcomes(2), [vec![1, 2], vec![0, 1]]);
        bench.flush();
        assert_eq!(bench.outcomes(2), [vec![2], vec![1]]);
    }

    #[test]
    fn a_flush_in_flight_settles_nothing() {
        let bench = Bench::new();
        bench.write(0, 1);
        let flush = bench.device.submit(vec![Request::Flush]);
        assert_eq!(bench.outcomes(1), [vec![0, 1]]);
        bench.write(1, 1);
        flush.wait_all().expect("memory does not fail");
        assert_eq!(bench.outcomes(2), [vec![1], vec![0, 1]]);
    }

    #[test]
    fn a_forced_write_settles_itself_when_it_is_done() {
        let bench = Bench::new();
        bench.write(0, 1);
        bench.write(1, 1);
        let forced = bench.submit(1, 2, true);
        assert_eq!(bench.outcomes(2), [vec![0, 1], vec![0, 1, 2]]);
        forced.wait_all().expect("memory does not fail");
        assert_eq!(bench.outcomes(2), [vec![0, 1], vec![2]]);
    }

    /// A failed write may have reached the disk, and no flush settles it. A later flush does not
    /// settle the writes that a failed flush was to cover; a later write to the same sectors does.
    #[test]
    fn what_has_failed_is_not_settled() {
        let memory = MemoryDevice::new(64 * 512);
        let initial = memory.snapshot();
        let rule = |operations, number| FaultRule {
            operations,
            when: When::Nth(number),
            effect: Effect::Fail,
        };
        let plan = FaultPlan {
            rules: vec![rule(Operations::WRITES, 2), rule(Operations::FLUSHES, 1)],
            ..FaultPlan::default()
        };
        let trace = Trace::new();
        let failing = FaultDevice::new(Arc::new(memory), plan);
        let device = trace.attach(Arc::new(failing)).with_volatile_cache(true);
        let bench = Bench {
            trace,
            device,
            initial,
        };
        bench.write(0, 1);
        assert!(bench.submit(1, 1, true).wait_all().is_err());
        assert!((&bench.device as &dyn BlockDevice).flush().is_err());
        bench.write(2, 1);
        bench.flush();
        assert_eq!(bench.outcomes(3), [vec![0, 1], vec![0, 1], vec![1]]);
        // After another write it is settled like any other sector.
        bench.write(0, 2);
        bench.flush();
        assert_eq!(bench.outcomes(3), [vec![2], vec![0, 1], vec![1]]);
    }

    #[test]
    fn a_discard_leaves_old_or_zero() {
        let bench = Bench::new();
        bench.write(0, 1);
        bench.flush();
        let discard = Request::Discard {
            sector: SectorNr::new(0),
            sectors: 64,
        };
        bench
            .device
            .submit(vec![discard])
            .wait_all()
            .expect("memory does not fail");
        assert_eq!(bench.outcomes(1), [vec![0, 1]]);
        bench.flush();
        assert_eq!(bench.outcomes(1), [vec![0]]);
    }

    #[test]
    fn a_detached_write_stays_undecided() {
        let bench = Bench::new();
        drop(bench.submit(0, 1, false));
        bench.flush();
        assert_eq!(bench.outcomes(1), [vec![0, 1]]);
        bench.write(0, 2);
        bench.flush();
        assert_eq!(bench.outcomes(1), [vec![2]]);
    }
}
