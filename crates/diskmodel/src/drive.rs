//! The drive: command queue, controller, buffer, write cache and arm, as a state machine driven by
//! timestamps.
//!
//! The drive has no task. Its owner submits commands with [`Drive::submit`], queries the
//! next completion with [`Drive::next_completion_check`], and calls [`Drive::advance`] at that
//! time. The events in between (destaging, read-ahead) are computed step by step in order of time,
//! without knowledge of later ones.
//!
//! - The *controller* processes commands one after another: overhead, and the bus transfer if the
//!   buffer or the cache serves the command. A command that needs the arm is *ready* after its
//!   overhead; the bus then works in parallel with the arm.
//! - The *arm* takes a ready command in the order of the [`Firmware`], unless the oldest one is of
//!   the age from which it goes first ([`STARVATION_TURNS`]).
//! - After a read the head continues with *read-ahead* until there is other work. A read of sectors
//!   that are about to enter the buffer waits for its last sector and costs no positioning.
//! - With the *volatile cache*, a write is acknowledged when its bytes have crossed the bus. Dirty
//!   extents are destaged in their own order when the drive is idle. They compete with the commands
//!   while the cache is above its high-water mark, a write waits for room, or a flush waits. Writes
//!   that wait for room enter the cache in the order of the firmware. A FUA write goes to the
//!   platter, and so does one that is larger than the cache.

mod arm;
mod read_ahead;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::buffer::ReadBuffer;
use crate::firmware::Firmware;
use crate::mechanics::Mechanics;
use crate::model::DiskModel;
use crate::overwritten::Extent;
use crate::platter::Track;
use crate::seek::nanos_from_ms;
use crate::stats::DriveStats;
use crate::write_cache::WriteCache;
use arm::Job;
use read_ahead::Fill;

/// Number of revolutions, per place of the queue, for which a command or flush may be passed over
/// before it goes first. First come, first served takes about one and a third each. The bound must
/// be above that: otherwise a queue that was once served in that order would never return to SPTF.
const STARVATION_TURNS: u64 = 3;

/// The action of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Read,
    Write {
        /// True if the data goes to the platter and not into the volatile cache.
        is_through: bool,
    },
    Flush,
}

/// A command to the drive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command {
    /// Tag by which the owner identifies the completed command.
    pub(super) tag: u32,
    pub(super) action: Action,
    pub(super) sector: u64,
    pub(super) sectors: u64,
}

impl Command {
    fn end(&self) -> u64 {
        self.sector + self.sectors
    }

    fn is_write(&self) -> bool {
        matches!(self.action, Action::Write { .. })
    }
}

/// A command that needs the arm.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    command: Command,
    arrived: u64,
    ready: u64,
}

/// A write that waits for room in the cache.
#[derive(Debug, Clone, Copy)]
struct Throttled {
    command: Command,
    arrived: u64,
}

/// A flush that waits for dirty extents.
#[derive(Debug, Clone, Copy)]
struct PendingFlush {
    tag: u32,
    arrived: u64,
    mark: u64,
}

/// Times of the controller and the bus in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Timing {
    read_hit: u64,
    read_miss: u64,
    write_hit: u64,
    write_miss: u64,
    bus_bytes_per_second: u64,
}

impl Timing {
    fn new(model: &DiskModel) -> Self {
        let overheads = model.overheads;
        Self {
            read_hit: nanos_from_ms(overheads.read_hit_ms).get(),
            read_miss: nanos_from_ms(overheads.read_miss_ms).get(),
            write_hit: nanos_from_ms(overheads.write_hit_ms).get(),
            write_miss: nanos_from_ms(overheads.write_miss_ms).get(),
            bus_bytes_per_second: model.bus_bytes_per_second,
        }
    }

    /// Returns the transfer time of some sectors on the bus.
    fn bus(&self, sectors: u64) -> u64 {
        sectors * 512 * 1_000_000_000 / self.bus_bytes_per_second
    }
}

/// A hard disk drive.
#[derive(Debug)]
pub(super) struct Drive {
    mechanics: Mechanics,
    timing: Timing,
    read_ahead: u64,
    queue_depth: u32,
    firmware: Firmware,
    /// Time for which a command or flush may be passed over.
    starvation: u64,
    /// Time up to which all events have been computed.
    clock: u64,
    /// Track under the head, or the track when the arm is free again.
    track: Track,
    /// Sector after the last access.
    position: u64,
    /// True if the last access was a destage.
    has_destaged_last: bool,
    /// Time at which the arm is free.
    arm_free: u64,
    job: Option<Job>,
    // Invariant: a fill exists only while there is no job.
    fill: Option<Fill>,
    controller_free: u64,
    // Invariant: in the order of arrival, and so of `ready`.
    waiting: Vec<Waiting>,
    /// Writes that wait for room in the cache, in the order of arrival.
    throttled: VecDeque<Throttled>,
    flushes: VecDeque<PendingFlush>,
    /// Completions by time; the second number orders those of one time.
    finished: BinaryHeap<Reverse<(u64, u64, u32)>>,
    finished_count: u64,
    outstanding: u32,
    cache: Option<WriteCache>,
    /// The extent of the cache on its way to the platters.
    destaging: Option<Extent>,
    /// Extents that were destaged since they were last taken; `None` if they are not recorded.
    destaged: Option<Vec<Extent>>,
    buffer: ReadBuffer,
    stats: DriveStats,
}

