//! Tickets with a known completion time: they need no task; a waiter sleeps until then.

use std::sync::Arc;

use block::{DetachedErrors, Results, Ticket, Work};
use rt::{Mutex, Nanos};

/// Creates a ticket whose results are available from a given time.
pub(super) fn timed_ticket(
    done: Nanos,
    results: Results,
    detached: &Arc<DetachedErrors>,
) -> Ticket {
    let results = Mutex::new(results);
    Ticket::for_work(Arc::new(Timed {
        done,
        results,
        detached: Arc::clone(detached),
    }))
}

/// Results that are available from a given time.
struct Timed {
    done: Nanos,
    results: Mutex<Results>,
    detached: Arc<DetachedErrors>,
}

impl Work for Timed {
    fn is_ready(&self) -> bool {
        rt::monotonic() >= self.done
    }

    fn wait(&self) -> Results {
        // The world does not see the device at work. Otherwise the sleep would count as a useless
        // timer, and the threads that wait for this one as stuck.
        sim::requests_in_flight(1);
        rt::sleep_until(self.done);
        sim::requests_in_flight(-1);
        core::mem::take(&mut *self.results.lock())
    }

    fn abandon(&self) {
        self.detached.keep(&self.results.lock());
    }
}
