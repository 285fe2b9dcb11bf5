//! The host's elevator: the queue in front of the drive, in which requests are merged and sorted.
//!
//! Merging looks for a request of the same class that ends where the new one starts, or starts
//! where it ends, and joins the two up to a limit; a merge that closes a gap joins three. One of
//! four schedulers determines the order in which requests leave:
//!
//! - [`Elevator::Linux24`]: a list of ascending sweeps, with a bound on the number of later blocks
//!   that may pass a request (`linux24.rs`);
//! - [`Elevator::Cscan`]: sweeps from the arm's position on, with the same bound (`cscan.rs`);
//! - [`Elevator::Deadline`]: batches in ascending order, reads before writes, with a bound on time
//!   (`deadline.rs`);
//! - [`Elevator::Noop`]: first come, first served.
//!
//! Look-ups for merging use ordered maps, at O(log n) for each step of a request.

mod cscan;
mod deadline;
mod linux24;
mod noop;

use std::collections::BTreeMap;
use std::fmt;

use cscan::Cscan;
use deadline::Deadline;
use linux24::Linux24;
use noop::Noop;

/// Number of requests of one direction that must leave a full queue of Linux 2.6 before its waiters
/// are woken.
const WAKE_BATCH: u32 = 32;

/// Sectors of a block, the unit in which arrivals are counted.
const BLOCK_SECTORS: u64 = 8;

/// The schedulers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Elevator {
    /// The elevator of Linux 2.4.
    #[default]
    Linux24,
    /// A circular scan.
    Cscan,
    /// The deadline elevator of Linux 2.6.
    Deadline,
    /// First come, first served, with merging.
    Noop,
}

impl Elevator {
    /// Returns the elevator with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Linux24, Self::Cscan, Self::Deadline, Self::Noop]
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linux24 => "linux24",
            Self::Cscan => "cscan",
            Self::Deadline => "deadline",
            Self::Noop => "noop",
        }
    }

    /// Returns the number of requests of each direction that the queue holds before `submit`
    /// blocks. Linux 2.4.18 had 128 for a queue, half for reads and half for writes; Linux 2.6 has
    /// 128 for each.
    fn requests_max(self) -> u32 {
        match self {
            Self::Linux24 | Self::Cscan => 64,
            Self::Deadline | Self::Noop => 128,
        }
    }

    /// Returns the maximum length of a merged request in sectors.
    pub(super) fn sectors_max(self) -> u64 {
        match self {
            Self::Linux24 | Self::Cscan => 255,
            Self::Deadline | Self::Noop => 1_024,
        }
    }

    /// Returns the number of requests of one direction that must leave a full queue of this length
    /// before its waiters are woken. Linux 2.4 wakes them when a quarter of all its requests, of
    /// which a direction has half, are free.
    fn wake_batch(self, requests_max: u32) -> u32 {
        match self {
            Self::Linux24 | Self::Cscan => requests_max / 2,
            Self::Deadline | Self::Noop => WAKE_BATCH,
        }
    }
}

impl fmt::Display for Elevator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An elevator and the length of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queueing {
    /// Order in which requests leave.
    pub elevator: Elevator,
    /// Maximum number of requests of each direction, within [`Queueing::LENGTHS`].
    pub requests_max: u32,
    /// Weight of the writes that a new read may wait for in the list of [`Elevator::Linux24`]: its
    /// `max_bomb_segments`. 0 is no bound.
    pub bomb_max: u32,
}

impl Queueing {
    /// Allowed lengths of a queue: waiters are woken when a batch of requests has left.
    pub const LENGTHS: std::ops::RangeInclusive<u32> = WAKE_BATCH..=65_536;

    /// Returns the number of requests of each direction that a kernel of 2002 gives a queue on a
    /// host with this memory: half of one for each half MiB that is free when it starts, in steps
    /// of 16 up to 1024 (and at least [`Self::LENGTHS`] here).
    ///
    /// Source: drivers/block/ll_rw_blk.c of Linux 2.4.18-14 (Red Hat), `blk_dev_init`. 2.4.18
    /// itself has 128 requests for more than 32 MiB. A fortieth of the memory is taken before: 60
    /// bytes for each page of 4 KiB, and the rest by the kernel and its hash tables.
    pub fn requests_of_memory(bytes: u64) -> u32 {
        let free = bytes - bytes / 40;
        let slots = free >> 19 & !15;
        let slots = u32::try_from(slots).unwrap_or(u32::MAX);
        slots.clamp(2 * WAKE_BATCH, 1_024) / 2
    }
}

