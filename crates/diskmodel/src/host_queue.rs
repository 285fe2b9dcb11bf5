//! The layer between the host's requests and the drive: the plug, the elevator, and the commands in
//! progress.
//!
//! *Plugging.* A request to an idle device stays in the elevator for a while, so that later ones
//! can merge with it. The queue is unplugged when a ticket of the device is waited for, when a
//! flush or FUA write arrives, when there are [`UNPLUG_COUNT`] requests or one direction is full,
//! and [`UNPLUG_NANOS`] after it was plugged. While the drive is busy nothing is plugged: requests
//! leave as soon as the drive has room.
//!
//! A *flush* bypasses the elevator: it covers only completed writes, which are in the drive.

use std::collections::VecDeque;

use block::Request;

use crate::batch::Piece;
use crate::drive::{Action, Command, Drive};
use crate::elevator::{Class, HostQueue, IoRequest, Queueing};
use crate::model::DiskModel;
use crate::overwritten::Extent;
use crate::stats::DiskStats;

/// Number of requests that unplugs the queue.
const UNPLUG_COUNT: usize = 32;

/// Time after which the queue unplugs itself.
const UNPLUG_NANOS: u64 = 3_000_000;

/// The queue and the drive of one device.
pub(super) struct Queue {
    elevator: HostQueue<Piece>,
    sectors_max: u64,
    flushes: VecDeque<Piece>,
    drive: Drive,
    /// Pieces of the commands in progress, by tag.
    sent: Vec<Vec<Piece>>,
    free_tags: Vec<u32>,
    /// Time at which the queue unplugs itself, if it is plugged.
    plugged_until: Option<u64>,
    /// True if tasks wait for room.
    pub(super) has_room_waiters: bool,
    stats: DiskStats,
}

impl Queue {
    pub(super) fn new(model: &DiskModel, queueing: Queueing) -> Self {
        Self {
            elevator: HostQueue::new(queueing),
            // Whole pages, so that a long request is split at page boundaries.
            sectors_max: queueing.elevator.sectors_max() / 8 * 8,
            flushes: VecDeque::new(),
            drive: Drive::new(model),
            sent: Vec::new(),
            free_tags: Vec::new(),
            plugged_until: None,
            has_room_waiters: false,
            stats: DiskStats::default(),
        }
    }

    /// Returns the statistics up to a time.
    pub(super) fn stats(&mut self, now: u64) -> DiskStats {
        self.stats.drive = self.drive.stats(now);
        self.stats.clone()
    }

    /// Starts to record the extents that leave the drive's cache.
    pub(super) fn record_destaged(&mut self) {
        self.drive.record_destaged();
    }

    /// Returns the extents that have left the drive's cache since the last call.
    pub(super) fn take_destaged(&mut self) -> Vec<Extent> {
        self.drive.take_destaged()
    }

    /// Returns the parts of an extent that a power cut would lose.
    pub(super) fn volatile_within(&self, extent: Extent) -> Vec<Extent> {
        self.drive.volatile_within(extent)
    }

    /// Counts a request of the host.
    pub(super) fn count(&mut self, request: &Request) {
        self.stats.count(request);
        let length = self.elevator.len() as u64 + u64::from(self.drive.outstanding());
        self.stats.queue_length.record(length);
    }

    /// Counts a wait for room.
    pub(super) fn count_submit_wait(&mut self) {
        self.stats.submit_waits += 1;
    }

    /// Adds a piece of a read or write, or returns it if there is no room.
    pub(super) fn add(
        &mut self,
        now: u64,
        class: Class,
        start: u64,
        end: u64,
        piece: Piece,
    ) -> Result<(), Piece> {
        let piece = match self.elevator.merge(class, start, end, piece) {
            Ok(()) => {
                self.stats.merged += 1;
                return Ok(());
            }
            Err(piece) => piece,
        };
        if !self.elevator.has_room(class) {
            return Err(piece);
        }
        let is_idle = self.elevator.len() == 0 && self.drive.outstanding() == 0;
        self.elevator.add(now, class, start, end, piece);
        if is_idle && self.plugged_until.is_none() {
            self.plugged_until = Some(now + UNPLUG_NANOS);
        }
        if class == Class::Through || self.elevator.len() >= UNPLUG_COUNT {
            self.plugged_until = None;
        }
        Ok(())
    }

    /// Adds a flush.
    pub(super) fn add_flush(&mut self, piece: Piece) {
        self.flushes.push_back(piece);
        self.plugged_until = None;
    }

    /// Unplugs the queue. Returns true if it was plugged.
    pub(super) fn unplug(&mut self) -> bool {
        self.plugged_until.take().is_some()
    }

    pub(super) fn is_plugged(&self) -> bool {
        self.plugged_until.is_some()
    }

    /// Returns true if there is a request for the drive and room in it.
    pub(super) fn can_send(&self) -> bool {
        let has_request = self.elevator.len() > 0 && self.plugged_until.is_none();
        self.drive.has_room() && (has_request || !self.flushes.is_empty())
    }

    /// Returns true if the waiters for room are to be woken now; clears the flag.
    pub(super) fn takes_waiters(&mut self) -> bool {
        let is_time = self.has_room_waiters && self.elevator.has_room_for_waiters();
        self.has_room_waiters &= !is_time;
        is_time
    }

    /// Appends the pieces completed at a time to `done`, submits requests to the drive, and returns
    /// the time of the next call.
    pub(super) fn turn(&mut self, now: u64, done: &mut Vec<Piece>) -> Option<u64> {
        let mut tags = Vec::new();
        loop {
            self.drive.advance(now, &mut tags);
            for tag in tags.drain(..) {
                let pieces = core::mem::take(&mut self.sent[tag as usize]);
                self.free_tags.push(tag);
                for piece in &pieces {
                    self.stats.request_nanos.record(now - piece.submitted);
                }
                done.extend(pieces);
            }
            if self.plugged_until.is_some_and(|until| until <= now) {
                self.plugged_until = None;
            }
            self.send(now);
            let check = self.drive.next_completion_check();
            if check.is_none_or(|at| at > now) {
                return check.into_iter().chain(self.plugged_until).min();
            }
        }
    }

    /// Submits as many requests as the drive has room for.
    fn send(&mut self, now: u64) {
        while self.drive.has_room() {
            if let Some(flush) = self.flushes.pop_front() {
                self.command(now, Action::Flush, 0, 0, vec![flush]);
                continue;
            }
            if self.plugged_until.is_some() {
                return;
            }
            let Some(request) = self.elevator.take(now) else {
                return;
            };
            let IoRequest {
                class,
                start,
                end,
                pieces,
                ..
            } = request;
            let action = match class {
                Class::Read => Action::Read,
                Class::Write => Action::Write { is_through: false },
                Class::Through => Action::Write { is_through: true },
            };
            self.command(now, action, start, end - start, pieces);
        }
    }

    fn command(&mut self, now: u64, action: Action, sector: u64, sectors: u64, pieces: Vec<Piece>) {
        let tag = self.free_tags.pop().unwrap_or_else(|| {
            self.sent.push(Vec::new());
            u32::try_from(self.sent.len() - 1).expect("the drive's queue is short")
        });
        self.sent[tag as usize] = pieces;
        self.stats.commands += 1;
        self.drive.submit(
            now,
            Command {
                tag,
                action,
                sector,
                sectors,
            },
        );
    }

    /// Returns the maximum length of a piece in the elevator in sectors.
    pub(super) fn sectors_max(&self) -> u64 {
        self.sectors_max
    }
}
