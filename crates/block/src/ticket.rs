//! Tickets: the caller's handle to a batch in progress.
//!
//! A ticket is ready at once (memory devices), or belongs to a [`Completer`] that the device's
//! thread or task completes later, or combines the tickets of the devices below, or represents
//! [`Work`] that several threads may wait for. There are no callbacks: the waiting thread processes
//! the completion. A device may leave requests to the waiting thread; [`Ticket::start`] is for
//! callers that do other things first. Dropping a ticket detaches its requests; the device keeps
//! their errors in its [`DetachedErrors`] for the next flush.

use core::fmt;
use std::sync::Arc;

use rt::{Condvar, Mutex};

use crate::error::DeviceError;
use crate::payload::Payload;

/// The result of a successful request.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// Blocks that were read, in order.
    Read(Payload),
    /// A completed write, flush or discard.
    Done,
}

/// The results of a batch, one for each request, in the batch's order.
pub type Results = Vec<Result<Outcome, DeviceError>>;

/// A handle to the results of a batch.
#[must_use = "dropping a ticket detaches its requests"]
pub struct Ticket {
    inner: Inner,
    /// The results that `wait` expects; `None` if results are not checked.
    owed: Option<Owed>,
}

/// The results that a batch must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owed {
    /// One for each request.
    pub(crate) results: usize,
    /// The blocks of all reads together.
    pub(crate) blocks: u64,
}

/// A function that combines the results of a ticket's parts.
type Combine = Box<dyn FnOnce(Vec<Results>) -> Results + Send>;

enum Inner {
    Ready(Results, Option<Arc<DetachedErrors>>),
    Pending(Arc<Shared>),
    Joined(Vec<Ticket>, Combine),
    Work(Arc<dyn Work>),
    /// Already waited for: no request is left to detach.
    Taken,
}

#[derive(Default)]
struct Shared {
    state: Mutex<SharedState>,
    done: Condvar,
    detached: Option<Arc<DetachedErrors>>,
}

#[derive(Default)]
struct SharedState {
    results: Option<Results>,
    is_abandoned: bool,
}

/// The device's end of a ticket.
pub struct Completer {
    shared: Arc<Shared>,
}

/// Requests in flight that threads other than the ticket's holder may wait for.
pub trait Work: Send + Sync {
    /// True if `wait` would return at once. Starts the requests as `start` does.
    fn is_ready(&self) -> bool;

    /// Starts the requests that are left to the waiting thread.
    fn start(&self) {}

    /// Waits and takes the results. The ticket's holder calls it at most once.
    fn wait(&self) -> Results;

    /// Handles a dropped ticket: its results will not be taken.
    fn abandon(&self);
}

/// The first error of a device's requests whose tickets were dropped.
#[derive(Default)]
pub struct DetachedErrors {
    first: Mutex<Option<DeviceError>>,
}

impl DetachedErrors {
    /// Records the first error among the results, unless an earlier one is still recorded.
    pub fn keep(&self, results: &Results) {
        if let Some(error) = results.iter().find_map(|result| result.as_ref().err()) {
            self.keep_error(error.clone());
        }
    }

    /// Records an error, unless an earlier one is still recorded.
    pub fn keep_error(&self, error: DeviceError) {
        self.first.lock().get_or_insert(error);
    }

    /// Takes the recorded error.
    pub fn take(&self) -> Option<DeviceError> {
        self.first.lock().take()
    }
}

impl Ticket {
    fn new(inner: Inner) -> Self {
        Self { inner, owed: None }
    }

    /// Creates a ticket with its results.
    pub fn ready(results: Results) -> Self {
        Self::new(Inner::Ready(results, None))
    }

    /// Creates a ticket with its results; errors go to `detached` if the ticket is dropped.
    pub fn ready_or_detached(results: Results, detached: &Arc<DetachedErrors>) -> Self {
        let keeper = results
            .iter()
            .any(Result::is_err)
            .then(|| Arc::clone(detached));
        Self::new(Inner::Ready(results, keeper))
    }

    /// Creates a ticket and its completer.
    pub fn pending() -> (Self, Completer) {
        Self::from_shared(Shared::default())
    }

    /// Creates a ticket and its completer; errors go to `detached` if the ticket is dropped.
    pub fn pending_or_detached(detached: Arc<DetachedErrors>) -> (Self, Completer) {
        Self::from_shared(Shared {
            detached: Some(detached),
            ..Shared::default()
        })
    }

    fn from_shared(shared: Shared) -> (Self, Completer) {
        let shared = Arc::new(shared);
        let ticket = Self::new(Inner::Pending(Arc::clone(&shared)));
        (ticket, Completer { shared })
    }

