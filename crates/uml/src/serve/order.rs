//! [`Order`]: the requests of a disk that are in flight, and those that wait for them.
//!
//! [`BlockDevice`](block::BlockDevice) forbids its callers two requests in flight on one sector,
//! one of them a write. A guest may send them: of those that conflict, the later one waits until
//! the earlier one is complete.

use std::collections::BTreeMap;

use block::Request;

use crate::disk::Pending;

/// Requests by their number, which is their order.
#[derive(Default)]
pub(super) struct Order {
    next: u64,
    started: BTreeMap<u64, Touched>,
    waiting: BTreeMap<u64, Start>,
}

/// A request that may start.
pub(super) struct Start {
    pub(super) number: u64,
    pub(super) pending: Pending,
    pub(super) request: Option<Request>,
}

/// The sectors of a request.
#[derive(Clone, Copy, Default)]
struct Touched {
    first: u64,
    end: u64,
    is_write: bool,
}

impl Touched {
    fn of(request: Option<&Request>) -> Self {
        let Some(request) = request else {
            return Self::default();
        };
        let (first, sectors) = request.range();
        Self {
            first: first.get(),
            end: first.get().saturating_add(sectors),
            is_write: request.is_write(),
        }
    }

    fn conflicts(self, other: Self) -> bool {
        (self.is_write || other.is_write) && self.first < other.end && other.first < self.end
    }
}

impl Order {
    /// Adds a request behind all others.
    pub(super) fn add(&mut self, pending: Pending, request: Option<Request>) {
        let number = self.next;
        self.next += 1;
        let start = Start {
            number,
            pending,
            request,
        };
        self.waiting.insert(number, start);
    }

    /// Returns the requests that conflict with no earlier one; they count as started.
    pub(super) fn start(&mut self) -> Vec<Start> {
        let mut earlier: Vec<Touched> = self.started.values().copied().collect();
        let mut free = Vec::new();
        for (number, start) in &self.waiting {
            let touched = Touched::of(start.request.as_ref());
            if !earlier.iter().any(|other| touched.conflicts(*other)) {
                free.push((*number, touched));
            }
            earlier.push(touched);
        }
        free.into_iter()
            .filter_map(|(number, touched)| {
                self.started.insert(number, touched);
                self.waiting.remove(&number)
            })
            .collect()
    }

    /// Notes that a started request is complete.
    pub(super) fn complete(&mut self, number: u64) {
        self.started.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use layout::{Block, SectorNr};

    use super::*;

    fn write(sector: u64, sectors: usize) -> Option<Request> {
        Some(Request::Write {
            sector: SectorNr::new(sector),
            payload: vec![Block::zeroed(sectors * 512).into_arc()],
            force_unit_access: false,
        })
    }

    fn read(sector: u64, blocks: u32) -> Option<Request> {
        Some(Request::Read {
            sector: SectorNr::new(sector),
            blocks,
            block_bytes: 512,
        })
    }

    fn started(order: &mut Order) -> Vec<u64> {
        order.start().iter().map(|start| start.number).collect()
    }

    #[test]
    fn conflicting_requests_keep_their_order() {
        let mut order = Order::default();
        for request in [
            write(0, 8),
            read(7, 1),
            write(8, 8),
            read(0, 16),
            write(7, 1),
            Some(Request::Flush),
            read(u64::MAX, 1),
            None,
        ] {
            order.add(Pending::default(), request);
        }
        assert_eq!(started(&mut order), [0, 2, 5, 6, 7]);
        assert_eq!(started(&mut order), [0; 0]);
        order.complete(0);
        // The second read waits for the write beside it, and the last write for both reads.
        assert_eq!(started(&mut order), [1]);
        order.complete(2);
        assert_eq!(started(&mut order), [3]);
        order.complete(1);
        assert_eq!(started(&mut order), [0; 0]);
        order.complete(3);
        assert_eq!(started(&mut order), [4]);
    }

    #[test]
    fn reads_share_sectors() {
        let mut order = Order::default();
        order.add(Pending::default(), read(0, 8));
        order.add(Pending::default(), read(4, 8));
        assert_eq!(started(&mut order), [0, 1]);
    }
}
