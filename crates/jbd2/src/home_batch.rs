//! A write of blocks to their final location, from its submission to its results.

use std::sync::Arc;

use block::{Payload, Ticket};
use layout::BlockNr;
use rt::Mutex;

use crate::error::Result;

/// Adjacent blocks in one request.
pub(crate) struct Run {
    pub(crate) first: BlockNr,
    pub(crate) payload: Payload,
}

impl Run {
    fn contains(&self, nr: BlockNr) -> bool {
        (self.first..self.first + self.payload.len() as u64).contains(&nr)
    }
}

/// Requests in flight.
pub(crate) struct HomeBatch {
    pub(crate) runs: Vec<Run>,
    pub(crate) state: Mutex<State>, // a leaf
}

/// The state of a batch.
pub(crate) enum State {
    /// No thread waits for it.
    Open(Ticket),
    /// A thread waits for it.
    Awaited,
    /// Its results have been recorded; the first error, if there is one.
    Completed(Result<()>),
}

impl HomeBatch {
    pub(crate) fn new(runs: Vec<Run>, ticket: Ticket) -> Arc<Self> {
        Arc::new(Self {
            runs,
            state: Mutex::new(State::Open(ticket)),
        })
    }

    /// Returns its ticket, for the thread that waits for it and records the results; none if
    /// another thread has taken it.
    pub(crate) fn take(&self) -> Option<Ticket> {
        let mut state = self.state.lock();
        if !matches!(&*state, State::Open(_)) {
            return None;
        }
        match core::mem::replace(&mut *state, State::Awaited) {
            State::Open(ticket) => Some(ticket),
            State::Awaited | State::Completed(_) => None,
        }
    }

    /// Returns true if a block is in it.
    pub(crate) fn contains(&self, nr: BlockNr) -> bool {
        self.runs.iter().any(|run| run.contains(nr))
    }
}
