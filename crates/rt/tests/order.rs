//! Tests of the record of lock order, which debug builds keep.

#![cfg(debug_assertions)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests look at the locks from outside"
)]

use rt::{Condvar, Mutex, RwLock};

/// Declares types, each a class of its own: the record lasts as long as the process.
macro_rules! classes {
    ($($name:ident),*) => { $(struct $name;)* };
}

/// Runs `body` in a thread and returns the message of its panic, if any.
fn fault(body: impl FnOnce() + Send + 'static) -> Option<String> {
    rt::spawn("faulty", body)
        .join()
        .err()
        .map(|panicked| panicked.message)
}

fn assert_fault(body: impl FnOnce() + Send + 'static, text: &str) {
    let fault = fault(body);
    assert!(
        fault.as_ref().is_some_and(|fault| fault.contains(text)),
        "{fault:?}"
    );
}

#[test]
fn two_orders_are_found_though_nothing_waits() {
    classes!(A, B);
    let (a, b) = (Mutex::new(A), RwLock::new(B));
    drop((a.lock(), b.read()));
    let back = move || drop((b.read(), a.lock()));
    assert_fault(back, "locks are taken in two orders");
}

#[test]
fn two_orders_of_different_locks_and_threads_are_found() {
    classes!(A, B);
    let one = || {
        let (a, b) = (Mutex::new(A), Mutex::new(B));
        drop((a.lock(), b.lock()));
    };
    let other = || {
        let (a, b) = (Mutex::new(A), Mutex::new(B));
        drop((b.lock(), a.lock()));
    };
    assert_eq!(fault(one), None);
    assert_fault(other, "locks are taken in two orders");
}

#[test]
fn a_circle_over_three_is_found_and_told_whole() {
    classes!(A, B, C);
    let (a, b, c) = (Mutex::new(A), Mutex::new(B), Mutex::new(C));
    drop((a.lock(), b.lock()));
    drop((b.lock(), c.lock()));
    let fault = fault(move || drop((c.lock(), a.lock()))).unwrap_or_default();
    for step in ["::A at ", "::B at ", "; and now: ", "::C at "] {
        assert!(fault.contains(step), "{step} is missing: {fault}");
    }
}

#[test]
fn what_is_tried_adds_no_order_but_is_held() {
    classes!(A, B);
    let (a, b) = (Mutex::new(A), Mutex::new(B));
    let held = a.lock();
    assert!(b.try_lock().is_some(), "nobody has it");
    drop(held);
    let tried = b.try_lock();
    drop(a.lock());
    drop(tried);
    assert_fault(
        move || drop((a.lock(), b.lock())),
        "locks are taken in two orders",
    );
}

#[test]
fn locks_of_one_type_need_ranks_and_keep_them() {
    classes!(A);
    let pair = || (RwLock::new(A), RwLock::new(A));
    let (one, two) = pair();
    assert_fault(move || drop((one.read(), two.read())), "has no order");
    for (first, second, is_good) in [(1, 1, true), (1, 2, true), (2, 1, false)] {
        let (one, two) = pair();
        rt::sync::set_rank(&one, first);
        rt::sync::set_rank(&two, second);
        let fault = fault(move || drop((one.write(), two.write())));
        assert_eq!(fault.is_none(), is_good, "{fault:?}");
    }
}

#[test]
fn a_lock_that_is_held_is_not_asked_for_again() {
    let lock = RwLock::new(());
    let twice = move || drop((lock.read(), lock.read()));
    assert_fault(twice, "a lock that it holds");
}

#[test]
fn who_waits_takes_the_mutex_again_after_what_it_holds() {
    classes!(A, B);
    let (a, b, condvar) = (Mutex::new(A), Mutex::new(B), Condvar::new());
    let waits = move || {
        let mut first = a.lock();
        let _second = b.lock();
        condvar.wait_until(&mut first, rt::monotonic());
    };
    assert_fault(waits, "locks are taken in two orders");
}
