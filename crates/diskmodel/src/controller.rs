//! A controller with a battery-backed write-back cache in front of any device: [`Controller`].
//!
//! - A *write* is done when the controller has it: it takes the command's time, the bytes' time on the bus and, while the
//!   cache is full, the time until there is room. `submit` waits for room. Forced writes are no different.
//! - A *flush* takes the command's time. The battery is what makes that right.
//! - A *read* finds what is dirty in the cache; the array is asked for the rest. Clean data are not kept: the host has a
//!   larger cache.
//! - *Destaging* begins when the cache is filled to the high-water mark, and goes on to below it; or when no host has asked
//!   for anything for a while, and goes on until somebody does. Neighbours go together, in ascending order (`cache.rs`), so
//!   that an array with parity sees whole stripes where there are any.
//!
//! The command and the bus are each one at a time. What the array's members are asked for is asked by tasks of the
//! controller: the host pays for one request, and for no parity.
//!
//! # What a power cut leaves
//!
//! The memory is part of the device: what is acknowledged is durable, and `has_volatile_cache` says so. What is dirty stays
//! in the memory until it and its parity are durable on the array: it is sent with forced writes if the members have
//! volatile caches, or followed by a flush if they do not know those. After a power cut a controller writes what it holds
//! once more, stripe by stripe, so that no parity is left wrong. Without one, members keep what each of them had: an array
//! in software has its write hole.

mod cache;
mod options;

use std::collections::VecDeque;
use std::sync::Arc;

use block::{
    BlockDevice, Completer, DetachedErrors, DeviceError, Geometry, Outcome, Payload, Request,
    Results, Ticket,
};
use layout::SectorNr;
use rt::{Condvar, Cost, Mutex, MutexGuard, Nanos};

use crate::SimulatedDevice;
use crate::model::Provenance;
use crate::stats::DiskStats;
use crate::timed::timed_ticket;
use cache::{Cache, Destage, Part, join};
pub use options::open_controller;

/// How many reads the controller has under way at the array.
const READS_MAX: usize = 32;

/// How many batches it writes to the array at a time: while the last arm finishes one, the others begin the next.
const DESTAGES_MAX: usize = 2;

/// How many requests are taken before the host should hold back.
const QUEUE_DEPTH: u32 = 256;

/// What a controller is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerModel {
    /// How much the cache holds.
    pub cache_bytes: u64,
    /// What the controller's processor needs for a command.
    pub command: Nanos,
    /// Bytes per second between the host and the controller.
    pub bus_bytes_per_second: u64,
    /// From how many percent of dirty sectors on they are destaged without waiting for an idle moment.
    pub high_water_percent: u32,
    /// How long no host asks for anything before the moment is idle.
    pub idle: Nanos,
}

impl ControllerModel {
    /// What it is, for lists.
    pub const DESCRIPTION: &str = "RAID controller with a battery-backed write-back cache, bbu(DEV,...) in front of any device";
    /// Where its numbers come from.
    pub const SOURCE: &str = "of the class of 64-bit, 66 MHz PCI controllers with an i960 or 80303 of about 2003; cache, \
                              latency, bandwidth, high-water mark and idle time can be set";
}

impl ControllerModel {
    /// What they are worth.
    pub const PROVENANCE: Provenance = Provenance::Calibrated;
}

impl Default for ControllerModel {
    fn default() -> Self {
        Self {
            cache_bytes: 64 << 20,
            command: Nanos::from_micros(100),
            bus_bytes_per_second: 200_000_000,
            high_water_percent: 80,
            idle: Nanos::from_millis(20),
        }
    }
}

/// A simulated controller. It lives in the world that made it.
pub struct Controller {
    shared: Arc<Shared>,
    geometry: Geometry,
    name: String,
}

struct Shared {
    array: Arc<dyn BlockDevice>,
    model: ControllerModel,
    state: Mutex<State>,
    /// Readers wait here for reads.
    reads: Condvar,
    /// Destagers wait here for a reason.
    dirt: Condvar,
    /// Hosts wait here for room in the cache.
    room: Condvar,
    detached: Arc<DetachedErrors>,
}

struct State {
    cache: Cache,
    /// Reads that no reader has taken yet.
    reads: VecDeque<Read>,
    /// When the processor is free.
    processor_free: Nanos,
    /// When the bus is free.
    bus_free: Nanos,
    /// When a host last asked for something.
    asked: Nanos,
    /// Hosts that wait for room.
    waiters: u32,
    stats: DiskStats,
}

/// A read of which the array has at least a part.
struct Read {
    parts: Vec<Part>,
    block_bytes: usize,
    sectors: u64,
    began: Nanos,
    /// When the controller has understood it.
    understood: Nanos,
    completer: Completer,
}

