//! [`RawRwLock`]: the lock under `RwLock`.
//!
//! One word of state:
//!
//! | bits | meaning |
//! |---|---|
//! | `WRITER` | a writer holds the lock |
//! | `PARKED` | somebody waits in the queue, or is about to |
//! | the rest | how many readers hold the lock, in units of `READER` |
//!
//! # Rules
//!
//! - Who finds `PARKED` set joins the queue, readers too: neither readers nor writers starve. (And a thread that reads
//!   must not ask to read again.)
//! - The lock is always handed over: the last holder gives it to the first waiter, and to the readers right behind it if
//!   that one is a reader.
//! - `PARKED` alone, without a holder, means that the last reader is on its way to the queue to hand over.

use crate::home::Home;
use crate::parking::{self, Spin};
use crate::primitive::{AtomicUsize, Ordering, fence};
use crate::world::{ParkHooks, Parked, Place, UnparkHooks, Wait, Woken, point};

const WRITER: usize = 1;
const PARKED: usize = 2;
const READER: usize = 4;

/// The lock under [`RwLock`](crate::RwLock).
pub(crate) struct RawRwLock {
    pub(super) state: AtomicUsize,
    pub(super) home: Home,
}

impl RawRwLock {
    /// Locks for reading or writing, waiting for it if need be.
    #[inline]
    pub(super) fn acquire(&self, wait: Wait) {
        if !self.try_acquire(wait) {
            self.wait_slow(wait);
        }
    }

    /// Locks for reading or writing if that needs no waiting.
    #[inline]
    pub(super) fn try_acquire(&self, wait: Wait) -> bool {
        point();
        self.take(wait)
    }

    /// Ends reading. The caller is a reader.
    #[inline]
    pub(super) fn release_read(&self) {
        let before = self.state.fetch_sub(READER, Ordering::Release);
        if before == READER | PARKED {
            // The other readers' ends happened before whatever the next holder does: the store that hands over ends
            // the sequence of their releases, so they must be acquired here.
            fence(Ordering::Acquire);
            self.hand_over();
        }
        point();
    }

    /// Ends writing. The caller is the writer.
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

    /// Whether anybody holds the lock.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.state.load(Ordering::Relaxed) & !PARKED != 0
    }

    /// Whether a writer holds the lock.
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
            let place = Place {
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

    /// Gives the lock, which nobody else can take now, to the first in the queue.
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

/// Whom the lock is handed to: the holders as bits of the state.
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
