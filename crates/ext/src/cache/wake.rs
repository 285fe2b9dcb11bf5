//! Waking and stopping the writer daemon.

use rt::{Condvar, Mutex, Nanos};

/// The state that wakes and stops the writer daemon. Shared with the daemon, which does not keep
/// the volume alive.
#[derive(Default)]
pub(crate) struct Wake {
    state: Mutex<WakeState>,
    changed: Condvar,
}

#[derive(Default)]
struct WakeState {
    is_stopping: bool,
    is_wanted: bool,
}

impl Wake {
    /// Requests a round of the daemon now.
    pub(crate) fn request(&self) {
        let mut state = self.state.lock();
        if !state.is_wanted {
            state.is_wanted = true;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Requests the daemon to stop.
    pub(crate) fn stop(&self) {
        self.state.lock().is_stopping = true;
        self.changed.notify_all();
    }

    /// Returns true if the daemon is to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.state.lock().is_stopping
    }

    /// Sleeps for an interval or until a request; returns true if the daemon is to stop.
    pub(crate) fn sleep(&self, interval: Nanos) -> bool {
        let deadline = rt::monotonic() + interval;
        let mut state = self.state.lock();
        while !state.is_stopping && !state.is_wanted {
            if self.changed.wait_until(&mut state, deadline) {
                break;
            }
        }
        state.is_wanted = false;
        state.is_stopping
    }
}
