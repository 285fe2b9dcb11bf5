//! The elevator of Linux 2.4: one list, from whose head the driver takes.
//!
//! A new request is placed by a scan from the tail: behind the first request it lies behind, if it
//! also lies before the next one, or if the next one starts another sweep. So the list is a series
//! of ascending sweeps, and a request joins the last one that it fits into; if there is none, it
//! goes to the tail.
//!
//! Each request may be passed by [`READ_LATENCY`] or [`WRITE_LATENCY`] later blocks, merged or not.
//! After that no request is placed before it; blocks still merge with requests there. (The kernel
//! does not count a block that merges behind the request.)
//!
//! With `bomb_max`, a read that does not merge waits for no more than a few writes: it is placed
//! behind the write at which their weights, from the head on, reach that number, unless its sorted
//! place comes first. A write weighs 1, and 1 more for each 64 sectors.
//!
//! Source: drivers/block/elevator.c of Linux 2.4.18-14 (Red Hat), `bh_rq_in_between` and
//! `elevator_linus_merge`, with `max_bomb_segments` 6; 2.4.18 itself does not use that number.

use std::collections::VecDeque;

use super::{Class, Id, Requests};

/// Number of blocks that may pass a read.
pub(super) const READ_LATENCY: u64 = 8_192;

/// Number of blocks that may pass a write.
pub(super) const WRITE_LATENCY: u64 = 16_384;

/// Sectors for which a write weighs 1 more.
const WEIGHT_SECTORS: u64 = 64;

#[derive(Debug)]
pub(super) struct Linux24 {
    list: VecDeque<Entry>,
    /// Weight of the writes that a read may wait for; 0 for any.
    bomb_max: u64,
}

#[derive(Debug)]
struct Entry {
    id: Id,
    start: u64,
    is_write: bool,
    /// Number of arrived blocks from which on no request is placed before this one.
    expires: u64,
}

impl Linux24 {
    pub(super) fn new(bomb_max: u32) -> Self {
        Self {
            list: VecDeque::new(),
            bomb_max: u64::from(bomb_max),
        }
    }

    /// Adds a request, after the given number of blocks have arrived.
    pub(super) fn add<P>(
        &mut self,
        id: Id,
        class: Class,
        start: u64,
        arrivals: u64,
        requests: &Requests<P>,
    ) {
        let is_write = class != Class::Read;
        let mut place = self.sorted_place(start, arrivals);
        if !is_write && self.bomb_max > 0 {
            place = self.place_before_writes(place, requests);
        }
        let latency = if is_write {
            WRITE_LATENCY
        } else {
            READ_LATENCY
        };
        let entry = Entry {
            id,
            start,
            is_write,
            expires: arrivals + latency,
        };
        self.list.insert(place, entry);
    }

    /// Returns the index of a new request: behind the last pair that it lies between.
    fn sorted_place(&self, start: u64, arrivals: u64) -> usize {
        let mut next: Option<&Entry> = None;
        for (index, entry) in self.list.iter().enumerate().rev() {
            if arrivals >= entry.expires {
                break;
            }
            if let Some(next) = next {
                let is_sorted = entry.start < next.start;
                let (is_behind, is_before) = (start > entry.start, start < next.start);
                if is_behind && is_before || !is_sorted && (is_behind || is_before) {
                    return index + 1;
                }
            }
            next = Some(entry);
        }
        self.list.len()
    }

    /// Returns the index of a read: `sorted`, or one behind fewer writes.
    fn place_before_writes<P>(&self, sorted: usize, requests: &Requests<P>) -> usize {
        let mut weight = 0;
        for (index, entry) in self.list.iter().take(sorted).enumerate() {
            if entry.is_write {
                let request = &requests[&entry.id];
                weight += 1 + (request.end - request.start) / WEIGHT_SECTORS;
                if weight >= self.bomb_max {
                    return index + 1;
                }
            }
        }
        sorted
    }

    /// Notes that a request now starts at another sector. It keeps its place.
    pub(super) fn restart(&mut self, id: Id, start: u64) {
        let entry = self.list.iter_mut().find(|entry| entry.id == id);
        entry.expect("the request is in the list").start = start;
    }

    pub(super) fn remove(&mut self, id: Id) {
        let place = self.list.iter().position(|entry| entry.id == id);
        self.list.remove(place.expect("the request is in the list"));
    }

    pub(super) fn next(&self) -> Option<Id> {
        self.list.front().map(|entry| entry.id)
    }
}
