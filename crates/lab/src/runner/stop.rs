//! [`Stop`]: ends a run early.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use workload::Control;

/// A handle that ends a run early; clones end the same run.
#[derive(Clone, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Default)]
struct Inner {
    is_requested: AtomicBool,
    // Controls of the running trials, and of some that have ended.
    controls: Mutex<Vec<Weak<Control>>>,
}

impl Stop {
    /// Ends the run: no further trial starts, and running trials end as soon as they can.
    pub fn request(&self) {
        self.0.is_requested.store(true, Ordering::SeqCst);
        for control in self.controls().iter().filter_map(Weak::upgrade) {
            control.cancel();
        }
    }

    /// Returns true if the run has been asked to end.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.is_requested.load(Ordering::SeqCst)
    }

    /// Registers a trial, which is cancelled if the run is to end.
    pub(super) fn watch(&self, control: &Arc<Control>) {
        let mut controls = self.controls();
        controls.retain(|other| other.strong_count() > 0);
        controls.push(Arc::downgrade(control));
        drop(controls);
        // The request may have arrived before the control was registered.
        if self.is_requested() {
            control.cancel();
        }
    }

    fn controls(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Control>>> {
        self.0
            .controls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stop({})", self.is_requested())
    }
}
