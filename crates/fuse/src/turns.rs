//! Turns of the session's threads: one of them reads requests while turns are limited.
//!
//! The kernel wakes the thread that has waited longest for a request. So the threads of a session
//! take turns even if one program sends one request after the other: each request then needs a
//! wake-up of a thread that is cold. While turns are limited, a thread that has answered a request
//! parks instead of reading the next one if another thread reads. [`crate::wakeups`] decides when.
//!
//! # Rules
//!
//! - A request that waits keeps no other from being read. A thread gives its turn away before it
//!   executes a request that may wait: [`Turns::long`], [`Turns::give`]. A request that waits
//!   unexpectedly loses its turn to [`Supervisor::watch`], which runs every few milliseconds while
//!   turns are limited.
//! - fuser makes several requests of one that drops many references. The thread does not park
//!   between these parts, and the parts lose their turn together: [`Turns::part`].
//! - Turns are limited only under a [`Supervisor`], and no longer once it is dropped.
//! - At the end of the connection there are no requests, so that turns are no longer limited: all
//!   threads read, and see the end.
//! - The beginning of a short request takes no lock: a thread that sleeps then holds no write, on
//!   which [`crate::arrivals`] relies.

mod supervisor;

use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

pub(crate) use supervisor::Supervisor;

/// Number of threads that read while turns are limited.
const READERS: usize = 1;

/// The turns of one session.
#[derive(Debug)]
pub(crate) struct Turns {
    is_limited: AtomicBool,
    /// Number of threads that read or execute a short request. It becomes smaller than
    /// [`READERS`] under the lock of `parked` alone, or before a thread takes that lock to call
    /// another.
    readers: AtomicUsize,
    parked: Mutex<Parked>,
    called: Condvar,
    slots: Mutex<Vec<Arc<Slot>>>,
    /// Number of requests that gave their turn away.
    long: AtomicU64,
}

/// The threads that wait for a turn.
#[derive(Debug, Default)]
struct Parked {
    /// Number of threads that have not been called.
    count: usize,
    /// Number of threads that have been called and still sleep.
    called: usize,
}

/// The request of a thread: its number, and one of the states.
#[derive(Debug, Default)]
struct Slot(AtomicU64);

const IDLE: u64 = 0;
const SHORT: u64 = 1;
const LONG: u64 = 2;
const STATES: u64 = 4;

impl Slot {
    /// Returns true if the request before has not ended, and was long.
    fn begin(&self) -> bool {
        let number = self.0.load(Ordering::Relaxed) / STATES;
        let next = (number + 1) % (u64::MAX / STATES);
        self.0.swap(next * STATES + SHORT, Ordering::SeqCst) % STATES == LONG
    }

    fn begin_unless_begun(&self) {
        if self.0.load(Ordering::Relaxed) % STATES == IDLE {
            self.begin();
        }
    }

    /// Marks the request as long if it is still that one and short.
    fn give(&self, request: u64) -> bool {
        let order = Ordering::SeqCst;
        request % STATES == SHORT
            && self
                .0
                .compare_exchange(request, request - SHORT + LONG, order, order)
                .is_ok()
    }

    /// Returns true if the request was long.
    fn end(&self) -> bool {
        let number = self.0.load(Ordering::Relaxed) / STATES;
        self.0.swap(number * STATES + IDLE, Ordering::SeqCst) % STATES == LONG
    }
}

/// The slot of a thread of a session. A thread that exits seems to execute a request forever, so
/// that the others do not count on it.
struct Own(Arc<Slot>);

impl Drop for Own {
    fn drop(&mut self) {
        self.0.begin_unless_begun();
    }
}

thread_local! {
    static OWN: OnceCell<Own> = const { OnceCell::new() };
}

/// The turn of a thread during a request, dropped after the answer. The drop returns when the
/// thread may read again.
pub(crate) struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let turns = self.0;
        if turns.with_own(|slot| slot.end()) {
            turns.readers.fetch_add(1, Ordering::SeqCst);
        }
        let is_limited = turns.is_limited.load(Ordering::Relaxed);
        if is_limited && turns.readers.load(Ordering::Relaxed) > READERS {
            turns.park();
        }
    }
}

