//! Cancellation and progress of a run.

use std::fmt;

use rt::atomic::{AtomicBool, AtomicU64};
use std::sync::atomic::Ordering;

/// Maximum number of calls of the progress callback per run.
const PROGRESS_STEPS: u64 = 1000;

/// Handle that cancels a run and observes its progress; shared by the run and its caller.
#[derive(Default)]
pub struct Control {
    cancelled: AtomicBool,
    done: AtomicU64,
    total: AtomicU64,
    progress: Option<Box<dyn Fn(f64) + Send + Sync>>,
}

impl Control {
    /// Returns a control without a progress callback.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a control whose callback receives the fraction done, 0 to 1, about a thousand times
    /// per run.
    ///
    /// Any thread of the workload may call it, so it must be fast.
    #[must_use]
    pub fn with_progress(progress: impl Fn(f64) + Send + Sync + 'static) -> Self {
        Self {
            progress: Some(Box::new(progress)),
            ..Self::default()
        }
    }

    /// Requests the run to stop: it removes its files and returns an error for the cancellation.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
    }

    /// Returns true if the run was requested to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// Starts counting a run of `total` steps.
    pub fn begin(&self, total: u64) {
        self.done.store(0, Ordering::SeqCst);
        self.total.store(total, Ordering::SeqCst);
        self.report(0, total);
    }

    /// Sets the number of remaining steps, for runs that determine it only later.
    pub fn set_left(&self, left: u64) {
        self.total.store(
            self.done.load(Ordering::SeqCst).saturating_add(left),
            Ordering::SeqCst,
        );
    }

    /// Counts `steps` more as done.
    pub fn advance(&self, steps: u64) {
        if self.progress.is_none() {
            return;
        }
        let before = self.done.fetch_add(steps, Ordering::SeqCst);
        let total = self.total.load(Ordering::SeqCst);
        let stride = (total / PROGRESS_STEPS).max(1);
        let after = before.saturating_add(steps);
        if before / stride != after / stride {
            self.report(after, total);
        }
    }

    fn report(&self, done: u64, total: u64) {
        if let Some(progress) = &self.progress {
            let fraction = if total == 0 {
                1.0
            } else {
                done as f64 / total as f64
            };
            progress(fraction.min(1.0));
        }
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn progress_is_monotonic_ends_at_one_and_is_not_called_for_every_step() {
        let seen = Arc::new(rt::Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        let control = Control::with_progress(move |fraction| sink.lock().push(fraction));
        control.begin(100_000);
        for _ in 0..100_000 {
            control.advance(1);
        }
        let seen = seen.lock();
        assert_eq!(seen.len(), 1 + 1000);
        assert!(seen.is_sorted());
        assert_eq!(seen.last(), Some(&1.0));
    }

    #[test]
    fn cancelling_is_seen() {
        let control = Control::new();
        assert!(!control.is_cancelled());
        control.cancel();
        assert!(control.is_cancelled());
    }
}
