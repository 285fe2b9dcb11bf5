//! The fault device: fails on purpose, and reproducibly.
//!
//! A [`FaultPlan`] is a seed and a list of rules. A rule has the requests that it matches, the
//! condition under which it fires, and an effect. Each rule counts its matches, so that the n-th
//! match is the same request in equal runs; random rules depend only on the seed and that count.
//! The first rule that fires decides; all rules count.
//!
//! Apart from rules there are *bad sectors*: a read of one fails until the sector is written.

mod plan;
mod torn;

use core::ops::Range;
use std::collections::BTreeSet;
use std::sync::Arc;

use layout::{Block, SectorNr};
use rt::Mutex;

use crate::device::{BlockDevice, Geometry, Request};
use crate::error::DeviceError;
use crate::forward::{Answer, forward};
use crate::ticket::{DetachedErrors, Outcome, Results, Ticket};
use plan::History;
pub use plan::{Effect, FaultPlan, FaultRule, Operations, Rate, When};
use rt::split_mix::{SplitMix, mix_pair};
use torn::BadSectors;

/// A device in front of another that fails according to a plan.
pub struct FaultDevice {
    inner: Arc<dyn BlockDevice>,
    plan: FaultPlan,
    state: Mutex<State>,
    detached: Arc<DetachedErrors>,
}

struct State {
    is_armed: bool,
    is_gone: bool,
    /// Number of requests that each rule has matched.
    seen: Vec<u64>,
    /// Number of times that each rule has fired.
    struck: Vec<u64>,
    /// Sectors that were written, if a rule needs them.
    written: BTreeSet<u64>,
    strikes: u64,
    bad: BadSectors,
}

/// The fate of a request.
enum Fate {
    Unharmed,
    Struck(Effect, u64),
}

impl FaultDevice {
    /// Creates a device that fails according to a plan, from the first request on.
    pub fn new(inner: Arc<dyn BlockDevice>, plan: FaultPlan) -> Self {
        let mut bad = BadSectors::default();
        for range in &plan.bad_sectors {
            bad.add(range.start.get(), range.end.get());
        }
        let seen = vec![0; plan.rules.len()];
        let struck = seen.clone();
        let state = Mutex::new(State {
            is_armed: true,
            is_gone: false,
            seen,
            struck,
            written: BTreeSet::new(),
            strikes: 0,
            bad,
        });
        Self {
            inner,
            plan,
            state,
            detached: Arc::default(),
        }
    }

    /// Enables or disables the rules and bad sectors. While disabled, nothing is counted.
    pub fn set_armed(&self, is_armed: bool) {
        self.state.lock().is_armed = is_armed;
    }

    /// Returns the number of requests that failed or were altered, bad sectors included.
    pub fn strikes(&self) -> u64 {
        self.state.lock().strikes
    }

    /// Returns the number of requests that a rule has matched.
    pub fn seen(&self, rule: usize) -> u64 {
        self.state.lock().seen[rule]
    }

    /// Makes sectors bad: reads of them fail until they are written.
    pub fn add_bad_sectors(&self, from: SectorNr, to: SectorNr) {
        self.state.lock().bad.add(from.get(), to.get());
    }

    /// Removes the device: every later request fails with `Gone`.
    pub fn remove(&self) {
        self.state.lock().is_gone = true;
    }

    fn failure(&self, request: &Request, cause: &str) -> DeviceError {
        request.failed(self.name(), cause)
    }

    /// Counts the request with every rule and returns the first rule that fires.
    fn fate(&self, state: &mut State, request: &Request) -> Fate {
        let mut fate = Fate::Unharmed;
        for (number, rule) in self.plan.rules.iter().enumerate() {
            if !rule.operations.includes(request) {
                continue;
            }
            state.seen[number] += 1;
            let draw = mix_pair(mix_pair(self.plan.seed, number as u64), state.seen[number]);
            let history = History {
                seen: state.seen[number],
                struck: state.struck[number],
                is_rewritten: sectors_of(request).all(|sector| state.written.contains(&sector)),
            };
            if matches!(fate, Fate::Unharmed) && rule.when.strikes(&history, draw, request) {
                state.struck[number] += 1;
                fate = Fate::Struck(rule.effect, draw);
            }
        }
        fate
    }

