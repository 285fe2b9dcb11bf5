//! [`RawMutex`]: the lock under `Mutex`.
//!
//! One byte of state:
//!
//! | bit | meaning |
//! |---|---|
//! | `LOCKED` | a thread holds the lock |
//! | `PARKED` | a thread waits in the queue, or is about to |
//! | `STARVING` | a waiter was overtaken too often: the next unlock hands the lock over |
//!
//! # Rules
//!
//! - `PARKED` is set only while `LOCKED` is, and cleared only by an unlock that examines the queue.
//!   So a holder that sees no `PARKED` need not wake any thread.
//! - *Handing over*: the unlocker leaves `LOCKED` set and makes the waiter the holder. A fair
//!   simulated world always does so, the real one only for `STARVING`, because it costs a thread
//!   switch for each lock.

use crate::home::Home;
use crate::parking::{self, Spin};
use crate::primitive::{AtomicU8, Ordering};
use crate::world::{ParkHooks, Parked, Wait, WaitPoint, point};

const LOCKED: u8 = 1;
pub(super) const PARKED: u8 = 2;
pub(super) const STARVING: u8 = 4;

/// Token of a waiter that was woken and has to try again.
const TOKEN_TRY: usize = 0;
/// Token of a waiter that now holds the lock.
const TOKEN_HANDED_OVER: usize = 1;

/// Number of times that a waiter is overtaken before it asks for a handover.
const OVERTAKEN_MAX: u32 = 4;

/// The lock under [`Mutex`](crate::Mutex).
pub(crate) struct RawMutex {
    pub(super) state: AtomicU8,
    pub(super) home: Home,
}

impl RawMutex {
    /// Locks; waits if necessary.
    #[inline]
    pub(super) fn acquire(&self) {
        point();
        if self.exchange(0, LOCKED).is_err() {
            self.lock_slow();
        }
    }

    /// Locks if no wait is necessary.
    #[inline]
    pub(super) fn try_acquire(&self) -> bool {
        point();
        let mut state = self.state.load(Ordering::Relaxed);
        while state & LOCKED == 0 {
            match self.exchange(state, state | LOCKED) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Unlocks. The caller holds the lock. This is not a [`point`], because a task also unlocks on
    /// its way into a queue.
    #[inline]
    pub(super) fn release(&self) {
        if self
            .state
            .compare_exchange(LOCKED, 0, Ordering::Release, Ordering::Relaxed)
            .is_err()
        {
            self.unlock_slow();
        }
    }

    /// True if a thread holds the lock.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.state.load(Ordering::Relaxed) & LOCKED != 0
    }

    #[inline]
    fn exchange(&self, from: u8, to: u8) -> Result<u8, u8> {
        self.state
            .compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed)
    }

    #[cold]
    fn lock_slow(&self) {
        self.home.check();
        let mut spin = Spin::new();
        let mut overtaken_count = 0;
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state & LOCKED == 0 {
                match self.exchange(state, state | LOCKED) {
                    Ok(_) => return,
                    Err(now) => state = now,
                }
                continue;
            }
            if state & PARKED == 0 && spin.spin() {
                state = self.state.load(Ordering::Relaxed);
                continue;
            }
            let starving = if overtaken_count >= OVERTAKEN_MAX {
                STARVING
            } else {
                0
            };
            let wanted = state | PARKED | starving;
            if wanted != state
                && let Err(now) = self.exchange(state, wanted)
            {
                state = now;
                continue;
            }
            match self.park() {
                Parked::Unparked(TOKEN_HANDED_OVER) => return,
                Parked::Unparked(_) => overtaken_count += 1,
                Parked::Invalid => {}
                Parked::TimedOut => unreachable!("no deadline was given"),
            }
            spin.reset();
            state = self.state.load(Ordering::Relaxed);
        }
    }

    fn park(&self) -> Parked {
        let place = WaitPoint {
            address: self.address(),
            wait: Wait::Mutex,
        };
        parking::park(place, None, &mut Hooks { state: &self.state })
    }

    #[cold]
    fn unlock_slow(&self) {
        parking::unpark_one(self.address(), |woken| {
            let state = self.state.load(Ordering::Relaxed);
            // Not `STARVING`: while every unlock hands over, every lock takes a switch of threads,
            // and where threads always wait that would not end.
            let rest = if woken.has_more { PARKED } else { 0 };
            if woken.count > 0 && (woken.is_fair || state & STARVING != 0) {
                // The waiter synchronises with this store through the queue.
                self.state.store(LOCKED | rest, Ordering::Release);
                return TOKEN_HANDED_OVER;
            }
            self.state.store(rest, Ordering::Release);
            TOKEN_TRY
        });
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

struct Hooks<'a> {
    state: &'a AtomicU8,
}

impl ParkHooks for Hooks<'_> {
    fn validate(&mut self) -> bool {
        let both = LOCKED | PARKED;
        self.state.load(Ordering::Relaxed) & both == both
    }

    fn before_sleep(&mut self) {}

    fn timed_out(&mut self, _was_last: bool) {}
}
