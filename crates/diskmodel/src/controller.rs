//! A controller with a battery-backed write-back cache in front of any device: [`Controller`].
//!
//! - A *write* is complete when the controller has the data. It takes the command's time, the
//!   transfer time on the bus and, while the cache is full, the time until there is room. `submit`
//!   waits for room. Forced writes are no different.
//! - A *flush* takes the command's time. The battery makes this correct.
//! - With *write-through*, as without a battery, writes and flushes are complete when the array
//!   completes them, and the device promises what the array promises (`through.rs`).
//! - A *read* finds dirty and clean data in the cache; the rest is read from the array. What was
//!   read or destaged stays as clean, in the room that dirty data leaves (`clean.rs`).
//! - *Read-ahead* follows several sequential readers at a time (`streams.rs`, `reads.rs`).
//! - *Destaging* starts above the high-water mark and continues to the low one. It also
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

mod array_requests;
mod cache;
mod clean;
mod model;
mod options;
mod reads;
mod streams;
mod through;

use std::collections::VecDeque;
use std::sync::Arc;

use block::{
    BlockDevice, DetachedErrors, DeviceError, Geometry, Outcome, Request, Results, Ticket,
};
use layout::SectorNr;
use rt::{Condvar, Cost, Mutex, MutexGuard, Nanos};

use crate::SimulatedDevice;
use crate::stats::DiskStats;
use crate::timed::timed_ticket;
use array_requests::{ArrayReads, Writing};
use cache::{Cache, Destage, Part, join};
pub use model::{ControllerModel, DestageOrder, ReadAhead};
pub use options::open_controller;
use reads::{HostRead, Read};
use streams::Streams;
use through::Passed;

/// Maximum number of reads in progress at the array.
const READS_MAX: usize = 32;

/// Maximum number of batches written to the array at a time: while the last arm finishes one, the
/// other arms start the next.
const DESTAGES_MAX: usize = 2;

/// Maximum number of writes in progress at the array with write-through.
const WRITES_MAX: usize = 32;

/// Number of sectors that are read ahead together if the array has no stripes with parity: 64 KiB.
const AHEAD_SECTORS: u64 = 128;

