//! [`owe`] and [`settle`]: host work that a thread of the real world pays by sleeping.
//!
//! A program in a machine whose processor takes no time, such as the guest of a simulated world,
//! sleeps for what its work would cost elsewhere. A sleep for each piece of work would take long in
//! real time, so a thread collects the cost and pays
//!
//! - when it owes [`DEBT_MAX`];
//! - before it sleeps, and before it reads a clock that others read, too
//!   ([`uptime`](crate::uptime), [`wall`](crate::wall));
//! - at its end, if [`spawn`](crate::spawn) started it, so that a thread that joins it is as late.
//!
//! What it owes is a part of its [`monotonic`](crate::monotonic) time, so that every span it
//! measures has what was done in it, and no time is lost between one span and the next.
//!
//! A simulated world does more for [`charge`](crate::charge()): a task pays before all that others
//! can observe. Here a request may start up to [`DEBT_MAX`] before the work is paid for, unless the
//! thread calls [`settle`] before it.

use std::cell::Cell;
use std::time::Duration;

use crate::nanos::Nanos;

/// Debt at which a thread pays at once.
const DEBT_MAX: Nanos = Nanos::new(50_000);

thread_local! {
    static DEBT: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
}

/// Adds to the time that the calling thread owes in the real world.
pub fn owe(span: Nanos) {
    let debt = DEBT.get().saturating_add(span);
    DEBT.set(debt);
    if debt >= DEBT_MAX {
        settle();
    }
}

/// Returns what the calling thread owes in the real world.
pub(crate) fn owed() -> Nanos {
    DEBT.get()
}

/// Pays what the calling thread owes in the real world, by sleeping.
#[inline]
pub fn settle() {
    let debt = DEBT.take();
    if debt != Nanos::ZERO {
        std::thread::sleep(Duration::from_nanos(debt.get()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::{monotonic, spawn};

    const SMALL: Nanos = Nanos::new(40_000);

    #[test]
    fn a_span_has_the_work_that_was_done_in_it() {
        // An idle thread of a busy machine may be late, never early: all spans are long enough.
        for _ in 0..20 {
            let began = monotonic();
            owe(SMALL);
            assert!(monotonic() - began >= SMALL);
        }
    }

    /// Work that was done before a span is not in it, though it is paid for within it.
    #[test]
    fn a_span_has_only_the_work_that_was_done_in_it() {
        settle();
        let real = Instant::now();
        let start = monotonic();
        let spans = (0..50).map(|_| {
            owe(SMALL);
            let began = monotonic();
            owe(SMALL);
            monotonic() - began
        });
        let sum: Nanos = spans.sum();
        let all = monotonic() - start;
        assert!(all >= SMALL * 100, "{all}");
        // The thread may be late in any part.
        assert!(
            sum >= SMALL * 50 && sum <= all - SMALL * 50,
            "{sum} of {all}"
        );
        settle();
        assert!(real.elapsed() >= Duration::from_nanos((SMALL * 100).get()));
    }

    #[test]
    fn a_large_debt_is_paid_at_once() {
        owe(DEBT_MAX);
        assert_eq!(DEBT.get(), Nanos::ZERO);
        settle();
    }

    #[test]
    fn a_thread_pays_before_it_ends() {
        // More than a thread would keep, and than its start takes.
        let long = Nanos::from_millis(20);
        let began = monotonic();
        let left = spawn("debtor", move || {
            DEBT.set(long);
            DEBT.get()
        });
        assert_eq!(left.join(), Ok(long), "not before its end");
        assert!(monotonic() - began >= long);
    }
}
