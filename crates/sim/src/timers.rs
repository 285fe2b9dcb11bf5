//! [`Timers`]: the times at which tasks are to wake.
//!
//! A binary heap with positions. A task has at most one timer, and cancelling is as cheap as
//! setting, because most deadlines never pass.

use rt::Nanos;

const ABSENT: u32 = u32::MAX;

/// All timers, soonest first; equal times in the order in which they were set.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: Vec<Timer>,
    /// Position of each task's timer in the heap.
    positions: Vec<u32>,
    set_count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    moment: Nanos,
    order: u64,
    task: u32,
}

impl Timers {
    /// Returns the soonest time.
    #[inline]
    pub(crate) fn first(&self) -> Option<Nanos> {
        self.heap.first().map(|timer| timer.moment)
    }

    /// Returns the time of a task's timer.
    pub(crate) fn moment_of(&self, task: u32) -> Option<Nanos> {
        let position = *self.positions.get(task as usize)?;
        self.heap.get(position as usize).map(|timer| timer.moment)
    }

    /// Sets the timer of a task that has none.
    pub(crate) fn set(&mut self, task: u32, moment: Nanos) {
        let needed = task as usize + 1;
        if self.positions.len() < needed {
            self.positions.resize(needed, ABSENT);
        }
        assert!(
            self.positions[task as usize] == ABSENT,
            "a task has one timer at most"
        );
        self.set_count += 1;
        self.heap.push(Timer {
            moment,
            order: self.set_count,
            task,
        });
        self.rise(self.heap.len() - 1);
    }

    /// Cancels a task's timer, if it has one.
    pub(crate) fn cancel(&mut self, task: u32) {
        match self.positions.get(task as usize) {
            Some(&position) if position != ABSENT => self.remove(position as usize),
            _ => {}
        }
    }

    /// Removes the soonest timer if it is due at `now`, and returns its task.
    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<u32> {
        let first = *self.heap.first()?;
        if first.moment > now {
            return None;
        }
        self.remove(0);
        Some(first.task)
    }

    fn remove(&mut self, position: usize) {
        let removed = self.heap.swap_remove(position);
        self.positions[removed.task as usize] = ABSENT;
        if position < self.heap.len() {
            let position = self.rise(position);
            self.sink(position);
        }
    }

    fn rise(&mut self, mut position: usize) -> usize {
        while position > 0 {
            let parent = (position - 1) / 2;
            if self.heap[parent] <= self.heap[position] {
                break;
            }
            self.heap.swap(parent, position);
            self.note(position);
            position = parent;
        }
        self.note(position);
        position
    }

    fn sink(&mut self, mut position: usize) {
        loop {
            let mut child = 2 * position + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1] < self.heap[child] {
                child += 1;
            }
            if self.heap[position] <= self.heap[child] {
                break;
            }
            self.heap.swap(position, child);
            self.note(position);
            position = child;
        }
        self.note(position);
    }

    fn note(&mut self, position: usize) {
        let task = self.heap[position].task;
        self.positions[task as usize] = position as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_moments_keep_their_order() {
        let mut timers = Timers::default();
        for task in 0..20 {
            timers.set(task, Nanos::new(7));
        }
        let order: Vec<u32> = std::iter::from_fn(|| timers.pop_due(Nanos::new(7))).collect();
        assert_eq!(order, (0..20).collect::<Vec<u32>>());
    }

    #[test]
    fn behaves_like_a_sorted_list() {
        let mut timers = Timers::default();
        let mut model: Vec<(u64, u64, u32)> = Vec::new();
        let mut random = 12_345_u64;
        for order in 0..20_000_u64 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let task = (random >> 33) as u32 % 64;
            if model.iter().any(|entry| entry.2 == task) {
                assert!(timers.moment_of(task).is_some());
                timers.cancel(task);
                model.retain(|entry| entry.2 != task);
            } else {
                let moment = random >> 60;
                timers.set(task, Nanos::new(moment));
                model.push((moment, order, task));
                model.sort_unstable();
            }
            assert_eq!(
                timers.first(),
                model.first().map(|entry| Nanos::new(entry.0))
            );
            if order % 7 == 0 {
                let expect = model
                    .first()
                    .filter(|entry| entry.0 <= 8)
                    .map(|entry| entry.2);
                assert_eq!(timers.pop_due(Nanos::new(8)), expect);
                model.retain(|entry| Some(entry.2) != expect);
            }
        }
    }
}