    /// Combines several tickets; `combine` computes the results of the whole. It is not called if
    /// the ticket is dropped: each part is then detached by its own device.
    pub fn joined(
        parts: Vec<Self>,
        combine: impl FnOnce(Vec<Results>) -> Results + Send + 'static,
    ) -> Self {
        Self::new(Inner::Joined(parts, Box::new(combine)))
    }

    /// Creates a ticket for work that other threads may wait for too.
    pub fn for_work(work: Arc<dyn Work>) -> Self {
        Self::new(Inner::Work(work))
    }

    /// Makes `wait` check the results.
    pub(crate) fn checked(mut self, owed: Owed) -> Self {
        self.owed = Some(owed);
        self
    }

    /// Starts the requests that the device has left to the waiting thread, and returns at once. A
    /// caller that does not wait next calls it, so that they are in flight meanwhile.
    pub fn start(&self) {
        match &self.inner {
            Inner::Ready(..) | Inner::Pending(_) | Inner::Taken => {}
            Inner::Joined(parts, _) => parts.iter().for_each(Self::start),
            Inner::Work(work) => work.start(),
        }
    }

    /// True if `wait` would return at once. Starts the requests as [`start`](Self::start) does.
    pub fn is_ready(&self) -> bool {
        match &self.inner {
            Inner::Ready(..) | Inner::Taken => true,
            Inner::Pending(shared) => shared.state.lock().results.is_some(),
            Inner::Joined(parts, _) => {
                self.start();
                parts.iter().all(Self::is_ready)
            }
            Inner::Work(work) => work.is_ready(),
        }
    }

    /// Waits for the batch and returns one result for each request.
    ///
    /// # Panics
    /// Panics if the device breaks the contract on results, and the ticket is one of
    /// [`request`](crate::BlockDevice#method.request).
    pub fn wait(self) -> Results {
        rt::point();
        self.wait_at_once()
    }

    /// Waits as [`wait`](Self::wait), within the wait for another ticket: it adds no point to a
    /// world.
    pub(crate) fn wait_at_once(mut self) -> Results {
        let results = match core::mem::replace(&mut self.inner, Inner::Taken) {
            Inner::Ready(results, _) => results,
            Inner::Pending(shared) => shared.wait(),
            Inner::Joined(parts, combine) => {
                // This thread executes what is left to it of the first part.
                parts.iter().skip(1).for_each(Self::start);
                combine(parts.into_iter().map(Self::wait).collect())
            }
            Inner::Work(work) => work.wait(),
            Inner::Taken => return Vec::new(),
        };
        if let Some(owed) = self.owed {
            check(&results, owed);
        }
        results
    }

    /// Waits for the batch and returns the first error, if there is one.
    ///
    /// # Errors
    /// The first error of the batch.
    ///
    /// # Panics
    /// Panics as [`Ticket::wait`].
    pub fn wait_all(self) -> Result<(), DeviceError> {
        self.wait()
            .into_iter()
            .try_for_each(|result| result.map(drop))
    }
}

/// Checks the contract on results. The blocks of a batch in which a request failed are not counted.
fn check(results: &Results, owed: Owed) {
    assert_eq!(
        results.len(),
        owed.results,
        "a device returns one result for each request"
    );
    let mut blocks = 0;
    for result in results {
        match result {
            Ok(Outcome::Read(payload)) => blocks += payload.len() as u64,
            Ok(Outcome::Done) => {}
            Err(_) => return,
        }
    }
    assert_eq!(
        blocks, owed.blocks,
        "a device returns as many blocks as are to be read"
    );
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}

impl Drop for Ticket {
    /// Detaches the requests. This takes a lock only for the moment in which an error is stored,
    /// and none while the task unwinds.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        match &self.inner {
            Inner::Ready(results, Some(detached)) => detached.keep(results),
            Inner::Pending(shared) => shared.abandon(),
            Inner::Work(work) => work.abandon(),
            Inner::Ready(_, None) | Inner::Joined(..) | Inner::Taken => {}
        }
    }
}

impl Shared {
    fn wait(&self) -> Results {
        let mut state = self.state.lock();
        loop {
            if let Some(results) = state.results.take() {
                return results;
            }
            self.done.wait(&mut state);
        }
    }

    fn abandon(&self) {
        let mut state = self.state.lock();
        state.is_abandoned = true;
        let results = state.results.take();
        drop(state);
        if let (Some(results), Some(detached)) = (results, &self.detached) {
            detached.keep(&results);
        }
    }
}