    /// Records the written sectors, if a rule needs them.
    fn note_written(&self, state: &mut State, request: &Request) {
        let mut rules = self.plan.rules.iter();
        if rules.any(|rule| matches!(rule.when, When::Unwritten { .. })) && request.is_write() {
            state.written.extend(sectors_of(request));
        }
    }

    /// Passes a request on, alters it, or answers it.
    fn decide(&self, request: Request) -> Result<Verdict, Answer> {
        let geometry = self.inner.geometry();
        geometry.check(&request).map_err(Err)?;
        let mut state = self.state.lock();
        if state.is_gone {
            return Err(Err(DeviceError::Gone));
        }
        if !state.is_armed {
            self.note_written(&mut state, &request);
            return Ok(Verdict::Pass(request));
        }
        let fate = self.fate(&mut state, &request);
        if let Fate::Struck(effect, draw) = fate {
            state.strikes += 1;
            if effect == Effect::Gone {
                state.is_gone = true;
            }
            drop(state);
            return self.strike(effect, draw, request);
        }
        self.note_written(&mut state, &request);
        let (sector, sectors) = request.range();
        if request.is_write() {
            state.bad.remove(sector.get(), sector.get() + sectors);
        } else if state.bad.touches(sector.get(), sector.get() + sectors) {
            state.strikes += 1;
            return Err(Err(self.failure(&request, "injected bad sector")));
        }
        Ok(Verdict::Pass(request))
    }

    fn strike(&self, effect: Effect, draw: u64, request: Request) -> Result<Verdict, Answer> {
        match (effect, request) {
            (Effect::Fail, request) => Err(Err(self.failure(&request, "injected error"))),
            (Effect::Gone, _) => Err(Err(DeviceError::Gone)),
            (Effect::NoSpace, Request::Write { .. }) => Err(Err(DeviceError::NoSpace {
                device: self.name(),
            })),
            (Effect::NoSpace, request) => Ok(Verdict::Pass(request)),
            (
                Effect::Torn,
                Request::Write {
                    sector, payload, ..
                },
            ) => {
                self.write_torn(sector, &payload, draw)?;
                let whole = Request::Write {
                    sector,
                    payload,
                    force_unit_access: false,
                };
                Err(Err(self.failure(&whole, "injected torn write")))
            }
            (Effect::Torn, request) => Err(Err(self.failure(&request, "injected error"))),
            (
                Effect::Lost,
                Request::Read {
                    blocks,
                    block_bytes,
                    ..
                },
            ) => {
                let zeroes = Block::zeroed(block_bytes as usize).into_arc();
                Err(Ok(Outcome::Read(vec![zeroes; blocks as usize])))
            }
            (Effect::Lost, _) => Err(Ok(Outcome::Done)),
            (Effect::Misdirected, request) => Ok(Verdict::Pass(torn::misdirect(
                request,
                draw,
                self.inner.geometry().size_bytes,
            ))),
            (
                Effect::Rotten,
                Request::Write {
                    sector,
                    payload,
                    force_unit_access,
                },
            ) => {
                let payload = torn::flip_bit(payload, draw);
                Ok(Verdict::Pass(Request::Write {
                    sector,
                    payload,
                    force_unit_access,
                }))
            }
            (Effect::Rotten, request) => Ok(Verdict::Rot(request, draw)),
        }
    }

    /// Writes some sectors of a write and waits, so that none of it is in flight when the failure
    /// is reported.
    fn write_torn(
        &self,
        sector: SectorNr,
        payload: &[Arc<Block>],
        draw: u64,
    ) -> Result<(), Answer> {
        let unit = u64::from(self.inner.geometry().sector_bytes);
        let kept = torn::tear(sector, payload, unit, &mut SplitMix::new(draw));
        self.inner.submit(kept).wait_all().map_err(Err)
    }
}

fn sectors_of(request: &Request) -> Range<u64> {
    let (sector, count) = request.range();
    sector.get()..sector.get() + count
}

