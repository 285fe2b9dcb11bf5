//! The `lock_api` interface of the raw locks, and the public half of [`Condvar`].

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

/// The raw lock of a [`Mutex`](super::Mutex). `T` is the class of its lock order in debug builds.
pub struct MutexOf<T: ?Sized> {
    raw: RawMutex,
    order: Order<T>,
}

/// The raw lock of a [`RwLock`](super::RwLock). `T` is the class of its lock order in debug builds.
pub struct RwLockOf<T: ?Sized> {
    raw: RawRwLock,
    order: Order<T>,
}

// SAFETY: one thread at a time holds the lock. `LOCKED` is set by a compare-exchange from a state
// without it, with acquire ordering, or stays set when the lock is handed over. Only the holder
// clears it, with release ordering.
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

// SAFETY: `WRITER` is set only from a state of zero, and readers are added only to states without
// `WRITER`. When the lock is handed over, both happen while no thread holds it. Releases have
// release ordering, acquisitions acquire ordering.
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

/// Sets the rank of a lock among the locks of its class: smaller ranks are locked first. Only debug
/// builds check it.
pub fn set_rank<T: ?Sized>(lock: &RwLock<T>, rank: u64) {
    // SAFETY: nothing is locked or unlocked through the raw lock.
    unsafe { lock.raw() }.order.set_rank(rank);
}

impl Condvar {
    /// Creates a condition variable without waiters.
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

    /// Unlocks the guard's mutex, waits until notified or until a moment of
    /// [`monotonic`](crate::monotonic), and locks it again. Returns true if the moment passed
    /// without a notification.
    #[track_caller]
    pub fn wait_until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Nanos) -> bool {
        self.wait_for(guard, Some(deadline))
    }

    #[track_caller]
    fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Option<Nanos>) -> bool {
        // SAFETY: `wait_unlocked` unlocks and locks the raw mutex in a pair, so that it is locked
        // whenever the guard can be used.
        let mutex = unsafe { MutexGuard::mutex(guard).raw() };
        mutex.order.forget();
        // The mutex is taken again after all other locks that are held.
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