impl Turns {
    /// Creates the turns of so many threads.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            is_limited: AtomicBool::new(false),
            readers: AtomicUsize::new(threads),
            parked: Mutex::default(),
            called: Condvar::new(),
            slots: Mutex::default(),
            long: AtomicU64::new(0),
        }
    }

    /// Begins a request that does not wait as a rule.
    pub(crate) fn short(&self) -> Turn<'_> {
        if self.with_watched(Slot::begin) == Some(true) {
            self.readers.fetch_add(1, Ordering::SeqCst);
        }
        Turn(self)
    }

    /// Begins a part of a request, or continues with the next one: fuser does not tell where the
    /// request begins and ends. So the thread does not park afterwards, and the request lasts until
    /// the next other one.
    pub(crate) fn part(&self) {
        self.with_watched(Slot::begin_unless_begun);
    }

    /// Works on the slot of this thread, without waiting for a lock. If the list of slots is in
    /// use, the first request of a thread is not watched. If no other thread reads meanwhile, there
    /// are few requests, and turns are no longer limited.
    fn with_watched<T>(&self, work: impl FnOnce(&Slot) -> T) -> Option<T> {
        OWN.with(|own| {
            if own.get().is_none()
                && let Ok(slots) = self.slots.try_lock()
            {
                let _ = own.set(Self::register(slots));
            }
            own.get().map(|own| work(&own.0))
        })
    }

    /// Begins a request that may wait.
    pub(crate) fn long(&self) -> Turn<'_> {
        let turn = self.short();
        self.give();
        turn
    }

    /// Gives the turn of this thread away, as its request may wait.
    pub(crate) fn give(&self) {
        let is_given = self.with_own(|slot| {
            slot.begin_unless_begun();
            slot.give(slot.0.load(Ordering::Relaxed))
        });
        if is_given {
            self.hand_on();
        }
    }

    fn with_own<T>(&self, work: impl FnOnce(&Slot) -> T) -> T {
        let register = || Self::register(self.slots.lock().unwrap_or_else(PoisonError::into_inner));
        OWN.with(|own| work(&own.get_or_init(register).0))
    }

    #[cold]
    fn register(mut slots: MutexGuard<'_, Vec<Arc<Slot>>>) -> Own {
        let slot = Arc::<Slot>::default();
        slots.push(Arc::clone(&slot));
        Own(slot)
    }

    fn lock(&self) -> MutexGuard<'_, Parked> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a turn from a thread whose request may wait, and calls another thread if too few read.
    fn hand_on(&self) {
        self.readers.fetch_sub(1, Ordering::SeqCst);
        self.long.fetch_add(1, Ordering::Relaxed);
        // A thread that parks sees the smaller number, or is seen here.
        if self.is_limited.load(Ordering::SeqCst) {
            let mut parked = self.lock();
            if self.readers.load(Ordering::SeqCst) < READERS {
                self.call(&mut parked, 1);
            }
        }
    }

    /// Calls parked threads: they count as readers at once.
    fn call(&self, parked: &mut Parked, count_max: usize) {
        let count = parked.count.min(count_max);
        parked.count -= count;
        parked.called += count;
        self.readers.fetch_add(count, Ordering::SeqCst);
        for _ in 0..count {
            self.called.notify_one();
        }
    }

    /// Waits until this thread may read, unless too few others do.
    fn park(&self) {
        let mut parked = self.lock();
        let is_enough = self.readers.load(Ordering::SeqCst) > READERS;
        if !is_enough || !self.is_limited.load(Ordering::SeqCst) {
            return;
        }
        self.readers.fetch_sub(1, Ordering::SeqCst);
        parked.count += 1;
        while parked.called == 0 {
            let waited = self.called.wait(parked);
            parked = waited.unwrap_or_else(PoisonError::into_inner);
        }
        parked.called -= 1;
        drop(parked);
    }

    fn set_limited(&self, is_limited: bool) {
        let mut parked = self.lock();
        self.is_limited.store(is_limited, Ordering::SeqCst);
        if !is_limited {
            self.call(&mut parked, usize::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    /// The handlers that execute nothing.
    const EMPTY: [&str; 3] = ["init", "flush", "opendir"];

    /// While a thread without a turn waits, no other may read.
    #[test]
    fn every_request_has_a_turn() {
        let source = include_str!("adapter.rs");
        let (_, handlers) = source
            .split_once("impl Filesystem for Adapter {")
            .expect("the handlers");
        let handlers = handlers.split("\n    fn ").skip(1);
        let handlers: Vec<_> = handlers
            .filter_map(|handler| handler.split_once('('))
            .collect();
        for (name, body) in &handlers {
            let count = body.matches("let _turn = self.turns.").count()
                + body.matches("self.turns.part()").count();
            assert_eq!(count, usize::from(!EMPTY.contains(name)), "{name}");
        }
    }
}
