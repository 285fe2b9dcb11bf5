//! The faces of the raw locks: what `lock_api` asks of them, and the public half of [`Condvar`].

use std::fmt;

use lock_api::GuardNoSend;

use super::condvar::Condvar;
use super::order::Order;
use super::raw_mutex::RawMutex;
use super::raw_rwlock::RawRwLock;
use super::{MutexGuard, RwLock};
use crate::Nanos;
use crate::home::Home;
use crate::primitive::{AtomicBool, AtomicU8, AtomicUsize};
use crate::world::{Wait, point};

/// The raw lock of a [`Mutex`](super::Mutex) around a `T`, which is the class of its order in debug builds.
pub struct MutexOf<T: ?Sized> {
    raw: RawMutex,
    order: Order<T>,
}

/// The raw lock of a [`RwLock`](super::RwLock) around a `T`, which is the class of its order in debug builds.
pub struct RwLockOf<T: ?Sized> {
    raw: RawRwLock,
    order: Order<T>,
}

// SAFETY: the lock is held by one thread at a time: `LOCKED` is set by a compare-exchange from a state without it, with
// acquire order, or stays set when it is handed over; it is cleared only by the holder, with release order.
unsafe impl<T: ?Sized> lock_api::RawMutex for MutexOf<T> {
    const INIT: Self = Self {
        raw: RawMutex {
            state: AtomicU8::new(0),
            home: Home::unknown(),
        },
        order: Order::new(),
    };

    type Guard = GuardNoSend;

    #[inline]
    #[track_caller]
    fn lock(&self) -> GuardNoSend {
        self.order.ask();
        self.raw.acquire();
        self.order.note();
        GuardNoSend::new()
    }

    #[inline]
    #[track_caller]
    fn try_lock(&self) -> Option<GuardNoSend> {
        self.raw.try_acquire().then(|| {
            self.order.note();
            GuardNoSend::new()
        })
    }

    #[inline]
    unsafe fn unlock(&self, _guard: GuardNoSend) {
        self.order.forget();
        self.raw.release();
        point();
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.raw.is_held()
    }
}

// SAFETY: `WRITER` is set only from a state of zero, and readers are added only to states without `WRITER`; when the
// lock is handed over, both happen while nobody holds it. Releases have release order, acquisitions acquire order.
unsafe impl<T: ?Sized> lock_api::RawRwLock for RwLockOf<T> {
    const INIT: Self = Self {
        raw: RawRwLock {
            state: AtomicUsize::new(0),
            home: Home::unknown(),
        },
        order: Order::new(),
    };

    type SharedGuard = GuardNoSend;
    type ExclusiveGuard = GuardNoSend;

    #[inline]
    #[track_caller]
    fn lock_shared(&self) -> GuardNoSend {
        self.order.ask();
        self.raw.acquire(Wait::Read);
        self.order.note();
        GuardNoSend::new()
    }

    #[inline]
    #[track_caller]
    fn try_lock_shared(&self) -> Option<GuardNoSend> {
        self.raw.try_acquire(Wait::Read).then(|| {
            self.order.note();
            GuardNoSend::new()
        })
    }

    #[inline]
    unsafe fn unlock_shared(&self, _guard: GuardNoSend) {
        self.order.forget();
        self.raw.release_read();
    }

    #[inline]
    #[track_caller]
    fn lock_exclusive(&self) -> GuardNoSend {
        self.order.ask();
        self.raw.acquire(Wait::Write);
        self.order.note();
        GuardNoSend::new()
    }

    #[inline]
    #[track_caller]
    fn try_lock_exclusive(&self) -> Option<GuardNoSend> {
        self.raw.try_acquire(Wait::Write).then(|| {
            self.order.note();
            GuardNoSend::new()
        })
    }

    #[inline]
    unsafe fn unlock_exclusive(&self, _guard: GuardNoSend) {
        self.order.forget();
        self.raw.release_write();
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.raw.is_held()
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.raw.is_held_by_writer()
    }
}

/// Gives a lock its place among the locks of its type: those with smaller ranks are locked first. Only debug builds look
/// at it.
pub fn set_rank<T: ?Sized>(lock: &RwLock<T>, rank: u64) {
    // SAFETY: nothing is locked or unlocked through the raw lock.
    unsafe { lock.raw() }.order.set_rank(rank);
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
    #[track_caller]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_for(guard, None);
    }

    /// Like [`wait`](Self::wait), but no longer than until a moment of [`monotonic`](crate::monotonic). Says whether that
    /// moment came without a notification.
    #[track_caller]
    pub fn wait_until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Nanos) -> bool {
        self.wait_for(guard, Some(deadline))
    }

    #[track_caller]
    fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Option<Nanos>) -> bool {
        // SAFETY: `wait_unlocked` unlocks and locks the raw mutex in a pair, so that it is locked whenever the guard can be
        // used.
        let mutex = unsafe { MutexGuard::mutex(guard).raw() };
        mutex.order.forget();
        // It is asked for again after all others that are held.
        mutex.order.ask();
        let is_late = self.wait_unlocked(&mutex.raw, deadline);
        mutex.order.note();
        is_late
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
