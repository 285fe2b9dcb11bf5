//! A parking lot in loom's terms: one queue for all addresses, under one mutex.

use std::collections::VecDeque;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex, Notify};

use crate::Nanos;
use crate::world::{ParkHooks, Parked, WaitPoint, UnparkHooks, Woken};

loom::lazy_static! {
    static ref QUEUE: Mutex<VecDeque<Arc<Waiter>>> = Mutex::new(VecDeque::new());
    /// Nonzero if unlocking hands the lock over, as in a fair world.
    static ref IS_FAIR: AtomicUsize = AtomicUsize::new(0);
}

/// Token of a waiter that has not been woken.
const NOT_WOKEN: usize = usize::MAX;

struct Waiter {
    place: WaitPoint,
    token: AtomicUsize,
    wake: Notify,
}

/// Makes this run of the model fair: unlocking hands the lock over.
pub fn be_fair() {
    IS_FAIR.store(1, Ordering::Relaxed);
}

/// A spin that never spins: every wait in a model parks.
pub struct Spin;

impl Spin {
    pub fn new() -> Self {
        Self
    }

    pub fn spin(&mut self) -> bool {
        false
    }

    pub fn reset(&mut self) {}
}

pub fn park(place: WaitPoint, deadline: Option<Nanos>, hooks: &mut impl ParkHooks) -> Parked {
    assert!(deadline.is_none(), "a model has no clock");
    let waiter = {
        let mut queue = QUEUE.lock().unwrap();
        if !hooks.validate() {
            return Parked::Invalid;
        }
        let waiter = Waiter {
            place,
            token: AtomicUsize::new(NOT_WOKEN),
            wake: Notify::new(),
        };
        let waiter = Arc::new(waiter);
        queue.push_back(Arc::clone(&waiter));
        waiter
    };
    hooks.before_sleep();
    loop {
        // This may wake spuriously.
        waiter.wake.wait();
        match waiter.token.load(Ordering::Acquire) {
            NOT_WOKEN => {}
            token => return Parked::Unparked(token),
        }
    }
}

pub fn unpark_one(address: usize, found: impl FnMut(Woken) -> usize) {
    unpark(address, 1, |_| true, found);
}

pub fn unpark_while_wanted(address: usize, hooks: &mut impl UnparkHooks) {
    let hooks = std::cell::RefCell::new(hooks);
    unpark(
        address,
        usize::MAX,
        |place| hooks.borrow_mut().wants(place.wait),
        |woken| hooks.borrow_mut().found(woken),
    );
}

fn unpark(
    address: usize,
    count_max: usize,
    mut wants: impl FnMut(WaitPoint) -> bool,
    mut found: impl FnMut(Woken) -> usize,
) {
    let mut queue = QUEUE.lock().unwrap();
    let mut woken = Vec::new();
    let mut has_more = false;
    let mut index = 0;
    while index < queue.len() {
        if queue[index].place.address != address {
            index += 1;
        } else if woken.len() < count_max && wants(queue[index].place) {
            woken.extend(queue.remove(index));
        } else {
            has_more = true;
            break;
        }
    }
    let is_fair = IS_FAIR.load(Ordering::Relaxed) == 1;
    let token = found(Woken {
        count: woken.len(),
        has_more,
        is_fair,
    });
    for waiter in &woken {
        waiter.token.store(token, Ordering::Release);
    }
    drop(queue);
    woken.iter().for_each(|waiter| waiter.wake.notify());
}
