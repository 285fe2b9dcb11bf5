//! No elevator: first come, first served.

use std::collections::VecDeque;

use super::{Id, Requests};

#[derive(Debug, Default)]
pub(super) struct Noop {
    /// Requests in the order of arrival; some have been merged into others.
    queue: VecDeque<Id>,
}

impl Noop {
    pub(super) fn add(&mut self, id: Id) {
        self.queue.push_back(id);
    }

    pub(super) fn next<P>(&mut self, requests: &Requests<P>) -> Option<Id> {
        core::iter::from_fn(|| self.queue.pop_front()).find(|id| requests.contains_key(id))
    }
}
