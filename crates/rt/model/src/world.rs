//! The part of `rt::world` that the locks need.

/// A place where a thread waits.
#[derive(Debug, Clone, Copy)]
pub struct WaitPoint {
    /// Address of the object waited for.
    pub address: usize,
    /// Kind of wait.
    pub wait: Wait,
}

/// The kinds of waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Waits for a mutex.
    Mutex,
    /// Waits for a read-write lock, to read.
    Read,
    /// Waits for a read-write lock, to write.
    Write,
    /// Waits for a notification.
    Condvar,
}

/// The result of parking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parked {
    /// The thread was not parked.
    Invalid,
    /// The deadline passed; no model has one.
    TimedOut,
    /// The thread was woken with this token.
    Unparked(usize),
}

/// The result of an unpark.
#[derive(Debug, Clone, Copy)]
pub struct Woken {
    /// Number of waiters about to wake.
    pub count: usize,
    /// True if other waiters remain.
    pub has_more: bool,
    /// True if the lock is to be handed over.
    pub is_fair: bool,
}

/// The parking callbacks of `rt::world`.
#[expect(dead_code, reason = "no model has a deadline")]
pub trait ParkHooks {
    /// Checks once more that the wait is still necessary.
    fn validate(&mut self) -> bool;
    /// Runs before the thread sleeps.
    fn before_sleep(&mut self);
    /// Runs when the deadline has passed.
    fn timed_out(&mut self, was_last: bool);
}

/// The unparking callbacks of `rt::world`.
pub trait UnparkHooks {
    /// True if the next waiter is to be woken.
    fn wants(&mut self, wait: Wait) -> bool;
    /// Runs before the waiters do, and returns their token.
    fn found(&mut self, woken: Woken) -> usize;
}

/// Does nothing: loom switches threads by itself.
pub fn point() {}