impl From<Elevator> for Queueing {
    /// Creates a queue with that elevator's default length.
    fn from(elevator: Elevator) -> Self {
        Self {
            elevator,
            requests_max: elevator.requests_max(),
            bomb_max: 0,
        }
    }
}

impl Default for Queueing {
    fn default() -> Self {
        Self::from(Elevator::default())
    }
}

/// Classes of requests; only equal classes are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Read,
    Write,
    /// A FUA write.
    Through,
}

impl Class {
    /// Returns 0 for reads, 1 for writes.
    fn direction(self) -> usize {
        match self {
            Self::Read => 0,
            Self::Write | Self::Through => 1,
        }
    }
}

/// A request of the queue, merged from pieces of the host's requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IoRequest<P> {
    pub(super) class: Class,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) pieces: Vec<P>,
    /// Arrival time of its first piece in nanoseconds.
    arrived: u64,
    /// Number of blocks that had arrived before.
    arrivals_before: u64,
}

/// Number of a request; later requests have greater ones.
type Id = u64;

/// Requests by number, oldest first.
type Requests<P> = BTreeMap<Id, IoRequest<P>>;

/// The queue.
#[derive(Debug)]
pub(super) struct HostQueue<P> {
    requests: Requests<P>,
    next_id: Id,
    /// Number of blocks that have arrived.
    arrivals: u64,
    /// Number of requests of each direction.
    counts: [u32; 2],
    requests_max: u32,
    wake_batch: u32,
    sectors_max: u64,
    by_start: BTreeMap<(Class, u64), Id>,
    by_end: BTreeMap<(Class, u64), Id>,
    order: Order,
}

#[derive(Debug)]
enum Order {
    Linux24(Linux24),
    Cscan(Cscan),
    Deadline(Deadline),
    Noop(Noop),
}

impl<P> HostQueue<P> {
    pub(super) fn new(queueing: Queueing) -> Self {
        let kind = queueing.elevator;
        Self {
            requests: BTreeMap::new(),
            next_id: 0,
            arrivals: 0,
            counts: [0; 2],
            requests_max: queueing.requests_max,
            wake_batch: kind.wake_batch(queueing.requests_max),
            sectors_max: kind.sectors_max(),
            by_start: BTreeMap::new(),
            by_end: BTreeMap::new(),
            order: match kind {
                Elevator::Linux24 => Order::Linux24(Linux24::new(queueing.bomb_max)),
                Elevator::Cscan => Order::Cscan(Cscan::default()),
                Elevator::Deadline => Order::Deadline(Deadline::default()),
                Elevator::Noop => Order::Noop(Noop::default()),
            },
        }
    }

    /// Returns the number of requests.
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns true if a request that does not merge can be added.
    pub(super) fn has_room(&self, class: Class) -> bool {
        self.counts[class.direction()] < self.requests_max
    }

    /// Returns true if enough requests have left to wake the waiters.
    pub(super) fn has_room_for_waiters(&self) -> bool {
        self.counts
            .iter()
            .all(|count| *count <= self.requests_max - self.wake_batch)
    }

    /// Merges a piece with a request of the queue, or returns it.
    pub(super) fn merge(&mut self, class: Class, start: u64, end: u64, piece: P) -> Result<(), P> {
        let length = end - start;
        let fits =
            |request: &IoRequest<P>| request.end - request.start + length <= self.sectors_max;
        let find = |index: &BTreeMap<(Class, u64), Id>, at: u64| {
            index
                .get(&(class, at))
                .copied()
                .filter(|id| fits(&self.requests[id]))
        };
        if let Some(id) = find(&self.by_end, start) {
            self.arrivals += blocks(length);
            self.grow_back(id, end, vec![piece]);
            self.close_gap(id);
            return Ok(());
        }
        if let Some(id) = find(&self.by_start, end) {
            self.arrivals += blocks(length);
            self.grow_front(id, start, piece);
            return Ok(());
        }
        Err(piece)
    }

