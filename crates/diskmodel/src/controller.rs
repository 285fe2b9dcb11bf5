//! A controller with a battery-backed write-back cache in front of any device: [`Controller`].
//!
//! - A *write* is complete when the controller has the data. It takes the command's time, the
//!   transfer time on the bus and, while the cache is full, the time until there is room. `submit`
//!   waits for room. Forced writes are no different.
//! - A *flush* takes the command's time. The battery makes this correct.
//! - A *read* finds dirty data in the cache; the rest is read from the array. Clean data is not
//!   cached: the host has a larger cache.
//! - *Destaging* starts at the high-water mark of the cache and continues to below it. It also
//!   starts after a period without requests and reads in progress, and continues until the next
//!   one. Adjacent sectors are
//!   written together, in ascending order (`cache.rs`), so that an array with parity gets whole
//!   stripes if possible.
//!
//! The processor and the bus handle one request at a time each. Tasks of the controller submit the
//! requests to the array's members: the host pays for one request, and for no parity.
//!
//! # Power cuts
//!
//! The memory is part of the device: acknowledged data is durable, as `has_volatile_cache` reports.
//! Dirty data stays in the memory until it and its parity are durable on the array. It is written
//! by forced writes if the members have volatile caches, or followed by a flush if they do not
//! support those. After a power cut a controller writes its dirty data again, stripe by stripe, so
//! that no parity remains wrong. Without a controller, each member keeps its own state: a software
//! array has its write hole.

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

/// Maximum number of reads in progress at the array.
const READS_MAX: usize = 32;

/// Maximum number of batches written to the array at a time: while the last arm finishes one, the
/// other arms start the next.
const DESTAGES_MAX: usize = 2;

/// Number of requests accepted before the host should hold back.
const QUEUE_DEPTH: u32 = 256;

/// The parameters of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerModel {
    /// Size of the cache in bytes.
    pub cache_bytes: u64,
    /// Processor time of a command.
    pub command: Nanos,
    /// Bandwidth between the host and the controller in bytes per second.
    pub bus_bytes_per_second: u64,
    /// Percentage of dirty sectors from which on destaging does not wait for an idle period.
    pub high_water_percent: u32,
    /// Time without requests after which the controller is idle.
    pub idle: Nanos,
}

impl ControllerModel {
    /// Description, for lists.
    pub const DESCRIPTION: &str = "RAID controller with a battery-backed write-back cache, bbu(DEV,...) in front of any device";
    /// Source of the parameters.
    pub const SOURCE: &str = "of the class of 64-bit, 66 MHz PCI controllers with an i960 or 80303 of about 2003; cache, \
                              latency, bandwidth, high-water mark and idle time can be set";
}

impl ControllerModel {
    /// Reliability of the source.
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

/// A simulated controller. It exists in the world that created it.
pub struct Controller {
    shared: Arc<Shared>,
    geometry: Geometry,
    name: String,
}

struct Shared {
    array: Arc<dyn BlockDevice>,
    model: ControllerModel,
    state: Mutex<State>,
    /// Signalled when there are reads for a reader.
    reads: Condvar,
    /// Signalled when there is a reason to destage.
    dirt: Condvar,
    /// Signalled when there is room in the cache.
    room: Condvar,
    detached: Arc<DetachedErrors>,
}

struct State {
    cache: Cache,
    /// Reads that no reader has taken yet.
    reads: VecDeque<Read>,
    /// Time at which the processor is free.
    processor_free: Nanos,
    /// Time at which the bus is free.
    bus_free: Nanos,
    /// Time of the last request of a host, or of the end of its last read.
    asked: Nanos,
    /// Number of hosts that wait for room.
    waiters: u32,
    /// Number of reads that are not complete.
    reading: u32,
    stats: DiskStats,
}

/// A read with at least a part on the array.
struct Read {
    parts: Vec<Part>,
    block_bytes: usize,
    sectors: u64,
    began: Nanos,
    /// Time at which the controller has processed the command.
    understood: Nanos,
    completer: Completer,
}

/// The answer to a request.
enum Answer {
    /// Results, and the time at which they are available.
    At(Nanos, Result<Outcome, DeviceError>),
    Later(Ticket),
}

impl Controller {
    /// Creates a controller in front of an array. `stripe_bytes` is the data in a stripe of the
    /// array, if it has parity.
    ///
    /// # Panics
    /// Panics outside a simulated world, or if the cache is smaller than a sector or the bandwidth
    /// is zero.
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
            reading: 0,
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
    /// Accepts one request of a host.
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
                    state.reading += 1;
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
            // Discards are not passed to an array: its parity would become wrong.
            Request::Flush | Request::Discard { .. } => understood,
        };
        state.finish(began, done);
        (state, Answer::At(done, Ok(Outcome::Done)))
    }

    /// Waits until the sectors fit into the cache.
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

    /// Runs a reader's task. It ends with the world.
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
            state.reading -= 1;
            state.asked = state.asked.max(rt::monotonic());
            if state.reading == 0 {
                self.dirt.notify_all();
            }
        }
    }

    /// Reads the missing parts of a read from the array.
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

    /// Runs a destager's task. It ends with the world.
    fn run_destager(&self) {
        let mut state = self.state.lock();
        loop {
            let idle_from = state.asked + self.model.idle;
            let is_idle = state.reading == 0 && rt::monotonic() >= idle_from;
            let is_full = state.cache.is_above(self.model.high_water_percent);
            if !is_idle && !is_full && state.waiters == 0 && state.cache.used() > 0 {
                match state.reading {
                    0 => _ = self.dirt.wait_until(&mut state, idle_from),
                    _ => self.dirt.wait(&mut state),
                }
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
    /// Makes a batch durable on the array. Data of a failed write is lost, and the next flush
    /// reports the error.
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
    /// Occupies the processor for a command. Returns the time at which it is done.
    fn understand(&mut self, model: ControllerModel, now: Nanos) -> Nanos {
        self.processor_free = self.processor_free.max(now) + model.command;
        self.processor_free
    }

    /// Occupies the bus for some sectors, starting at a time. Returns the time at which the last
    /// byte has passed.
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
