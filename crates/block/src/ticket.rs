//! Tickets: what a caller holds while the device works.
//!
//! A ticket is ready at once (memory devices), or belongs to a [`Completer`] that the device's own thread or task
//! fulfils later, or is put together from the tickets of the devices below, or stands for [`Work`] that several may wait
//! for. There are no callbacks: whoever waits, reaps. A dropped ticket detaches its requests; the device keeps their
//! errors in its [`DetachedErrors`] for whoever flushes next.

use core::fmt;
use std::sync::Arc;

use rt::{Condvar, Mutex};

use crate::device::Payload;
use crate::error::DeviceError;

/// The result of one request that went well.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The blocks that were read, in order.
    Read(Payload),
    /// A write, flush or discard that is done.
    Done,
}

/// The results of a batch, one for each request, in the batch's order.
pub type Results = Vec<Result<Outcome, DeviceError>>;

/// A claim on the results of a batch.
#[must_use = "dropping a ticket detaches its requests"]
pub struct Ticket {
    inner: Inner,
}

/// Turns the results of a ticket's parts into the results of the whole.
type Combine = Box<dyn FnOnce(Vec<Results>) -> Results + Send>;

enum Inner {
    Ready(Results, Option<Arc<DetachedErrors>>),
    Pending(Arc<Shared>),
    Joined(Vec<Ticket>, Combine),
    Work(Arc<dyn Work>),
    /// Waited for: nothing is left to detach.
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

/// Requests in flight that others than the ticket's holder may have to wait for, too.
pub trait Work: Send + Sync {
    /// Whether `wait` would return at once.
    fn is_ready(&self) -> bool;

    /// Waits and takes the results. Called once at most, by the ticket's holder.
    fn wait(&self) -> Results;

    /// The ticket was dropped: nobody will take the results.
    fn abandon(&self);
}

/// Where a device keeps the first error of requests whose tickets were dropped.
#[derive(Default)]
pub struct DetachedErrors {
    first: Mutex<Option<DeviceError>>,
}

impl DetachedErrors {
    /// Remembers the first error among the results, unless an earlier one waits to be taken.
    pub fn keep(&self, results: &Results) {
        if let Some(error) = results.iter().find_map(|result| result.as_ref().err()) {
            self.keep_error(error.clone());
        }
    }

    /// Remembers an error, unless an earlier one waits to be taken.
    pub fn keep_error(&self, error: DeviceError) {
        self.first.lock().get_or_insert(error);
    }

    /// Takes the error.
    pub fn take(&self) -> Option<DeviceError> {
        self.first.lock().take()
    }
}

impl Ticket {
    /// A ticket whose results are there already.
    pub fn ready(results: Results) -> Self {
        Self {
            inner: Inner::Ready(results, None),
        }
    }

    /// A ticket whose results are there already; errors go to `detached` if nobody waits for it.
    pub fn ready_or_detached(results: Results, detached: &Arc<DetachedErrors>) -> Self {
        let keeper = results
            .iter()
            .any(Result::is_err)
            .then(|| Arc::clone(detached));
        Self {
            inner: Inner::Ready(results, keeper),
        }
    }

    /// A ticket and the end that fulfils it.
    pub fn pending() -> (Self, Completer) {
        Self::from_shared(Shared::default())
    }

    /// A ticket and the end that fulfils it; errors go to `detached` if nobody waits for it.
    pub fn pending_or_detached(detached: Arc<DetachedErrors>) -> (Self, Completer) {
        Self::from_shared(Shared {
            detached: Some(detached),
            ..Shared::default()
        })
    }

    fn from_shared(shared: Shared) -> (Self, Completer) {
        let shared = Arc::new(shared);
        (
            Self {
                inner: Inner::Pending(Arc::clone(&shared)),
            },
            Completer { shared },
        )
    }

    /// One ticket for several; `combine` turns the parts' results into the results of the whole. It is not called
    /// when the ticket is dropped: the parts are detached, each by its own device.
    pub fn joined(
        parts: Vec<Self>,
        combine: impl FnOnce(Vec<Results>) -> Results + Send + 'static,
    ) -> Self {
        Self {
            inner: Inner::Joined(parts, Box::new(combine)),
        }
    }

    /// A ticket for work that others may wait for, too.
    pub fn for_work(work: Arc<dyn Work>) -> Self {
        Self {
            inner: Inner::Work(work),
        }
    }

    /// Whether `wait` would return at once.
    pub fn is_ready(&self) -> bool {
        match &self.inner {
            Inner::Ready(..) | Inner::Taken => true,
            Inner::Pending(shared) => shared.state.lock().results.is_some(),
            Inner::Joined(parts, _) => parts.iter().all(Self::is_ready),
            Inner::Work(work) => work.is_ready(),
        }
    }

    /// Waits for the batch and returns one result for each request.
    pub fn wait(mut self) -> Results {
        rt::point();
        match core::mem::replace(&mut self.inner, Inner::Taken) {
            Inner::Ready(results, _) => results,
            Inner::Pending(shared) => shared.wait(),
            Inner::Joined(parts, combine) => combine(parts.into_iter().map(Self::wait).collect()),
            Inner::Work(work) => work.wait(),
            Inner::Taken => Vec::new(),
        }
    }

    /// Waits for the batch; the first error, if there is one.
    pub fn wait_all(self) -> Result<(), DeviceError> {
        self.wait()
            .into_iter()
            .try_for_each(|result| result.map(drop))
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}

impl Drop for Ticket {
    /// Detaches the requests. This takes a lock only for the instant in which an error is handed over, and not at all
    /// when the task is unwinding.
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
    /// Fulfils the ticket and wakes whoever waits for it. Returns false if the ticket had been dropped; errors then
    /// went to the device's detached errors, if it gave any to the ticket.
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
