//! [`Condvar`]: waiting for a change to what a mutex protects.

use super::raw_mutex::RawMutex;
use crate::Nanos;
use crate::home::Home;
use crate::parking;
use crate::primitive::{AtomicBool, Ordering};
use crate::world::{ParkHooks, Parked, UnparkHooks, Wait, WaitPoint, Woken, point};

/// A condition variable.
///
/// Change the condition while holding its mutex, then notify, with or without the mutex. Waiters
/// test the condition in a loop: another thread may have changed it again.
pub struct Condvar {
    /// True if a thread may be in the queue; written only while the queue cannot change.
    pub(super) has_waiters: AtomicBool,
    pub(super) home: Home,
}

impl Condvar {
    /// Wakes one waiter, if there is one.
    pub fn notify_one(&self) {
        point();
        if !self.has_waiters.load(Ordering::Relaxed) {
            return;
        }
        self.home.check();
        parking::unpark_one(self.address(), |woken| {
            self.has_waiters.store(woken.has_more, Ordering::Relaxed);
            0
        });
        point();
    }

    /// Wakes every waiter.
    pub fn notify_all(&self) {
        point();
        if !self.has_waiters.load(Ordering::Relaxed) {
            return;
        }
        self.home.check();
        let mut everybody = Everybody {
            has_waiters: &self.has_waiters,
        };
        parking::unpark_while_wanted(self.address(), &mut everybody);
        point();
    }

    /// Unlocks a mutex that the caller holds, waits for a notification or a deadline, and locks it
    /// again. Returns true if the deadline passed.
    pub(super) fn wait_unlocked(&self, mutex: &RawMutex, deadline: Option<Nanos>) -> bool {
        self.home.check();
        point();
        let place = WaitPoint {
            address: self.address(),
            wait: Wait::Condvar,
        };
        let mut hooks = Hooks {
            has_waiters: &self.has_waiters,
            mutex,
        };
        let parked = parking::park(place, deadline, &mut hooks);
        mutex.acquire();
        parked == Parked::TimedOut
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

struct Hooks<'a> {
    has_waiters: &'a AtomicBool,
    mutex: &'a RawMutex,
}

impl ParkHooks for Hooks<'_> {
    fn validate(&mut self) -> bool {
        self.has_waiters.store(true, Ordering::Relaxed);
        true
    }

    fn before_sleep(&mut self) {
        self.mutex.release();
    }

    fn timed_out(&mut self, was_last: bool) {
        if was_last {
            self.has_waiters.store(false, Ordering::Relaxed);
        }
    }
}

struct Everybody<'a> {
    has_waiters: &'a AtomicBool,
}

impl UnparkHooks for Everybody<'_> {
    fn wants(&mut self, _wait: Wait) -> bool {
        true
    }

    fn found(&mut self, woken: Woken) -> usize {
        self.has_waiters.store(woken.has_more, Ordering::Relaxed);
        0
    }
}
