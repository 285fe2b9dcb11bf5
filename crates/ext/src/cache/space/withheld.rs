//! Free clusters that a trim withholds from allocation, part after part, while the device discards
//! them.
//!
//! An allocation that fails meanwhile is tried again once the part is back. A part may come and go
//! during one attempt, so the caller notes before it how many have ended, and compares.

use rt::atomic::{AtomicU64, Ordering};
use rt::{Condvar, Mutex, MutexGuard};

/// The parts of the trims of a volume. One trim runs at a time.
#[derive(Default)]
pub(crate) struct Withheld {
    /// Held by a trim while it runs. // [trim]
    trim: Mutex<()>,
    /// Number of parts that have begun. // [withheld] leaf
    begun: Mutex<Begun>,
    /// Number of parts that have ended; written with `begun` locked.
    ended: AtomicU64,
    /// Notified when a part ends.
    is_back: Condvar,
}

#[derive(Default)]
struct Begun(u64);

/// A running trim.
pub(crate) struct Trim<'w> {
    withheld: &'w Withheld,
    _only: MutexGuard<'w, ()>,
}

/// A part whose clusters may be withheld; dropped when they are back.
pub(crate) struct Part<'w>(&'w Withheld);

impl Withheld {
    /// Waits until no other trim runs.
    pub(crate) fn trim(&self) -> Trim<'_> {
        Trim {
            withheld: self,
            _only: self.trim.lock(),
        }
    }

    /// Returns the number of parts that have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns true if a part was withheld at some time since `ended` parts had ended, and waits
    /// until the current one is back.
    pub(crate) fn wait_since(&self, ended: u64) -> bool {
        let mut begun = self.begun.lock();
        let current = begun.0;
        while self.ended() < current {
            self.is_back.wait(&mut begun);
        }
        current > ended
    }
}

impl Trim<'_> {
    /// Begins a part, before its clusters are withheld.
    pub(crate) fn part(&self) -> Part<'_> {
        self.withheld.begun.lock().0 += 1;
        Part(self.withheld)
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        let begun = self.0.begun.lock();
        self.0.ended.fetch_add(1, Ordering::Release);
        drop(begun);
        self.0.is_back.notify_all();
    }
}
