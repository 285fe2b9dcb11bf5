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
        own::check(self);
        self.acquire(Wait::Read);
        own::note(self);
        GuardNoSend::new()
    }

    #[inline]
    fn try_lock_shared(&self) -> Option<GuardNoSend> {
        self.try_acquire(Wait::Read).then(|| {
            own::note(self);
            GuardNoSend::new()
        })
    }

    #[inline]
    unsafe fn unlock_shared(&self, _guard: GuardNoSend) {
        own::forget(self);
        self.release_read();
    }

    #[inline]
    fn lock_exclusive(&self) -> GuardNoSend {
        own::check(self);
        self.acquire(Wait::Write);
        own::note(self);
        GuardNoSend::new()
    }

    #[inline]
    fn try_lock_exclusive(&self) -> Option<GuardNoSend> {
        self.try_acquire(Wait::Write).then(|| {
            own::note(self);
            GuardNoSend::new()
        })
    }

    #[inline]
    unsafe fn unlock_exclusive(&self, _guard: GuardNoSend) {
        own::forget(self);
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

/// Which reader-writer locks a thread holds, in debug builds: who reads and asks to read again waits for ever if a writer has come in
/// between, which tests seldom see. Tasks of simulated worlds share a thread, and are not looked at.
mod own {
    #[cfg(debug_assertions)]
    use std::cell::RefCell;

    use super::RawRwLock;

    #[cfg(debug_assertions)]
    thread_local! {
        static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }

    /// That the thread does not hold the lock.
    #[inline]
    pub(super) fn check(lock: &RawRwLock) {
        #[cfg(debug_assertions)]
        HELD.with_borrow(|held| {
            let is_own = held.contains(&std::ptr::from_ref(lock).addr());
            assert!(
                !is_own || crate::world::is_simulated(),
                "a thread asks for a lock that it holds already: a writer between the two would make it wait for ever"
            );
        });
        #[cfg(not(debug_assertions))]
        let _ = lock;
    }

    /// The thread has it now.
    #[inline]
    pub(super) fn note(lock: &RawRwLock) {
        #[cfg(debug_assertions)]
        if !crate::world::is_simulated() {
            HELD.with_borrow_mut(|held| held.push(std::ptr::from_ref(lock).addr()));
        }
        #[cfg(not(debug_assertions))]
        let _ = lock;
    }

    /// The thread is about to give it back.
    #[inline]
    pub(super) fn forget(lock: &RawRwLock) {
        #[cfg(debug_assertions)]
        HELD.with_borrow_mut(|held| {
            let address = std::ptr::from_ref(lock).addr();
            if let Some(at) = held.iter().rposition(|own| *own == address) {
                held.swap_remove(at);
            }
        });
        #[cfg(not(debug_assertions))]
        let _ = lock;
    }
}
