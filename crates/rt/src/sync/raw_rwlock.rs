//! [`RawRwLock`]: the lock under `RwLock`.
//!
//! One word of state:
//!
//! | bits | meaning |
//! |---|---|
//! | `WRITER` | a writer holds the lock |
//! | `PARKED` | a thread waits in the queue, or is about to |
//! | the rest | number of readers that hold the lock, in units of `READER` |
//!
//! # Rules
//!
//! - A thread that finds `PARKED` set joins the queue, readers too: neither readers nor writers
//!   starve. (So a thread that holds a read lock must not take another.)
//! - The lock is always handed over: the last holder gives it to the first waiter, and to the
//!   readers directly after it if that one is a reader.
//! - `PARKED` alone, without a holder, means that the last reader is about to hand the lock over.

use crate::home::Home;
use crate::parking::{self, Spin};
use crate::primitive::{AtomicUsize, Ordering, fence};
use crate::world::{ParkHooks, Parked, UnparkHooks, Wait, WaitPoint, Woken, point};

const WRITER: usize = 1;
const PARKED: usize = 2;
const READER: usize = 4;

/// The lock under [`RwLock`](crate::RwLock).
pub(crate) struct RawRwLock {
    pub(super) state: AtomicUsize,
    pub(super) home: Home,
}

impl RawRwLock {
    /// Locks for reading or writing; waits if necessary.
    #[inline]
    pub(super) fn acquire(&self, wait: Wait) {
        if !self.try_acquire(wait) {
            self.wait_slow(wait);
        }
    }

    /// Locks for reading or writing if no wait is necessary.
    #[inline]
    pub(super) fn try_acquire(&self, wait: Wait) -> bool {
        point();
        self.take(wait)
    }

    /// Unlocks a read lock that the caller holds.
    #[inline]
    pub(super) fn release_read(&self) {
        let before = self.state.fetch_sub(READER, Ordering::Release);
        if before == READER | PARKED {
            // The releases of the other readers must happen before the next holder's acquisition.
            // The store that hands over ends their release sequence, so acquire them here.
            fence(Ordering::Acquire);
            self.hand_over();
        }
        point();
    }

    /// Unlocks the write lock that the caller holds.
    #[inline]
    pub(super) fn release_write(&self) {
        if self
            .state
            .compare_exchange(WRITER, 0, Ordering::Release, Ordering::Relaxed)
            .is_err()
        {
            self.hand_over();
        }
        point();
    }

    /// True if a thread holds the lock.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.state.load(Ordering::Relaxed) & !PARKED != 0
    }

    /// True if a writer holds the lock.
    #[inline]
    pub(super) fn is_held_by_writer(&self) -> bool {
        self.state.load(Ordering::Relaxed) & WRITER != 0
    }

    #[inline]
    fn take(&self, wait: Wait) -> bool {
        if wait != Wait::Read {
            return self.exchange(0, WRITER).is_ok();
        }
        let mut state = self.state.load(Ordering::Relaxed);
        while state & (WRITER | PARKED) == 0 {
            match self.exchange(state, state + READER) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    #[inline]
    fn exchange(&self, from: usize, to: usize) -> Result<usize, usize> {
        self.state
            .compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed)
    }

    #[cold]
    fn wait_slow(&self, wait: Wait) {
        self.home.check();
        let mut spin = Spin::new();
        loop {
            if self.take(wait) {
                return;
            }
            let state = self.state.load(Ordering::Relaxed);
            if state & PARKED == 0 {
                let is_free = state == 0 || (wait == Wait::Read && state & WRITER == 0);
                if is_free || spin.spin() || self.exchange(state, state | PARKED).is_err() {
                    continue;
                }
            }
            let place = WaitPoint {
                address: self.address(),
                wait,
            };
            match parking::park(place, None, &mut Hooks { state: &self.state }) {
                Parked::Unparked(_) => return,
                Parked::Invalid => spin.reset(),
                Parked::TimedOut => unreachable!("no deadline was given"),
            }
        }
    }

    /// Gives the lock, which no other thread can take now, to the first waiters in the queue.
    #[cold]
    fn hand_over(&self) {
        let mut grant = Grant {
            state: &self.state,
            holders: 0,
        };
        parking::unpark_while_wanted(self.address(), &mut grant);
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

struct Hooks<'a> {
    state: &'a AtomicUsize,
}

impl ParkHooks for Hooks<'_> {
    fn validate(&mut self) -> bool {
        self.state.load(Ordering::Relaxed) & PARKED != 0
    }

    fn before_sleep(&mut self) {}

    fn timed_out(&mut self, _was_last: bool) {}
}

/// The new holders of a lock, as bits of its state.
struct Grant<'a> {
    state: &'a AtomicUsize,
    holders: usize,
}

impl UnparkHooks for Grant<'_> {
    fn wants(&mut self, wait: Wait) -> bool {
        match wait {
            Wait::Read if self.holders & WRITER == 0 => {
                self.holders += READER;
                true
            }
            Wait::Write if self.holders == 0 => {
                self.holders = WRITER;
                true
            }
            _ => false,
        }
    }

    fn found(&mut self, woken: Woken) -> usize {
        let parked = if woken.has_more { PARKED } else { 0 };
        self.state.store(self.holders | parked, Ordering::Release);
        0
    }
}
