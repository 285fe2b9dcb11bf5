//! The meter: counts the requests of a session, and wakes the thread that reads the count.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;

/// A counter of requests that can wake its reader.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    requests: AtomicU64,
    /// True if the next request is to wake the thread. If a race misses one, a later request wakes
    /// it, or none comes and it does not matter.
    is_asleep: AtomicBool,
    has_ended: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Meter {
    /// Counts a request.
    pub(crate) fn count(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.is_asleep.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Returns the number of requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Sets the thread that is woken.
    pub(super) fn set_reader(&self, thread: Thread) {
        let _ = self.thread.set(thread);
    }

    /// Makes the next request wake the reader, which is about to sleep.
    pub(super) fn wake_at_next(&self) {
        self.is_asleep.store(true, Ordering::Relaxed);
    }

    /// Tells the reader to end.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Returns true if the reader is to end.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    #[cold]
    fn wake(&self) {
        if self.is_asleep.swap(false, Ordering::Relaxed)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}