    /// Adds a request that did not merge.
    ///
    /// # Panics
    /// Panics if there is no room.
    pub(super) fn add(&mut self, now: u64, class: Class, start: u64, end: u64, piece: P) {
        assert!(self.has_room(class), "the caller waits for room");
        let id = self.next_id;
        self.next_id += 1;
        let arrivals_before = self.arrivals;
        self.arrivals += blocks(end - start);
        self.counts[class.direction()] += 1;
        self.by_start.insert((class, start), id);
        self.by_end.insert((class, end), id);
        match &mut self.order {
            Order::Linux24(order) => order.add(id, class, start, arrivals_before, &self.requests),
            Order::Cscan(order) => order.add(id, class, start, arrivals_before, &self.requests),
            Order::Deadline(order) => order.add(id, class, start),
            Order::Noop(order) => order.add(id),
        }
        let pieces = vec![piece];
        let request = IoRequest {
            class,
            start,
            end,
            pieces,
            arrived: now,
            arrivals_before,
        };
        self.requests.insert(id, request);
    }

    /// Takes the next request.
    pub(super) fn take(&mut self, now: u64) -> Option<IoRequest<P>> {
        let id = match &mut self.order {
            Order::Linux24(order) => order.next(),
            Order::Cscan(order) => order.next(&self.requests),
            Order::Deadline(order) => order.next(now, &self.requests),
            Order::Noop(order) => order.next(&self.requests),
        }?;
        Some(self.remove(id))
    }

    fn remove(&mut self, id: Id) -> IoRequest<P> {
        let request = self
            .requests
            .remove(&id)
            .expect("the request is in the queue");
        self.counts[request.class.direction()] -= 1;
        unlist(&mut self.by_start, (request.class, request.start), id);
        unlist(&mut self.by_end, (request.class, request.end), id);
        match &mut self.order {
            Order::Linux24(order) => order.remove(id),
            Order::Cscan(order) => order.remove(id, request.start),
            Order::Deadline(order) => order.remove(id, request.class, request.start),
            Order::Noop(_) => {}
        }
        request
    }

    fn grow_back(&mut self, id: Id, end: u64, pieces: Vec<P>) {
        let request = self
            .requests
            .get_mut(&id)
            .expect("the request is in the queue");
        unlist(&mut self.by_end, (request.class, request.end), id);
        request.end = end;
        request.pieces.extend(pieces);
        self.by_end.insert((request.class, end), id);
    }

    fn grow_front(&mut self, id: Id, start: u64, piece: P) {
        let request = self
            .requests
            .get_mut(&id)
            .expect("the request is in the queue");
        let (class, old) = (request.class, request.start);
        request.start = start;
        request.pieces.push(piece);
        unlist(&mut self.by_start, (class, old), id);
        self.by_start.insert((class, start), id);
        match &mut self.order {
            Order::Linux24(order) => order.restart(id, start),
            Order::Cscan(order) => order.restart(id, old, start),
            Order::Deadline(order) => order.restart(id, class, old, start),
            Order::Noop(_) => {}
        }
    }

    /// Joins a request with the one that starts at its end, if there is one and the sum fits the
    /// limit.
    fn close_gap(&mut self, id: Id) {
        let (class, start, end) = {
            let request = &self.requests[&id];
            (request.class, request.start, request.end)
        };
        let Some(next) = self.by_start.get(&(class, end)).copied() else {
            return;
        };
        if next == id || self.requests[&next].end - start > self.sectors_max {
            return;
        }
        let next = self.remove(next);
        self.grow_back(id, next.end, next.pieces);
    }
}

/// Returns the number of blocks in a piece of this many sectors.
fn blocks(sectors: u64) -> u64 {
    sectors.div_ceil(BLOCK_SECTORS)
}

/// Removes an entry if it still belongs to the request; another request may have replaced it.
fn unlist(index: &mut BTreeMap<(Class, u64), Id>, key: (Class, u64), id: Id) {
    if index.get(&key) == Some(&id) {
        index.remove(&key);
    }
}

#[cfg(test)]
mod tests;