impl Drive {
    /// Creates a drive at rest at time zero, with the head over the first track.
    pub(super) fn new(model: &DiskModel) -> Self {
        let mechanics = Mechanics::new(model);
        let track = mechanics.platter.track_at(0);
        let queue_depth = model.queue_depth.max(1);
        let turn = mechanics.platter.revolution();
        let firmware = model.firmware;
        let starvation = firmware.age.map_or_else(
            || u64::from(queue_depth) * STARVATION_TURNS * turn,
            rt::Nanos::get,
        );
        Self {
            firmware,
            starvation,
            mechanics,
            timing: Timing::new(model),
            read_ahead: u64::from(model.buffer.read_ahead_sectors),
            queue_depth,
            clock: 0,
            track,
            position: 0,
            has_destaged_last: false,
            arm_free: 0,
            job: None,
            fill: None,
            controller_free: 0,
            waiting: Vec::new(),
            throttled: VecDeque::new(),
            flushes: VecDeque::new(),
            finished: BinaryHeap::new(),
            finished_count: 0,
            outstanding: 0,
            cache: model
                .has_write_cache
                .then(|| WriteCache::new(model.buffer.cache_sectors, model.buffer.write_segments)),
            destaging: None,
            destaged: None,
            buffer: ReadBuffer::new(model.buffer.segments, model.buffer.segment_sectors),
            stats: DriveStats::default(),
        }
    }

    /// Returns true if another command can be queued.
    pub(super) fn has_room(&self) -> bool {
        self.outstanding < self.queue_depth
    }

    /// Returns the number of outstanding commands.
    pub(super) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Returns the statistics up to a time.
    pub(super) fn stats(&mut self, now: u64) -> DriveStats {
        self.catch_up(now);
        self.stats
    }

    /// Starts to record the extents that are destaged.
    pub(super) fn record_destaged(&mut self) {
        self.destaged = Some(Vec::new());
    }

    /// Returns the extents that were destaged since the last call.
    pub(super) fn take_destaged(&mut self) -> Vec<Extent> {
        self.destaged
            .as_mut()
            .map(core::mem::take)
            .unwrap_or_default()
    }

    /// Returns the parts of an extent that a power cut would lose, in ascending order: those in the
    /// volatile cache, or on their way from there.
    pub(super) fn volatile_within(&self, (start, end): Extent) -> Vec<Extent> {
        let Some(cache) = &self.cache else {
            return Vec::new();
        };
        let mut parts = cache.dirty_within(start, end);
        if let Some((from, to)) = self.destaging {
            let moving = (start.max(from), end.min(to));
            parts.extend((moving.0 < moving.1).then_some(moving));
        }
        parts.sort_unstable();
        parts
    }

    /// Accepts a command.
    pub(super) fn submit(&mut self, now: u64, command: Command) {
        self.catch_up(now);
        self.outstanding += 1;
        match command.action {
            Action::Read => self.submit_read(now, command),
            Action::Write { is_through } => self.submit_write(now, command, is_through),
            Action::Flush => self.submit_flush(now, command),
        }
    }

    /// Computes all events up to a time, and appends the tags of completed commands to `done`, in
    /// order.
    pub(super) fn advance(&mut self, now: u64, done: &mut Vec<u32>) {
        self.catch_up(now);
        while let Some(Reverse((at, _, tag))) = self.finished.peek().copied() {
            if at > now {
                break;
            }
            self.finished.pop();
            self.outstanding -= 1;
            done.push(tag);
        }
    }

    /// Returns the time at which to call [`Self::advance`]: no command completes earlier. Returns
    /// `None` if none is outstanding.
    pub(super) fn next_completion_check(&self) -> Option<u64> {
        let finished = self.finished.peek().map(|Reverse((at, _, _))| *at);
        let is_awaited =
            !(self.waiting.is_empty() && self.throttled.is_empty() && self.flushes.is_empty());
        let step = if is_awaited { self.next_step() } else { None };
        finished.into_iter().chain(step).min()
    }

    /// Occupies the controller for a time. Returns the time at which it is done.
    fn occupy_controller(&mut self, now: u64, time: u64) -> u64 {
        self.controller_free = self.controller_free.max(now) + time;
        self.controller_free
    }

