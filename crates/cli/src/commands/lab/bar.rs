//! The progress of a run: one bar for all trials, with the remaining time.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use indicatif::ProgressBar;
use lab::plan::Trial;
use lab::{Progress, Record};

use crate::{output, progress};

/// Progress units of a trial.
const PARTS: u64 = 1000;

/// One bar for all trials. Trials add their thousandths; the bar draws itself.
#[derive(Default)]
pub(super) struct Bar {
    bar: OnceLock<ProgressBar>,
    parts: Mutex<Vec<u64>>,
}

impl Bar {
    /// Removes the bar from the terminal.
    pub(super) fn end(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }

    /// Prints a warning on a line above the bar.
    pub(super) fn warn(&self, text: &str) {
        match self.bar.get() {
            Some(bar) => bar.suspend(|| output::warn(text)),
            None => output::warn(text),
        }
    }

    fn set(&self, number: usize, parts: u64) {
        let mut all = self.parts();
        if let (Some(bar), Some(slot)) = (self.bar.get(), all.get_mut(number)) {
            bar.inc(parts.saturating_sub(*slot));
            *slot = parts;
        }
    }

    fn parts(&self) -> MutexGuard<'_, Vec<u64>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Bar {
    fn begin(&self, to_run: usize, _recorded: usize) {
        *self.parts() = vec![0; to_run];
        self.bar
            .get_or_init(|| progress::share(to_run as u64 * PARTS));
    }

    fn extended(&self, by: usize) {
        let mut all = self.parts();
        let count = all.len() + by;
        all.resize(count, 0);
        if let Some(bar) = self.bar.get() {
            bar.set_length(count as u64 * PARTS);
        }
    }

    fn started(&self, _number: usize, trial: &Trial) {
        if let Some(bar) = self.bar.get() {
            let all = self.parts();
            let done = all.iter().filter(|parts| **parts == PARTS).count();
            bar.set_message(format!("{done} of {} trials: {}", all.len(), trial.name()));
        }
    }

    fn advanced(&self, number: usize, fraction: f64) {
        self.set(number, (fraction * PARTS as f64) as u64);
    }

    fn ended(&self, number: usize, _trial: &Trial, _result: Result<&Record, &str>) {
        self.set(number, PARTS);
    }
}