/// Number of requests accepted before the host should hold back.
const QUEUE_DEPTH: u32 = 256;

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
    /// Signalled when there are writes for a writer.
    writes: Condvar,
    /// Signalled when read-ahead has brought sectors, or a write has passed through.
    arrived: Condvar,
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
    /// Number of reads of hosts that are not complete.
    reading: u32,
    /// Reads in progress at the array.
    array_reads: ArrayReads,
    streams: Streams,
    /// Writes and flushes that no writer has passed on yet.
    passed: VecDeque<Passed>,
    /// Writes that are being passed on.
    writing: Writing,
    /// True from the high-water mark to the low one.
    is_draining: bool,
    stats: DiskStats,
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
        let below = Geometry {
            queue_depth: QUEUE_DEPTH,
            ..array.geometry()
        };
        let geometry = match model.is_write_back {
            true => Geometry {
                has_volatile_cache: false,
                has_force_unit_access: true,
                can_flush: true,
                ..below
            },
            false => below,
        };
        let capacity = geometry.size_bytes / SectorNr::SIZE;
        let unit = stripe_bytes.map_or(AHEAD_SECTORS, |bytes| (bytes / SectorNr::SIZE).max(1));
        let state = State {
            cache: Cache::new(&model, stripe_bytes.unwrap_or(0)),
            reads: VecDeque::new(),
            processor_free: Nanos::ZERO,
            bus_free: Nanos::ZERO,
            asked: Nanos::ZERO,
            waiters: 0,
            reading: 0,
            array_reads: ArrayReads::default(),
            streams: Streams::new(model.read_ahead, unit, capacity),
            passed: VecDeque::new(),
            writing: Writing::default(),
            is_draining: false,
            stats: DiskStats::default(),
        };
        let shared = Arc::new(Shared {
            array,
            model,
            state: Mutex::new(state),
            reads: Condvar::new(),
            writes: Condvar::new(),
            arrived: Condvar::new(),
            dirt: Condvar::new(),
            room: Condvar::new(),
            detached: Arc::default(),
        });
        for _ in 0..READS_MAX {
            let shared = Arc::clone(&shared);
            sim::spawn_device(&name, move || shared.run_reader());
        }
        let destagers = if model.is_write_back { DESTAGES_MAX } else { 0 };
        for _ in 0..destagers {
            let shared = Arc::clone(&shared);
            sim::spawn_device(&name, move || shared.run_destager());
        }
        let writers = if model.is_write_back { 0 } else { WRITES_MAX };
        for _ in 0..writers {
            let shared = Arc::clone(&shared);
            sim::spawn_device(&name, move || shared.run_writer());
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
            Request::Write { .. } | Request::Flush if !self.model.is_write_back => {
                let answer = self.pass_on(&mut state, request, began, understood);
                return (state, answer);
            }
            Request::Write { payload, .. } => {
                state = self.wait_for_room(state, sectors);
                let done = state.transfer(self.model, understood, sectors);
                let first = sector.get();
                state.array_reads.mark_stale(&(first..first + sectors));
                let replaced = state.cache.write(sector, &payload);
                state.stats.controller.replaced_sectors += replaced;
                self.dirt.notify_one();
                done
            }
            Request::Read { block_bytes, .. } => {
                let answer = self.read(
                    &mut state,
                    (sector, sectors),
                    block_bytes as usize,
                    (began, understood),
                );
                return (state, answer);
            }
            // Discards are not passed to an array: its parity would become wrong.
            Request::Flush | Request::Discard { .. } => understood,
        };
        state.finish(began, done);
        (state, Answer::At(done, Ok(Outcome::Done)))
    }

    /// Answers a read from the cache, or leaves it to a reader. Reads ahead of it.
    fn read(
        &self,
        state: &mut State,
        (sector, sectors): (SectorNr, u64),
        block_bytes: usize,
        (began, understood): (Nanos, Nanos),
    ) -> Answer {
        let parts = state.cache.read(sector, sectors);
        let is_here = parts.iter().all(|part| matches!(part, Part::Known(_)));
        let answer = if is_here {
            state.stats.controller.read_hits += 1;
            let done = state.transfer(self.model, understood, sectors);
            state.finish(began, done);
            let payload = join(parts, Vec::new(), block_bytes);
            Answer::At(done, Ok(Outcome::Read(payload)))
        } else {
            let (ticket, completer) = Ticket::pending_or_detached(Arc::clone(&self.detached));
            let host = HostRead {
                block_bytes,
                began,
                understood,
                completer,
            };
            state.reads.push_back(Read {
                sector,
                sectors,
                host: Some(host),
            });
            state.reading += 1;
            sim::requests_in_flight(1);
            self.reads.notify_one();
            Answer::Later(ticket)
        };
        let first = sector.get();
        if let Some(ahead) = state.streams.note(first..first + sectors) {
            state.reads.push_back(Read {
                sector: SectorNr::new(ahead.start),
                sectors: ahead.end - ahead.start,
                host: None,
            });
            self.reads.notify_one();
        }
        answer
    }

    /// Leaves a write or flush to a writer, which passes it to the array.
    fn pass_on(
        &self,
        state: &mut State,
        request: Request,
        began: Nanos,
        understood: Nanos,
    ) -> Answer {
        let (_, sectors) = request.range();
        let ready = match sectors {
            0 => understood,
            _ => state.transfer(self.model, understood, sectors),
        };
        let (ticket, completer) = Ticket::pending_or_detached(Arc::clone(&self.detached));
        state.passed.push_back(Passed {
            request,
            began,
            ready,
            completer,
        });
        sim::requests_in_flight(1);
        self.writes.notify_one();
        Answer::Later(ticket)
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

    /// Runs a destager's task. It ends with the world.
    fn run_destager(&self) {
        let mut state = self.state.lock();
        loop {
            let idle_from = state.asked + self.model.idle;
            let is_idle = state.reading == 0 && rt::monotonic() >= idle_from;
            let mark = match state.is_draining {
                true => self.model.low_water_percent,
                false => self.model.high_water_percent,
            };
            state.is_draining = state.cache.is_above(mark);
            let has_reason = is_idle || state.is_draining || state.waiters > 0;
            if !has_reason && state.cache.used() > 0 {
                match state.reading {
                    0 => _ = self.dirt.wait_until(&mut state, idle_from),
                    _ => self.dirt.wait(&mut state),
                }
                continue;
            }
            let batch = {
                let State {
                    cache, array_reads, ..
                } = &mut *state;
                cache.next_batch(array_reads)
            };
            let Some(destage) = batch else {
                self.dirt.wait(&mut state);
                continue;
            };
            drop(state);
            let is_written = self.write_to_array(&destage);
            state = self.state.lock();
            state.cache.completed(&destage, is_written);
            let sectors: u64 = destage.runs.iter().map(|run| run.end - run.start).sum();
            state.stats.controller.destaged_sectors += sectors;
            state.stats.controller.destaged_runs += destage.runs.len() as u64;
            self.room.notify_all();
        }
    }
}

impl Shared {
    /// Makes a batch durable on the array. Returns true if all writes succeeded. Data of a failed
    /// write is lost, and the next flush reports the error.
    fn write_to_array(&self, destage: &Destage) -> bool {
        let geometry = self.array.geometry();
        let is_forced = geometry.has_volatile_cache && geometry.has_force_unit_access;
        let requests = destage.requests(is_forced);
        let written = self.array.submit(requests).wait();
        self.detached.keep(&written);
        if geometry.has_volatile_cache && !geometry.has_force_unit_access {
            let flushed = self.array.submit(vec![Request::Flush]).wait();
            self.detached.keep(&flushed);
        }
        written.iter().all(Result::is_ok)
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
