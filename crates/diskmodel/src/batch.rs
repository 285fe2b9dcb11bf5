//! A batch of requests in progress: the state behind its ticket, completed by the device's task.
//!
//! The contents of a request are read from or written to the store below when its last piece
//! completes. The host is not charged: a disk transfers data by DMA.

use std::sync::{Arc, Weak};

use block::{BlockDevice, DetachedErrors, DeviceError, Outcome, Request, Results, Work};
use rt::{Condvar, Mutex};

use crate::overwritten::Extent;

/// An object to be notified when a ticket is waited for.
pub(super) trait Waited: Send + Sync {
    /// Handles a task that is about to wait.
    fn waited_for(&self);
}

/// A request of a batch: open, or answered.
#[derive(Debug)]
enum Entry {
    Open { request: Request, pieces_left: u32 },
    Answered(Result<Outcome, DeviceError>),
}

#[derive(Debug)]
struct State {
    entries: Vec<Entry>,
    /// Number of open entries.
    left: usize,
    is_abandoned: bool,
}

/// A batch of requests.
pub(super) struct Batch {
    state: Mutex<State>,
    done: Condvar,
    /// A weak reference: the device's queue holds the batch, and a world may end while it does.
    device: Weak<dyn Waited>,
    detached: Arc<DetachedErrors>,
}

/// A piece of a request of a batch, as it goes through the elevator.
#[derive(Clone)]
pub(super) struct Piece {
    pub(super) batch: Arc<Batch>,
    /// Index of the request in the batch.
    pub(super) index: usize,
    /// Time of submission in nanoseconds.
    pub(super) submitted: u64,
}

impl Batch {
    /// Creates a batch; `pieces` returns the number of pieces of each request.
    pub(super) fn new(
        requests: Vec<Request>,
        mut pieces: impl FnMut(&Request) -> u32,
        device: Weak<dyn Waited>,
        detached: Arc<DetachedErrors>,
    ) -> Self {
        let left = requests.len();
        sim::requests_in_flight(i64::from(left > 0));
        let entries = requests
            .into_iter()
            .map(|request| {
                let pieces_left = pieces(&request);
                Entry::Open {
                    request,
                    pieces_left,
                }
            })
            .collect();
        let state = Mutex::new(State {
            entries,
            left,
            is_abandoned: false,
        });
        Self {
            state,
            done: Condvar::new(),
            device,
            detached,
        }
    }

    /// Completes a request with an error without executing it.
    pub(super) fn refuse(&self, index: usize, error: DeviceError) {
        self.answer(index, |_| Some(Err(error)));
    }

    /// Returns the sectors of a write whose last piece is about to be done.
    pub(super) fn last_written(&self, index: usize) -> Option<Extent> {
        match &self.state.lock().entries[index] {
            Entry::Open {
                request: request @ Request::Write { .. },
                pieces_left: 1,
            } => {
                let (sector, sectors) = request.range();
                Some((sector.get(), sector.get() + sectors))
            }
            _ => None,
        }
    }

    /// Records that a piece of a request is done. After the last piece the contents move between
    /// the batch and the store.
    pub(super) fn piece_done(&self, index: usize, store: &dyn BlockDevice) {
        self.answer(index, |entry| {
            let Entry::Open {
                request,
                pieces_left,
            } = entry
            else {
                panic!("a request is answered once")
            };
            *pieces_left -= 1;
            (*pieces_left == 0).then(|| carry_out(store, request))
        });
    }

    /// Completes an entry with the result of `decide`.
    fn answer(
        &self,
        index: usize,
        decide: impl FnOnce(&mut Entry) -> Option<Result<Outcome, DeviceError>>,
    ) {
        let mut state = self.state.lock();
        let Some(answer) = decide(&mut state.entries[index]) else {
            return;
        };
        if state.is_abandoned
            && let Err(error) = &answer
        {
            self.detached.keep_error(error.clone());
        }
        state.entries[index] = Entry::Answered(answer);
        state.left -= 1;
        if state.left == 0 {
            drop(state);
            sim::requests_in_flight(-1);
            self.done.notify_all();
        }
    }
}

/// Executes a request in the store. A flush has no effect there: the store is not volatile.
fn carry_out(store: &dyn BlockDevice, request: &mut Request) -> Result<Outcome, DeviceError> {
    let request = core::mem::replace(request, Request::Flush);
    if matches!(request, Request::Flush) {
        return Ok(Outcome::Done);
    }
    store
        .submit(vec![request])
        .wait()
        .pop()
        .unwrap_or(Err(DeviceError::Gone))
}

impl Work for Batch {
    fn is_ready(&self) -> bool {
        self.state.lock().left == 0
    }

    fn wait(&self) -> Results {
        if !self.is_ready()
            && let Some(device) = self.device.upgrade()
        {
            device.waited_for();
        }
        let mut state = self.state.lock();
        while state.left > 0 {
            self.done.wait(&mut state);
        }
        let entries = core::mem::take(&mut state.entries);
        entries
            .into_iter()
            .map(|entry| match entry {
                Entry::Answered(answer) => answer,
                Entry::Open { .. } => panic!("nothing is left open"),
            })
            .collect()
    }

    fn abandon(&self) {
        let mut state = self.state.lock();
        state.is_abandoned = true;
        for entry in &state.entries {
            if let Entry::Answered(Err(error)) = entry {
                self.detached.keep_error(error.clone());
            }
        }
    }
}