    fn finish(&mut self, at: u64, tag: u32) {
        self.finished_count += 1;
        self.finished.push(Reverse((at, self.finished_count, tag)));
    }

    fn submit_read(&mut self, now: u64, command: Command) {
        let (start, end) = (command.sector, command.end());
        let is_dirty = self
            .cache
            .as_ref()
            .is_some_and(|cache| cache.serves(start, end));
        let buffered = if is_dirty {
            Some(now)
        } else {
            self.buffered_when(now, start, end)
        };
        match buffered {
            Some(ready) => {
                let bus = self.timing.bus(command.sectors);
                let sent = self.occupy_controller(now, self.timing.read_hit + bus);
                self.stats.read_hits += 1;
                self.finish(sent.max(ready + self.timing.bus(1)), command.tag);
            }
            None => self.queue_for_arm(now, command, self.timing.read_miss),
        }
    }

    fn submit_write(&mut self, now: u64, command: Command, is_through: bool) {
        self.forget_read(now, command.sector, command.end());
        let can_hold = self
            .cache
            .as_ref()
            .is_some_and(|cache| cache.can_hold(command.sectors));
        if is_through || !can_hold {
            self.queue_for_arm(now, command, self.timing.write_miss);
            return;
        }
        self.throttled.push_back(Throttled {
            command,
            arrived: now,
        });
        self.admit_writes(now);
        if !self.throttled.is_empty() {
            self.stats.throttled_writes += 1;
        }
    }

    /// Admits waiting writes into the cache while there is room, in the order of the firmware.
    fn admit_writes(&mut self, now: u64) {
        while let Some(index) = self.next_admitted(now) {
            let Some(Throttled { command, .. }) = self.throttled.remove(index) else {
                return;
            };
            if let Some(cache) = &mut self.cache {
                cache.insert(command.sector, command.end());
            }
            let time = self.timing.write_hit + self.timing.bus(command.sectors);
            let sent = self.occupy_controller(now, time);
            self.stats.cached_writes += 1;
            self.finish(sent, command.tag);
        }
    }

    fn submit_flush(&mut self, now: u64, command: Command) {
        let sent = self.occupy_controller(now, self.timing.read_hit);
        let mark = self.cache.as_ref().map_or(0, WriteCache::mark);
        if self.is_clean_before(mark) {
            self.finish(sent, command.tag);
        } else {
            self.flushes.push_back(PendingFlush {
                tag: command.tag,
                arrived: now,
                mark,
            });
        }
    }

    /// Completes the flushes that wait for no dirty extent any more.
    fn finish_flushes(&mut self, now: u64) {
        while let Some(flush) = self.flushes.front().copied() {
            if !self.is_clean_before(flush.mark) {
                break;
            }
            self.flushes.pop_front();
            self.finish(now, flush.tag);
        }
    }

    fn is_clean_before(&self, mark: u64) -> bool {
        self.cache
            .as_ref()
            .is_none_or(|cache| cache.is_clean_before(mark))
    }

    fn queue_for_arm(&mut self, now: u64, command: Command, overhead: u64) {
        let ready = self.occupy_controller(now, overhead);
        self.waiting.push(Waiting {
            command,
            arrived: now,
            ready,
        });
    }

    /// Computes all events up to a time.
    fn catch_up(&mut self, now: u64) {
        assert!(self.clock <= now, "time does not run backwards");
        while let Some(at) = self.next_step() {
            if at > now {
                break;
            }
            self.clock = at;
            self.step(at);
        }
        self.clock = now;
    }

    /// Returns the time of the arm's next step: the end of its job, or the start of one.
    fn next_step(&self) -> Option<u64> {
        if self.job.is_some() {
            return Some(self.arm_free);
        }
        let free = self.arm_free.max(self.clock);
        if self.must_destage() {
            return Some(free);
        }
        if let Some(first) = self.waiting.first() {
            return Some(free.max(first.ready));
        }
        let is_dirty = self.cache.as_ref().is_some_and(WriteCache::is_dirty);
        is_dirty.then(|| self.fill.as_ref().map_or(free, |fill| free.max(fill.ends)))
    }

    /// Returns true if dirty extents compete with the commands.
    fn must_destage(&self) -> bool {
        self.cache.as_ref().is_some_and(|cache| {
            let is_pressed = cache.is_above_high_water()
                || !self.throttled.is_empty()
                || !self.flushes.is_empty();
            cache.is_dirty() && is_pressed
        })
    }

    fn step(&mut self, at: u64) {
        if let Some(job) = self.job.take() {
            self.end_job(at, job);
        } else {
            self.begin_something(at);
        }
    }
}

#[cfg(test)]
mod tests;
