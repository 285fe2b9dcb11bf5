//! [`Waiters`]: the queues of tasks parked at addresses.
//!
//! Queues are linked through tables indexed by task number, so that parking allocates nothing once
//! the tables have grown. The map from addresses is never iterated: addresses differ between runs.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use rt::split_mix::GAMMA;

/// The end of a list.
const NONE: u32 = u32::MAX;

/// All queues.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    queues: HashMap<usize, Queue, BuildHasherDefault<AddressHasher>>,
    links: Vec<Link>,
}

#[derive(Debug, Clone, Copy)]
struct Queue {
    first: u32,
    last: u32,
    len: u32,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    previous: u32,
    next: u32,
}

impl Waiters {
    /// Returns the number of tasks that wait at an address.
    pub(crate) fn count(&self, address: usize) -> u32 {
        self.queues.get(&address).map_or(0, |queue| queue.len)
    }

    /// Returns the task that has waited longest at an address, after skipping the first `skip`.
    pub(crate) fn nth(&self, address: usize, skip: u32) -> Option<u32> {
        let mut task = self.queues.get(&address)?.first;
        for _ in 0..skip {
            if task == NONE {
                break;
            }
            task = self.links[task as usize].next;
        }
        (task != NONE).then_some(task)
    }

    /// Returns the next task in the same queue.
    pub(crate) fn after(&self, task: u32) -> Option<u32> {
        let next = self.links[task as usize].next;
        (next != NONE).then_some(next)
    }

    /// Appends a task to the queue at an address.
    pub(crate) fn push(&mut self, address: usize, task: u32) {
        let needed = task as usize + 1;
        if self.links.len() < needed {
            self.links.resize(
                needed,
                Link {
                    previous: NONE,
                    next: NONE,
                },
            );
        }
        let empty = Queue {
            first: NONE,
            last: NONE,
            len: 0,
        };
        let queue = self.queues.entry(address).or_insert(empty);
        self.links[task as usize] = Link {
            previous: queue.last,
            next: NONE,
        };
        match queue.last {
            NONE => queue.first = task,
            last => self.links[last as usize].next = task,
        }
        queue.last = task;
        queue.len += 1;
    }

    /// Removes a task from the queue at an address, which must contain it.
    pub(crate) fn remove(&mut self, address: usize, task: u32) {
        let queue = self
            .queues
            .get_mut(&address)
            .expect("a parked task is in its queue");
        let Link { previous, next } = self.links[task as usize];
        match previous {
            NONE => queue.first = next,
            previous => self.links[previous as usize].next = next,
        }
        match next {
            NONE => queue.last = previous,
            next => self.links[next as usize].previous = previous,
        }
        queue.len -= 1;
        if queue.len == 0 {
            self.queues.remove(&address);
        }
    }
}

/// A hasher that spreads the bits of an address.
#[derive(Debug, Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, address: usize) {
        self.0 = (self.0 ^ address as u64)
            .wrapping_mul(GAMMA)
            .rotate_left(29);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_keep_order_and_forget_nothing() {
        let mut waiters = Waiters::default();
        for task in 0..6 {
            waiters.push(if task % 2 == 0 { 8 } else { 16 }, task);
        }
        assert_eq!(
            (waiters.count(8), waiters.count(16), waiters.count(24)),
            (3, 3, 0)
        );
        assert_eq!(
            [0, 1, 2, 3].map(|skip| waiters.nth(8, skip)),
            [Some(0), Some(2), Some(4), None]
        );
        waiters.remove(8, 2);
        assert_eq!([0, 1].map(|skip| waiters.nth(8, skip)), [Some(0), Some(4)]);
        waiters.remove(8, 0);
        waiters.remove(8, 4);
        assert_eq!((waiters.count(8), waiters.nth(8, 0)), (0, None));
        waiters.push(8, 2);
        assert_eq!(waiters.nth(8, 0), Some(2));
        assert_eq!(waiters.nth(16, 2), Some(5));
    }
}
