//! The replay of a trace: what a power cut after any of its events could leave of a device.
//!
//! The state is the durable contents and the versions that are not settled. A write adds versions when it is submitted,
//! since a cut may leave any part of it from then on. A flush that is known to be done settles the writes that were known
//! to be done when it was submitted. A forced write that is known to be done settles itself, and any write does so on a
//! device without a volatile cache. What failed or was detached is never settled by its own end, but by what overwrites it;
//! nor is what a failed flush was to cover by a later flush.

use std::collections::BTreeMap;

use layout::{Block, SectorNr};

use super::Event;
use crate::device::{Geometry, Payload, Request};
use crate::memory::MemoryDevice;
use crate::random::{SplitMix, mix_pair};
use crate::versions::{Version, Versions, write_requests};

/// How much of a discard is one block of zeroes.
const DISCARD_BYTES: u64 = 64 * 1024;

/// Where a replay keeps what is durable.
pub trait Medium {
    /// The same contents, which from now on go their own way.
    fn snapshot(&self) -> Self;

    /// Stores versions of sectors, in ascending order of the sectors.
    fn store(&mut self, versions: &[(SectorNr, Version)]);
}

/// One device after some events of its trace.
pub struct Replay<M = MemoryDevice> {
    device: usize,
    geometry: Geometry,
    durable: M,
    versions: Versions,
    /// The writes that have versions left, by sequence.
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
}

#[derive(Debug, Clone)]
enum Step {
    /// Nothing that matters after a crash.
    Read,
    Write {
        sequence: u64,
        is_forced: bool,
    },
    /// The writes that were known to be done.
    Flush(Vec<u64>),
}

impl Replay {
    /// The device with this number in a trace, before its first event: `geometry` is that of the traced device, `initial`
    /// what it held.
    pub fn new(device: usize, geometry: Geometry, initial: &MemoryDevice) -> Self {
        Self::on(device, geometry, initial)
    }
}

impl<M: Medium> Replay<M> {
    /// The same on any medium.
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

    /// Goes past one event. Those of other devices change nothing.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Submitted {
                device,
                batch,
                requests,
            } if *device == self.device => {
                // A flush covers what was done before the batch, so it does not matter where in it the flush is.
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
            } => self.add(*sector, payload, *force_unit_access),
            Request::Discard { sector, sectors } => {
                // It may read back as anything; old contents and zeroes are the two that devices really give.
                let zeroes = zeroes(*sectors * SectorNr::SIZE);
                self.add(*sector, &zeroes, false)
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

    fn add(&mut self, sector: SectorNr, payload: &Payload, is_forced: bool) -> Step {
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

    /// What a failed flush was to cover may be lost, and no later flush covers it.
    fn fail(&mut self, step: Step) {
        let Step::Flush(covered) = step else { return };
        for sequence in covered {
            if let Some(write) = self.writes.get_mut(&sequence) {
                write.is_complete = false;
            }
        }
    }

    /// Makes a write durable: its sectors cannot be older any more.
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

    /// The undecided versions, by sector.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// What is durable, without any undecided write.
    pub fn durable(&self) -> &M {
        &self.durable
    }

    /// One thing that a power cut here could leave: `pick` chooses for each unit of the device's sector size among
    /// `0..=n`, where 0 is the durable version and `n` the newest.
    pub fn image_with(&self, pick: &mut dyn FnMut(SectorNr, usize) -> usize) -> M {
        let mut image = self.durable.snapshot();
        let chosen = self.versions.choose(self.geometry.sector_bytes, pick);
        image.store(&chosen);
        image
    }

    /// One thing that a power cut here could leave, which depends on the seed alone.
    pub fn image(&self, seed: u64) -> M {
        self.image_with(&mut |sector, count| {
            let mut random = SplitMix::new(mix_pair(seed, sector.get()));
            random.below(count as u64 + 1) as usize
        })
    }

    /// What is left if nothing undecided got through.
    pub fn image_all_lost(&self) -> M {
        self.durable.snapshot()
    }

    /// What is left if everything got through.
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

        /// What the first sectors can be after all events.
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

    /// Commands fail: a write that says so may have got through, and no flush says which; what a failed flush was to cover
    /// is not settled by a later one, and what was written after it is.
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
        // Written once more, it is settled like anything else.
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