/// What becomes of a request.
enum Answer {
    /// These results at that moment.
    At(Nanos, Result<Outcome, DeviceError>),
    Later(Ticket),
}

impl Controller {
    /// A controller in front of an array, of which a stripe has so many bytes of data if it has stripes with parity.
    ///
    /// # Panics
    /// Outside a simulated world, or if the cache is smaller than a sector or the bus moves nothing.
    pub fn new(
        model: ControllerModel,
        array: Arc<dyn BlockDevice>,
        stripe_bytes: Option<u64>,
        name: String,
    ) -> Self {
        assert!(
            model.cache_bytes >= SectorNr::SIZE,
            "a cache holds a sector"
        );
        assert!(model.bus_bytes_per_second > 0, "a bus moves bytes");
        let geometry = Geometry {
            has_volatile_cache: false,
            has_force_unit_access: true,
            can_flush: true,
            queue_depth: QUEUE_DEPTH,
            ..array.geometry()
        };
        let state = State {
            cache: Cache::new(model.cache_bytes, stripe_bytes.unwrap_or(0)),
            reads: VecDeque::new(),
            processor_free: Nanos::ZERO,
            bus_free: Nanos::ZERO,
            asked: Nanos::ZERO,
            waiters: 0,
            stats: DiskStats::default(),
        };
        let shared = Arc::new(Shared {
            array,
            model,
            state: Mutex::new(state),
            reads: Condvar::new(),
            dirt: Condvar::new(),
            room: Condvar::new(),
            detached: Arc::default(),
        });
        for _ in 0..READS_MAX {
            let shared = Arc::clone(&shared);
            sim::spawn_device(&name, move || shared.run_reader());
        }
        for _ in 0..DESTAGES_MAX {
            let shared = Arc::clone(&shared);
            sim::spawn_device(&name, move || shared.run_destager());
        }
        Self {
            shared,
            geometry,
            name,
        }
    }
}

impl BlockDevice for Controller {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn submit(&self, requests: Vec<Request>) -> Ticket {
        for _ in &requests {
            rt::charge(Cost::Request);
        }
        sim::settle();
        let mut state = self.shared.state.lock();
        let mut order = Vec::with_capacity(requests.len());
        let (mut done, mut answers) = (rt::monotonic(), Results::new());
        let mut tickets = Vec::new();
        for request in requests {
            let answer = match self.geometry.check(&request) {
                Err(error) => Answer::At(rt::monotonic(), Err(error)),
                Ok(()) => {
                    let (guard, answer) = self.shared.take(state, request);
                    state = guard;
                    answer
                }
            };
            match answer {
                Answer::At(moment, answer) => {
                    done = done.max(moment);
                    answers.push(answer);
                    order.push(true);
                }
                Answer::Later(ticket) => {
                    tickets.push(ticket);
                    order.push(false);
                }
            }
        }
        drop(state);
        tickets.push(timed_ticket(done, answers, &self.shared.detached));
        Ticket::joined(tickets, move |mut parts| {
            let mut at_once = parts.pop().unwrap_or_default().into_iter();
            let mut later = parts.into_iter().flatten();
            let mut next = |is_at_once| {
                let answer = if is_at_once {
                    at_once.next()
                } else {
                    later.next()
                };
                answer.unwrap_or(Err(DeviceError::Gone))
            };
            order.into_iter().map(&mut next).collect()
        })
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.shared.detached.take()
    }
}

impl SimulatedDevice for Controller {
    fn stats(&self) -> DiskStats {
        self.shared.state.lock().stats.clone()
    }
}

