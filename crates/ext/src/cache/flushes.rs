//! Flushes of the file-system device: when one is needed, and one flush shared by many threads.
//!
//! A completed write is durable when a flush submitted after its completion has completed: the
//! crate's own, or one that the journal issued for a commit. So an fdatasync after an overwrite
//! costs one flush and no commit, and an fsync after a commit by another thread costs no additional
//! flush.
//!
//! Threads that need a flush at the same time share it: a flush that starts after their calls
//! covers them all.
//!
//! After a failed flush, the state of everything completed since the last good one is unknown. No
//! later flush makes up for it: the journal aborts, the volume turns read-only, and every sync
//! fails from then on.

use block::DeviceError;
use rt::atomic::{AtomicU64, Ordering};
use rt::{Condvar, Mutex, MutexGuard, Nanos};

use crate::awaited::awaited;
use crate::error::Result;

/// The state of writes and flushes of the file-system device.
#[derive(Default)]
pub(crate) struct Flushes {
    /// Submission time of the latest completed flush.
    flushed: AtomicNanos,
    /// Completion time of the latest write of file data.
    written: AtomicNanos,
    /// Completion time of the latest unflushed write of the files evicted from memory.
    evicted: AtomicNanos,
    gate: Mutex<Gate>,
    done: Condvar,
}

#[derive(Default)]
struct Gate {
    started: u64,
    completed: u64,
    is_running: bool,
    failed: Option<DeviceError>,
}

impl Flushes {
    /// Notes a completed write of file data.
    pub(crate) fn note_written(&self, at: Nanos) {
        self.written.raise(at);
    }

    /// Notes a completed flush that was submitted at a time.
    pub(crate) fn note_flushed(&self, submitted: Nanos) {
        self.flushed.raise(submitted);
    }

    /// Notes the eviction of a file whose last write completed at a time.
    pub(crate) fn note_evicted(&self, written_at: Nanos) {
        if !self.covers(written_at) {
            self.evicted.raise(written_at);
        }
    }

    /// Returns the latest write of an evicted file, unless a flush is known to cover it.
    pub(crate) fn written_by_evicted(&self) -> Option<Nanos> {
        self.evicted.get().filter(|evicted| !self.covers(*evicted))
    }

    /// Returns true if a flush has covered a write that completed at a time.
    pub(crate) fn covers(&self, written_at: Nanos) -> bool {
        self.flushed
            .get()
            .is_some_and(|flushed| written_at < flushed)
    }

    /// Returns true if a write has completed since the last flush.
    pub(crate) fn is_owed(&self) -> bool {
        self.written
            .get()
            .is_some_and(|written| !self.covers(written))
    }

    /// Fails if a flush has failed.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.gate.lock().failed {
            Some(error) => Err(error.clone().into()),
            None => Ok(()),
        }
    }

    /// Flushes the device once for all threads that need it now: one of them calls `flush`. On
    /// failure it calls `give_up` before any other thread is notified.
    pub(crate) fn share(
        &self,
        flush: impl Fn() -> Result<(), DeviceError>,
        give_up: impl Fn(&DeviceError),
    ) -> Result<()> {
        let mut gate = self.gate.lock();
        let wanted = gate.started + 1;
        while gate.completed < wanted {
            if gate.is_running {
                self.done.wait(&mut gate);
                continue;
            }
            gate.is_running = true;
            gate.started += 1;
            let number = gate.started;
            drop(gate);
            let submitted = rt::monotonic();
            let abandon = || drop(self.end(number, Err(DeviceError::Gone), &give_up));
            let result = awaited(&flush, abandon);
            if result.is_ok() {
                self.note_flushed(submitted);
            }
            gate = self.end(number, result, &give_up);
        }
        drop(gate);
        self.check()
    }

    /// Ends a flush and wakes the threads that wait for it.
    fn end(
        &self,
        number: u64,
        result: Result<(), DeviceError>,
        give_up: &impl Fn(&DeviceError),
    ) -> MutexGuard<'_, Gate> {
        if let Err(error) = &result {
            give_up(error);
        }
        let mut gate = self.gate.lock();
        gate.is_running = false;
        gate.completed = number;
        if let Err(error) = result {
            gate.failed.get_or_insert(error);
        }
        self.done.notify_all();
        gate
    }
}

/// A time that only grows, or none. Time zero counts as a time: simulations start at it.
#[derive(Default)]
struct AtomicNanos(AtomicU64); // one more than the time; 0 is none

impl AtomicNanos {
    fn get(&self) -> Option<Nanos> {
        self.0
            .load(Ordering::Acquire)
            .checked_sub(1)
            .map(Nanos::new)
    }

    fn raise(&self, to: Nanos) {
        self.0
            .fetch_max(to.get().saturating_add(1), Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_covers_what_completed_before_it_was_submitted() {
        let flushes = Flushes::default();
        assert!(!flushes.is_owed());
        flushes.note_written(Nanos::new(10));
        assert!(flushes.is_owed());
        flushes.note_flushed(Nanos::new(10));
        assert!(
            flushes.is_owed(),
            "at the same instant the order is unknown"
        );
        flushes.note_flushed(Nanos::new(11));
        assert!(!flushes.is_owed());
        flushes.note_flushed(Nanos::new(5));
        assert!(!flushes.is_owed(), "an older flush takes nothing back");
    }

    #[test]
    fn evicted_files_are_remembered_until_a_flush() {
        let flushes = Flushes::default();
        flushes.note_written(Nanos::new(10));
        flushes.note_evicted(Nanos::new(10));
        assert_eq!(flushes.written_by_evicted(), Some(Nanos::new(10)));
        flushes.note_flushed(Nanos::new(12));
        assert_eq!(flushes.written_by_evicted(), None);
    }

    #[test]
    fn what_happens_at_time_zero_counts() {
        let flushes = Flushes::default();
        flushes.note_written(Nanos::ZERO);
        flushes.note_evicted(Nanos::ZERO);
        assert!(flushes.is_owed());
        assert_eq!(flushes.written_by_evicted(), Some(Nanos::ZERO));
        flushes.note_flushed(Nanos::new(1));
        assert!(!flushes.is_owed());
    }
}
