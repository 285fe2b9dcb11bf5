//! Circular scan: requests in ascending order of sectors from the arm's position on, and then again
//! from the start, with a bound on the number of times that a request may be passed.
//!
//! Each request may be passed by as many arrivals as in [`super::linux24`]. After that no request
//! joins the running sweep: new ones wait for the next.

use std::collections::{BTreeSet, VecDeque};

use super::linux24::{READ_LATENCY, WRITE_LATENCY};
use super::{Class, Id, Requests};

#[derive(Debug, Default)]
pub(super) struct Cscan {
    /// Running sweep, by first sector.
    sweep: BTreeSet<(u64, Id)>,
    /// Next sweep.
    following: BTreeSet<(u64, Id)>,
    /// Position of the running sweep.
    position: u64,
    /// Requests of each direction in the order of arrival; some have left.
    queues: [VecDeque<Id>; 2],
}

impl Cscan {
    pub(super) fn add<P>(
        &mut self,
        id: Id,
        class: Class,
        start: u64,
        arrivals: u64,
        requests: &Requests<P>,
    ) {
        let is_closed = self.has_expired(arrivals, requests);
        let sweep = if is_closed {
            &mut self.following
        } else {
            &mut self.sweep
        };
        sweep.insert((start, id));
        self.queues[class.direction()].push_back(id);
    }

    /// Returns true if a request of the running sweep has been passed as often as allowed.
    fn has_expired<P>(&mut self, arrivals: u64, requests: &Requests<P>) -> bool {
        let sweep = &self.sweep;
        let bounds = [READ_LATENCY, WRITE_LATENCY];
        self.queues.iter_mut().zip(bounds).any(|(queue, bound)| {
            while queue.front().is_some_and(|id| !requests.contains_key(id)) {
                queue.pop_front();
            }
            let oldest = queue.front().map(|id| (id, &requests[id]));
            oldest.is_some_and(|(id, request)| {
                let passed = arrivals - request.arrivals_before;
                passed >= bound && sweep.contains(&(request.start, *id))
            })
        })
    }

    pub(super) fn restart(&mut self, id: Id, old: u64, new: u64) {
        let sweep = if self.sweep.remove(&(old, id)) {
            &mut self.sweep
        } else {
            &mut self.following
        };
        sweep.remove(&(old, id));
        sweep.insert((new, id));
    }

    pub(super) fn remove(&mut self, id: Id, start: u64) {
        if !self.sweep.remove(&(start, id)) {
            self.following.remove(&(start, id));
        }
    }

    pub(super) fn next<P>(&mut self, requests: &Requests<P>) -> Option<Id> {
        if self.sweep.is_empty() {
            core::mem::swap(&mut self.sweep, &mut self.following);
        }
        let ahead = self.sweep.range((self.position, 0)..).next();
        let (_, id) = *ahead.or_else(|| self.sweep.first())?;
        self.position = requests[&id].end;
        Some(id)
    }
}