impl Shared {
    /// Takes one request of a host.
    fn take<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        request: Request,
    ) -> (MutexGuard<'a, State>, Answer) {
        let began = rt::monotonic();
        state.stats.count(&request);
        state.asked = began;
        let (sector, sectors) = request.range();
        let understood = state.understand(self.model, began);
        let done = match request {
            Request::Write { payload, .. } => {
                state = self.wait_for_room(state, sectors);
                let done = state.transfer(self.model, understood, sectors);
                let replaced = state.cache.write(sector, &payload);
                state.stats.controller.replaced_sectors += replaced;
                self.dirt.notify_one();
                done
            }
            Request::Read { block_bytes, .. } => {
                let parts = state.cache.read(sector, sectors);
                let block_bytes = block_bytes as usize;
                if parts.iter().any(|part| matches!(part, Part::Missing(_))) {
                    let (ticket, completer) =
                        Ticket::pending_or_detached(Arc::clone(&self.detached));
                    state.reads.push_back(Read {
                        parts,
                        block_bytes,
                        sectors,
                        began,
                        understood,
                        completer,
                    });
                    sim::requests_in_flight(1);
                    self.reads.notify_one();
                    return (state, Answer::Later(ticket));
                }
                state.stats.controller.read_hits += 1;
                let done = state.transfer(self.model, understood, sectors);
                state.finish(began, done);
                let payload = join(parts, Vec::new(), block_bytes);
                return (state, Answer::At(done, Ok(Outcome::Read(payload))));
            }
            // Nothing is given back to an array: its parity would be wrong.
            Request::Flush | Request::Discard { .. } => understood,
        };
        state.finish(began, done);
        (state, Answer::At(done, Ok(Outcome::Done)))
    }

    /// Waits until so many sectors fit into the cache.
    fn wait_for_room<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        sectors: u64,
    ) -> MutexGuard<'a, State> {
        if state.cache.has_room(sectors) {
            return state;
        }
        state.stats.controller.throttled_writes += 1;
        state.waiters += 1;
        sim::requests_in_flight(1);
        while !state.cache.has_room(sectors) {
            self.dirt.notify_all();
            self.room.wait(&mut state);
        }
        sim::requests_in_flight(-1);
        state.waiters -= 1;
        state
    }

    /// A reader's task. It ends with the world.
    fn run_reader(&self) {
        let mut state = self.state.lock();
        loop {
            let Some(mut read) = state.reads.pop_front() else {
                self.reads.wait(&mut state);
                continue;
            };
            drop(state);
            rt::sleep_until(read.understood);
            let found = self.ask_array(&mut read.parts);
            state = self.state.lock();
            let now = rt::monotonic();
            let done = state.transfer(self.model, now, read.sectors);
            state.finish(read.began, done);
            drop(state);
            rt::sleep_until(done);
            let answer =
                found.map(|found| Outcome::Read(join(read.parts, found, read.block_bytes)));
            read.completer.complete(vec![answer]);
            sim::requests_in_flight(-1);
            state = self.state.lock();
        }
    }

    /// What the array has of a read.
    fn ask_array(&self, parts: &mut [Part]) -> Result<Vec<Payload>, DeviceError> {
        let requests = parts
            .iter()
            .filter_map(|part| match part {
                Part::Missing(request) => Some(request.clone()),
                Part::Known(_) => None,
            })
            .collect();
        let results = self.array.submit(requests).wait();
        results
            .into_iter()
            .map(|result| match result? {
                Outcome::Read(payload) => Ok(payload),
                Outcome::Done => Err(DeviceError::Gone),
            })
            .collect()
    }

    /// A destager's task. It ends with the world.
    fn run_destager(&self) {
        let mut state = self.state.lock();
        loop {
            let idle_from = state.asked + self.model.idle;
            let has_reason = state.waiters > 0
                || state.cache.is_above(self.model.high_water_percent)
                || rt::monotonic() >= idle_from;
            if !has_reason && state.cache.used() > 0 {
                self.dirt.wait_until(&mut state, idle_from);
                continue;
            }
            let Some(destage) = state.cache.next_batch() else {
                self.dirt.wait(&mut state);
                continue;
            };
            drop(state);
            self.write_to_array(&destage);
            state = self.state.lock();
            state.cache.landed(&destage);
            let sectors: u64 = destage.runs.iter().map(|run| run.end - run.start).sum();
            state.stats.controller.destaged_sectors += sectors;
            state.stats.controller.destaged_runs += destage.runs.len() as u64;
            self.room.notify_all();
        }
    }
}

impl Shared {
    /// Makes a batch durable on the array. What fails is lost, and said to whoever flushes next.
    fn write_to_array(&self, destage: &Destage) {
        let geometry = self.array.geometry();
        let is_forced = geometry.has_volatile_cache && geometry.has_force_unit_access;
        let requests = destage.requests(is_forced);
        self.detached.keep(&self.array.submit(requests).wait());
        if geometry.has_volatile_cache && !geometry.has_force_unit_access {
            let flushed = self.array.submit(vec![Request::Flush]).wait();
            self.detached.keep(&flushed);
        }
    }
}

impl State {
    /// The processor's time for a command; when it has passed.
    fn understand(&mut self, model: ControllerModel, now: Nanos) -> Nanos {
        self.processor_free = self.processor_free.max(now) + model.command;
        self.processor_free
    }

    /// The bus's time for some sectors, from a moment on; when the last byte has passed.
    fn transfer(&mut self, model: ControllerModel, from: Nanos, sectors: u64) -> Nanos {
        let bytes = u128::from(sectors * SectorNr::SIZE);
        let nanos = bytes * 1_000_000_000 / u128::from(model.bus_bytes_per_second);
        let nanos = Nanos::new(u64::try_from(nanos).expect("a request takes less than an age"));
        self.bus_free = self.bus_free.max(from).max(rt::monotonic()) + nanos;
        self.bus_free
    }

    fn finish(&mut self, began: Nanos, done: Nanos) {
        let nanos = done.saturating_sub(began).get();
        self.stats.request_nanos.record(nanos);
    }
}

#[cfg(test)]
mod tests;
