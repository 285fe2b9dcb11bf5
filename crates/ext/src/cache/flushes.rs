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
use rt::{Condvar, Mutex, MutexGuard};

use crate::awaited::awaited;
use crate::error::Result;

/// The state of writes and flushes of the file-system device.
///
/// Completions of writes and starts of flushes are numbered in their order. Times would not do:
/// several of them can have the same.
#[derive(Default)]
pub(crate) struct Flushes {
    /// Number of moments so far.
    moments: AtomicU64,
    /// Start of the latest completed flush.
    flushed: AtomicU64,
    /// Completion of the latest write of file data.
    written: AtomicU64,
    /// Completion of the latest unflushed write of the files evicted from memory.
    evicted: AtomicU64,
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
    /// Returns a number for the present moment, above those of all earlier ones.
    pub(crate) fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Notes that a write of file data has completed. Returns the moment.
    pub(crate) fn note_written(&self) -> u64 {
        let now = self.moment();
        self.written.fetch_max(now, Ordering::AcqRel);
        now
    }

    /// Notes a completed flush that started at a moment.
    pub(crate) fn note_flushed(&self, started: u64) {
        self.flushed.fetch_max(started, Ordering::AcqRel);
    }

    /// Notes the eviction of a file whose last write completed at a moment; 0 if there was none.
    pub(crate) fn note_evicted(&self, written_at: u64) {
        if !self.covers(written_at) {
            self.evicted.fetch_max(written_at, Ordering::AcqRel);
        }
    }

    /// Returns the latest write of an evicted file; 0 if there was none.
    pub(crate) fn written_by_evicted(&self) -> u64 {
        self.evicted.load(Ordering::Acquire)
    }

    /// Returns true if a flush has covered a write that completed at a moment, or there was none.
    pub(crate) fn covers(&self, written_at: u64) -> bool {
        written_at <= self.flushed.load(Ordering::Acquire)
    }

    /// Returns true if a write has completed since the last flush started.
    pub(crate) fn is_owed(&self) -> bool {
        !self.covers(self.written.load(Ordering::Acquire))
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
            let started = self.moment();
            let abandon = || drop(self.end(number, Err(DeviceError::Gone), &give_up));
            let result = awaited(&flush, abandon);
            if result.is_ok() {
                self.note_flushed(started);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_covers_what_completed_before_it_started() {
        let flushes = Flushes::default();
        assert!(!flushes.is_owed());
        let early = flushes.moment();
        let written = flushes.note_written();
        assert!(flushes.is_owed());
        flushes.note_flushed(early);
        assert!(flushes.is_owed() && !flushes.covers(written));
        let late = flushes.moment();
        flushes.note_flushed(late);
        assert!(!flushes.is_owed() && flushes.covers(written));
        flushes.note_flushed(early);
        assert!(!flushes.is_owed(), "an older flush takes nothing back");
    }

    #[test]
    fn evicted_files_are_remembered_until_a_flush() {
        let flushes = Flushes::default();
        assert!(flushes.covers(flushes.written_by_evicted()), "none");
        let written = flushes.note_written();
        flushes.note_evicted(written);
        assert_eq!(flushes.written_by_evicted(), written);
        assert!(!flushes.covers(written));
        let started = flushes.moment();
        flushes.note_flushed(started);
        assert!(flushes.covers(flushes.written_by_evicted()));
    }
}
