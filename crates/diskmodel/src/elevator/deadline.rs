//! The deadline elevator of Linux 2.6 (J. Axboe, "Deadline I/O scheduler tunables", kernel
//! documentation): batches in ascending order of sectors within one direction, reads first.
//!
//! A batch starts at the end of the last one, or at the oldest request of its direction if that has
//! expired. Reads may go first [`WRITES_STARVED`] times while writes wait.

use std::collections::{BTreeSet, VecDeque};

use super::{Class, Id, Requests};

/// Age at which a request starts the next batch of its direction, in nanoseconds: reads, writes.
const EXPIRY: [u64; 2] = [500_000_000, 5_000_000_000];

/// Number of requests in a batch.
const FIFO_BATCH: u32 = 16;

/// Number of read batches that may go before waiting writes.
const WRITES_STARVED: u32 = 2;

const READ: usize = 0;
const WRITE: usize = 1;

#[derive(Debug, Default)]
pub(super) struct Deadline {
    /// By first sector.
    sorted: [BTreeSet<(u64, Id)>; 2],
    /// Requests in the order of arrival; some have left.
    queues: [VecDeque<Id>; 2],
    /// Direction of the running batch.
    direction: usize,
    /// Number of requests that the running batch may still take.
    left: u32,
    position: u64,
    /// Number of read batches that have gone before waiting writes.
    starved: u32,
}

impl Deadline {
    pub(super) fn add(&mut self, id: Id, class: Class, start: u64) {
        self.sorted[class.direction()].insert((start, id));
        self.queues[class.direction()].push_back(id);
    }

    pub(super) fn restart(&mut self, id: Id, class: Class, old: u64, new: u64) {
        let sorted = &mut self.sorted[class.direction()];
        sorted.remove(&(old, id));
        sorted.insert((new, id));
    }

    pub(super) fn remove(&mut self, id: Id, class: Class, start: u64) {
        self.sorted[class.direction()].remove(&(start, id));
    }

    pub(super) fn next<P>(&mut self, now: u64, requests: &Requests<P>) -> Option<Id> {
        let ahead = self.ahead().filter(|_| self.left > 0);
        let id = match ahead {
            Some(id) => id,
            None => self.begin_batch(now, requests)?,
        };
        self.left -= 1;
        self.position = requests[&id].end;
        Some(id)
    }

    /// Returns the next request of the running direction in the order of sectors.
    fn ahead(&self) -> Option<Id> {
        self.sorted[self.direction]
            .range((self.position, 0)..)
            .next()
            .map(|(_, id)| *id)
    }

    fn begin_batch<P>(&mut self, now: u64, requests: &Requests<P>) -> Option<Id> {
        let has_writes = !self.sorted[WRITE].is_empty();
        let is_writes_turn = has_writes && self.starved >= WRITES_STARVED;
        let takes_writes = is_writes_turn || self.sorted[READ].is_empty();
        self.direction = if takes_writes { WRITE } else { READ };
        self.starved = if self.direction == READ && has_writes {
            self.starved + 1
        } else {
            0
        };
        self.left = FIFO_BATCH;
        let oldest = self.oldest(requests)?;
        let is_expired = requests[&oldest].arrived + EXPIRY[self.direction] <= now;
        Some(if is_expired {
            oldest
        } else {
            self.ahead().unwrap_or(oldest)
        })
    }

    fn oldest<P>(&mut self, requests: &Requests<P>) -> Option<Id> {
        let queue = &mut self.queues[self.direction];
        while queue.front().is_some_and(|id| !requests.contains_key(id)) {
            queue.pop_front();
        }
        queue.front().copied()
    }
}
