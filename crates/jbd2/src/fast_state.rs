//! State of the fast commits of the running transaction, under the journal's central lock.
//!
//! The area belongs to one transaction at a time: the running one. It is empty again when that
//! transaction closes, and used again when the transaction is durable.

use core::ops::Range;

/// The fast commits of the running transaction. // [state]
#[derive(Debug, Clone, Default)]
pub(crate) struct FastState {
    /// The blocks of the area; empty if there are no fast commits.
    area: Range<u32>,
    /// Number of blocks in use, from the first on.
    used: u32,
    /// True if the running transaction gets no further fast commit.
    pub(crate) is_refused: bool,
    /// Number of collections of changes so far.
    pub(crate) started: u64,
    /// The number of the last collection that is durable.
    pub(crate) completed: u64,
    /// Number of callers that wait for the next collection.
    pub(crate) next_callers: u32,
    /// Number of callers that wait for the present one.
    pub(crate) callers: u32,
}

impl FastState {
    /// Creates the state of an area.
    pub(crate) fn new(area: Range<u32>) -> Self {
        Self {
            area,
            ..Self::default()
        }
    }

    /// Returns true if the journal has an area.
    pub(crate) fn is_possible(&self) -> bool {
        !self.area.is_empty()
    }

    /// Returns true if the area holds a fast commit of the running transaction.
    pub(crate) fn is_used(&self) -> bool {
        self.used > 0
    }

    /// Takes blocks of the area; none if it has too few. Returns the first of them.
    pub(crate) fn take(&mut self, count: u32) -> Option<u32> {
        let first = self.area.start + self.used;
        if self.area.end - first < count {
            return None;
        }
        self.used += count;
        Some(first)
    }

    /// Empties the area, for the next transaction.
    pub(crate) fn reset(&mut self) {
        if !rt::mutant!("fast-commit/area-not-reset") {
            self.used = 0;
        }
        self.is_refused = false;
        self.next_callers = 0;
        self.callers = 0;
    }

    /// Returns true if all collections are durable.
    pub(crate) fn has_completed(&self) -> bool {
        self.completed >= self.started
    }

    /// Starts a collection of changes. The callers of one that has failed wait for it, too.
    pub(crate) fn start(&mut self) {
        self.started += 1;
        self.callers += core::mem::take(&mut self.next_callers);
    }

    /// Ends a collection that is durable. Returns the number of callers that it has served.
    pub(crate) fn complete(&mut self) -> u32 {
        self.completed = self.started;
        core::mem::take(&mut self.callers)
    }

    /// Adds a caller, whose changes the next collection has, or an earlier one. Returns the number
    /// of the collection that it waits for.
    pub(crate) fn join(&mut self, has_changes: bool) -> u64 {
        if has_changes {
            self.next_callers += 1;
            self.started + 1
        } else {
            self.callers += u32::from(!self.has_completed());
            self.started
        }
    }

    /// Removes a caller that gives up waiting for a collection.
    pub(crate) fn leave(&mut self, number: u64) {
        let callers = match number > self.started {
            true => &mut self.next_callers,
            false => &mut self.callers,
        };
        *callers = callers.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_is_filled_and_emptied() {
        let mut fast = FastState::new(10..14);
        assert!(fast.is_possible() && !fast.is_used());
        assert_eq!(
            (fast.take(3), fast.take(2), fast.take(1)),
            (Some(10), None, Some(13))
        );
        assert!(fast.is_used());
        fast.is_refused = true;
        fast.reset();
        assert!(!fast.is_used() && !fast.is_refused);
        assert_eq!(fast.take(4), Some(10));
        assert!(!FastState::default().is_possible());
    }

    #[test]
    fn callers_wait_for_the_collection_with_their_changes() {
        let mut fast = FastState::new(10..14);
        assert_eq!((fast.join(true), fast.join(false)), (1, 0));
        fast.start();
        // One changes something while the first is written, one waits for it.
        assert_eq!((fast.join(true), fast.join(false)), (2, 1));
        assert_eq!((fast.complete(), fast.completed), (2, 1));
        fast.start();
        assert_eq!((fast.complete(), fast.completed), (1, 2));
    }

    #[test]
    fn callers_that_give_up_are_not_served() {
        let mut fast = FastState::new(10..14);
        let (first, second) = (fast.join(true), fast.join(true));
        fast.leave(first);
        fast.start();
        assert_eq!(fast.callers, 1);
        fast.leave(second);
        assert_eq!(fast.complete(), 0);
        fast.leave(second);
        assert_eq!((fast.callers, fast.next_callers), (0, 0));
    }
}
