//! The faces of the raw locks: what `lock_api` asks of them, and the public half of [`Condvar`].

use std::fmt;

use lock_api::GuardNoSend;

use super::MutexGuard;
use super::condvar::Condvar;
use super::raw_mutex::RawMutex;
use super::raw_rwlock::RawRwLock;
use crate::Nanos;
use crate::home::Home;
use crate::primitive::{AtomicBool, AtomicU8, AtomicUsize};
use crate::world::{Wait, point};

// SAFETY: the lock is held by one thread at a time: `LOCKED` is set by a compare-exchange from a state without it, with
// acquire order, or stays set when it is handed over; it is cleared only by the holder, with release order.
unsafe impl lock_api::RawMutex for RawMutex {
    const INIT: Self = Self {
        state: AtomicU8::new(0),
        home: Home::unknown(),
    };

    type Guard = GuardNoSend;

    #[inline]
    fn lock(&self) -> GuardNoSend {
        self.acquire();
        GuardNoSend::new()
    }

    #[inline]
    fn try_lock(&self) -> Option<GuardNoSend> {
        self.try_acquire().then(GuardNoSend::new)
    }

    #[inline]
    unsafe fn unlock(&self, _guard: GuardNoSend) {
        self.release();
        point();
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.is_held()
    }
}

// SAFETY: `WRITER` is set only from a state of zero, and readers are added only to states without `WRITER`; when the
// lock is handed over, both happen while nobody holds it. Releases have release order, acquisitions acquire order.
unsafe impl lock_api::RawRwLock for RawRwLock {
    const INIT: Self = Self {
        state: AtomicUsize::new(0),
        home: Home::unknown(),
    };

    type SharedGuard = GuardNoSend;
    type ExclusiveGuard = GuardNoSend;

    #[inline]
    fn lock_shared(&self) -> GuardNoSend {
        self.acquire(Wait::Read);
        GuardNoSend::new()
    }

    #[inline]
    fn try_lock_shared(&self) -> Option<GuardNoSend> {
        self.try_acquire(Wait::Read).then(GuardNoSend::new)
    }

    #[inline]
    unsafe fn unlock_shared(&self, _guard: GuardNoSend) {
        self.release_read();
    }

    #[inline]
    fn lock_exclusive(&self) -> GuardNoSend {
        self.acquire(Wait::Write);
        GuardNoSend::new()
    }

    #[inline]
    fn try_lock_exclusive(&self) -> Option<GuardNoSend> {
        self.try_acquire(Wait::Write).then(GuardNoSend::new)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self, _guard: GuardNoSend) {
        self.release_write();
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.is_held()
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.is_held_by_writer()
    }
}

impl Condvar {
    /// A condition variable that nobody waits for.
    pub const fn new() -> Self {
        Self {
            has_waiters: AtomicBool::new(false),
            home: Home::unknown(),
        }
    }

    /// Unlocks the guard's mutex, waits for a notification, and locks it again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_unlocked(raw_mutex_of(guard), None);
    }

    /// Like [`wait`](Self::wait), but no longer than until a moment of [`monotonic`](crate::monotonic). Says whether that
    /// moment came without a notification.
    pub fn wait_until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Nanos) -> bool {
        self.wait_unlocked(raw_mutex_of(guard), Some(deadline))
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Condvar { .. }")
    }
}

fn raw_mutex_of<'a, T: ?Sized>(guard: &mut MutexGuard<'a, T>) -> &'a RawMutex {
    // SAFETY: `wait_unlocked` unlocks and locks the raw mutex in a pair, so that it is locked whenever the guard can be used.
    unsafe { MutexGuard::mutex(guard).raw() }
}
