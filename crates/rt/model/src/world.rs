//! As much of `rt::world` as the locks need.

/// Where a thread waits, and for what.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The address of the object waited for.
    pub address: usize,
    /// What the thread wants of it.
    pub wait: Wait,
}

/// What a parked thread wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// A mutex.
    Mutex,
    /// A read-write lock, for reading.
    Read,
    /// A read-write lock, for writing.
    Write,
    /// A notification.
    Condvar,
}

/// How a thread came back from parking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parked {
    /// It was never parked.
    Invalid,
    /// Never happens here.
    TimedOut,
    /// Woken, with a token.
    Unparked(usize),
}

/// What an unpark found.
#[derive(Debug, Clone, Copy)]
pub struct Woken {
    /// How many are about to wake.
    pub count: usize,
    /// Whether others remain.
    pub has_more: bool,
    /// Whether to hand over.
    pub is_fair: bool,
}

/// As in `rt`.
#[expect(dead_code, reason = "no model has a deadline")]
pub trait ParkHooks {
    /// As in `rt`.
    fn validate(&mut self) -> bool;
    /// As in `rt`.
    fn before_sleep(&mut self);
    /// As in `rt`.
    fn timed_out(&mut self, was_last: bool);
}

/// As in `rt`.
pub trait UnparkHooks {
    /// As in `rt`.
    fn wants(&mut self, wait: Wait) -> bool;
    /// As in `rt`.
    fn found(&mut self, woken: Woken) -> usize;
}

/// As in `rt`.
pub fn point() {}