impl Completer {
    /// Completes the ticket and wakes a waiting thread. Returns false if the ticket had been
    /// dropped; errors then went to the device's detached errors, if the ticket has them.
    pub fn complete(self, results: Results) -> bool {
        let mut state = self.shared.state.lock();
        if state.is_abandoned {
            drop(state);
            if let Some(detached) = &self.shared.detached {
                detached.keep(&results);
            }
            return false;
        }
        state.results = Some(results);
        drop(state);
        self.shared.done.notify_all();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> Results {
        vec![Ok(Outcome::Done), Err(DeviceError::Gone)]
    }

    #[test]
    fn a_ready_ticket_that_is_waited_for_leaves_nothing_behind() {
        let detached = Arc::new(DetachedErrors::default());
        let ticket = Ticket::ready_or_detached(failed(), &detached);
        assert!(ticket.is_ready());
        assert_eq!(ticket.wait_all(), Err(DeviceError::Gone));
        assert_eq!(detached.take(), None);
    }

    #[test]
    fn errors_of_dropped_tickets_are_kept() {
        let detached = Arc::new(DetachedErrors::default());
        drop(Ticket::ready_or_detached(failed(), &detached));
        assert_eq!(detached.take(), Some(DeviceError::Gone));

        let (ticket, completer) = Ticket::pending_or_detached(Arc::clone(&detached));
        drop(ticket);
        assert!(!completer.complete(failed()));
        assert_eq!(detached.take(), Some(DeviceError::Gone));

        let (ticket, completer) = Ticket::pending_or_detached(Arc::clone(&detached));
        assert!(completer.complete(failed()));
        drop(ticket);
        assert_eq!(detached.take(), Some(DeviceError::Gone));
        assert_eq!(detached.take(), None);
    }

    /// Counts its starts.
    #[derive(Default)]
    struct Lazy(rt::atomic::AtomicU64);

    impl Work for Lazy {
        fn is_ready(&self) -> bool {
            self.start();
            true
        }

        fn start(&self) {
            self.0.fetch_add(1, rt::atomic::Ordering::Relaxed);
        }

        fn wait(&self) -> Results {
            vec![Ok(Outcome::Done)]
        }

        fn abandon(&self) {}
    }

    /// The first part of a joined ticket is left to the waiting thread; the others are in flight
    /// meanwhile.
    #[test]
    fn a_wait_starts_all_parts_but_the_first() {
        let parts: [Arc<Lazy>; 4] = Default::default();
        let ticket = |part: &Arc<Lazy>| Ticket::for_work(Arc::<Lazy>::clone(part));
        let flat = |parts: Vec<Results>| parts.into_iter().flatten().collect();
        let joined = || {
            let inner = Ticket::joined(parts[2..].iter().map(ticket).collect(), flat);
            Ticket::joined(vec![ticket(&parts[0]), ticket(&parts[1]), inner], flat)
        };
        let starts = || {
            let count = |part: &Arc<Lazy>| part.0.swap(0, rt::atomic::Ordering::Relaxed) > 0;
            parts.each_ref().map(count)
        };
        assert_eq!(joined().wait().len(), 4);
        assert_eq!(starts(), [false, true, true, true]);
        joined().start();
        assert_eq!(starts(), [true; 4]);
        assert!(joined().is_ready());
        assert_eq!(starts(), [true; 4]);
    }

    #[test]
    fn a_joined_ticket_waits_for_all_parts() {
        let (first, completer) = Ticket::pending();
        let second = Ticket::ready(vec![Ok(Outcome::Done)]);
        let joined = Ticket::joined(vec![first, second], |parts| {
            parts.into_iter().flatten().collect()
        });
        assert!(!joined.is_ready());
        completer.complete(failed());
        assert!(joined.is_ready());
        assert_eq!(joined.wait().len(), 3);
    }

    /// The contract on results is checked where a caller waits, and errors are results.
    #[test]
    fn results_that_break_the_contract_panic() {
        use std::panic::{AssertUnwindSafe, catch_unwind};

        // A flush, and a read of two blocks.
        let owed = Owed {
            results: 2,
            blocks: 2,
        };
        let block = || layout::Block::zeroed(512).into_arc();
        let two = || Ok(Outcome::Read(vec![block(), block()]));
        let done = || Ok(Outcome::Done);
        for (results, is_right) in [
            (vec![done(), two()], true),
            (failed(), true),
            (vec![done()], false),
            (vec![done(), two(), done()], false),
            (vec![done(), done()], false),
            (vec![done(), Ok(Outcome::Read(vec![block()]))], false),
            (vec![two(), two()], false),
        ] {
            let ticket = Ticket::ready(results.clone()).checked(owed);
            let waited = catch_unwind(AssertUnwindSafe(|| ticket.wait()));
            assert_eq!(waited.is_ok(), is_right, "{results:?}");
        }
    }

    #[test]
    fn a_waiter_is_woken_by_another_thread() {
        let (ticket, completer) = Ticket::pending();
        let helper = rt::spawn("completer", move || {
            completer.complete(vec![Ok(Outcome::Done)])
        });
        assert_eq!(ticket.wait().len(), 1);
        assert!(helper.join().is_ok());
    }
}