/// A request for the device below.
enum Verdict {
    Pass(Request),
    /// A read with a bit to be flipped in its result.
    Rot(Request, u64),
}

impl BlockDevice for FaultDevice {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        // (request, draw) of the reads with a bit to be flipped.
        let mut rotten: Vec<(usize, u64)> = Vec::new();
        let mut number = 0;
        let ticket = forward(&*self.inner, &self.detached, batch, |request| {
            let index = number;
            number += 1;
            Ok(match self.decide(request)? {
                Verdict::Pass(request) => request,
                Verdict::Rot(request, draw) => {
                    rotten.push((index, draw));
                    request
                }
            })
        });
        if rotten.is_empty() {
            return ticket;
        }
        Ticket::joined(vec![ticket], move |mut parts| {
            let mut results: Results = parts.pop().unwrap_or_default();
            for (index, draw) in rotten {
                if let Ok(Outcome::Read(payload)) = &mut results[index] {
                    *payload = torn::flip_bit(core::mem::take(payload), draw);
                }
            }
            results
        })
    }

    fn name(&self) -> String {
        format!("fault({})", self.inner.name())
    }

    fn reserve(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        self.inner.reserve(ranges)
    }

    fn intruder(&self) -> Option<String> {
        self.inner.intruder()
    }

    fn drop_cached(&self) {
        self.inner.drop_cached();
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.detached
            .take()
            .or_else(|| self.inner.take_detached_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryDevice;
    use crate::payload::payload_from_bytes;

    fn device(plan: FaultPlan) -> (Arc<MemoryDevice>, FaultDevice) {
        let memory = Arc::new(MemoryDevice::new(1 << 20));
        (Arc::clone(&memory), FaultDevice::new(memory, plan))
    }

    fn rule(operations: Operations, when: When, effect: Effect) -> FaultPlan {
        FaultPlan {
            seed: 7,
            rules: vec![FaultRule {
                operations,
                when,
                effect,
            }],
            bad_sectors: vec![],
        }
    }

    fn write(device: &dyn BlockDevice, sector: u64, byte: u8) -> Result<(), DeviceError> {
        device.write_blocks(sector * 512, payload_from_bytes(&[byte; 4096], 4096))
    }

    #[test]
    fn the_nth_request_fails_once_or_for_good() {
        for (when, expected) in [
            (When::Nth(3), [true, true, false, true, true]),
            (When::From(3), [true, true, false, false, false]),
            (When::Always, [false; 5]),
        ] {
            let (_, device) = device(rule(Operations::WRITES, when, Effect::Fail));
            let went: Vec<bool> = (0..5)
                .map(|sector| write(&device, sector * 8, 1).is_ok())
                .collect();
            assert_eq!(went, expected);
            assert!((&device as &dyn BlockDevice).flush().is_ok());
            assert_eq!(
                device.strikes(),
                expected.iter().filter(|ok| !**ok).count() as u64
            );
        }
    }

    #[test]
    fn a_flush_can_fail_while_writes_work() {
        let (_, device) = device(rule(Operations::FLUSHES, When::Nth(1), Effect::Fail));
        assert!(write(&device, 0, 1).is_ok());
        let device: &dyn BlockDevice = &device;
        assert!(matches!(
            device.flush(),
            Err(DeviceError::Failed {
                operation: "flush",
                ..
            })
        ));
        assert!(device.flush().is_ok());
    }

    #[test]
    fn a_device_without_room_refuses_writes_and_nothing_else() {
        let (memory, device) = device(rule(Operations::ALL, When::Always, Effect::NoSpace));
        let refused = write(&device, 0, 1);
        assert!(matches!(refused, Err(DeviceError::NoSpace { .. })));
        assert!(memory.to_bytes().iter().all(|byte| *byte == 0));
        let device: &dyn BlockDevice = &device;
        assert!(device.flush().is_ok() && device.read_block(0, 512).is_ok());
    }

    #[test]
    fn a_thin_device_refuses_first_writes_until_there_is_room() {
        let when = When::Unwritten { from: 3, times: 2 };
        let (_, device) = device(rule(Operations::WRITES, when, Effect::NoSpace));
        let went = [0, 8, 0, 16, 8, 24, 24, 16].map(|sector| write(&device, sector, 1).is_ok());
        let expected = [true, true, true, false, true, false, true, true];
        assert_eq!(went, expected);
    }

    #[test]
    fn a_device_that_goes_stays_gone() {
        let (_, device) = device(rule(Operations::ALL, When::Nth(2), Effect::Gone));
        assert!(write(&device, 0, 1).is_ok());
        assert_eq!(write(&device, 0, 1), Err(DeviceError::Gone));
        assert_eq!(
            (&device as &dyn BlockDevice).flush(),
            Err(DeviceError::Gone)
        );
    }

    #[test]
    fn bad_sectors_fail_reads_until_they_are_written() {
        let bad_sectors = vec![SectorNr::new(10)..SectorNr::new(12)];
        let (_, fault) = device(FaultPlan {
            bad_sectors,
            ..FaultPlan::default()
        });
        let device: &dyn BlockDevice = &fault;
        assert!(device.read_block(9 * 512, 512).is_ok());
        assert!(device.read_block(8 * 512, 4096).is_err());
        let one = payload_from_bytes(&[1; 512], 512);
        device
            .write_blocks(10 * 512, one)
            .expect("writes of bad sectors mend them");
        assert!(device.read_block(10 * 512, 512).is_ok());
        assert!(device.read_block(11 * 512, 512).is_err());
        fault.set_armed(false);
        assert!(device.read_block(11 * 512, 512).is_ok());
    }

    #[test]
    fn rates_depend_on_the_seed_alone() {
        let run = |seed| {
            let rate = Rate::parse("0.25").expect("a rate");
            let mut plan = rule(Operations::WRITES, When::Rate(rate), Effect::Fail);
            plan.seed = seed;
            let (_, device) = device(plan);
            (0..400)
                .map(|number| write(&device, number % 8 * 8, 1).is_ok())
                .collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        let failed = run(1).iter().filter(|ok| !**ok).count();
        assert!((60..140).contains(&failed), "{failed} of 400");
    }

    #[test]
    fn a_torn_write_leaves_whole_sectors_old_or_new() {
        let mut shapes = BTreeSet::new();
        for seed in 0..20 {
            let mut plan = rule(Operations::WRITES, When::Nth(2), Effect::Torn);
            plan.seed = seed;
            let (memory, device) = device(plan);
            write(&device, 0, 1).expect("the first write is spared");
            assert!(write(&device, 0, 2).is_err());
            let bytes = memory.to_bytes();
            let shape: Vec<u8> = bytes[..4096].chunks(512).map(|sector| sector[0]).collect();
            for (sector, value) in bytes[..4096].chunks(512).zip(&shape) {
                assert!(sector.iter().all(|byte| byte == value));
            }
            shapes.insert(shape);
        }
        assert!(shapes.len() > 10, "seeds tear differently");
    }

    #[test]
    fn lost_rotten_and_misdirected_writes_are_acknowledged() {
        for (effect, changed_bits) in [(Effect::Lost, 0), (Effect::Rotten, 1)] {
            let (memory, device) = device(rule(Operations::WRITES, When::Nth(1), effect));
            assert!(
                device
                    .submit(vec![Request::Write {
                        sector: SectorNr::new(0),
                        payload: payload_from_bytes(&[0; 4096], 4096),
                        force_unit_access: false,
                    }])
                    .wait_all()
                    .is_ok()
            );
            let bits: u32 = memory.to_bytes().iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(bits, changed_bits);
        }
        let (memory, device) = device(rule(Operations::WRITES, When::Nth(1), Effect::Misdirected));
        assert!(write(&device, 0, 0xFF).is_ok());
        let bytes = memory.to_bytes();
        assert!(bytes[..4096].iter().all(|byte| *byte == 0));
        assert_eq!(bytes.iter().filter(|byte| **byte == 0xFF).count(), 4096);
    }
}
