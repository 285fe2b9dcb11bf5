//! Waking and stopping the writer daemon.

use rt::{Condvar, Mutex, Nanos};

/// How the writer daemon is woken and told to stop. Shared with the daemon, which does not keep the volume alive.
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
    /// Asks the daemon for a round now.
    pub(crate) fn request(&self) {
        let mut state = self.state.lock();
        if !state.is_wanted {
            state.is_wanted = true;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Tells the daemon to stop.
    pub(crate) fn stop(&self) {
        self.state.lock().is_stopping = true;
        self.changed.notify_all();
    }

    /// The daemon sleeps for an interval or until it is asked for; true if it is time to stop.
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
