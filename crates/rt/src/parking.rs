//! Parking and unparking by address, in the world of the calling thread.
//!
//! The real world uses `parking_lot_core`; a simulated one implements
//! [`World`](crate::world::World). This is the slow path of every lock, and the only place in which
//! locks read the world.

use parking_lot_core::{FilterOp, ParkResult, ParkToken, UnparkToken};

use crate::world::{self, ParkHooks, Parked, UnparkHooks, UnparkScope, Wait, WaitPoint, Woken};
use crate::{Nanos, clock};

/// Waits at a place until unparked or until the deadline.
pub(crate) fn park(
    place: WaitPoint,
    deadline: Option<Nanos>,
    hooks: &mut impl ParkHooks,
) -> Parked {
    match world::current() {
        Some(world) => world.park(place, deadline, hooks),
        None => real_park(place, deadline, hooks),
    }
}

/// Wakes one waiter at an address.
pub(crate) fn unpark_one(address: usize, found: impl FnMut(Woken) -> usize) {
    let mut hooks = One { found };
    match world::current() {
        Some(world) => world.unpark(address, UnparkScope::One, &mut hooks),
        None => {
            // SAFETY: the address belongs to a lock of this crate, and `found` only touches that
            // lock's state.
            unsafe {
                parking_lot_core::unpark_one(address, |result| {
                    UnparkToken(hooks.found(real_woken(result)))
                });
            }
        }
    }
}

/// Wakes waiters at an address in order, until `hooks` rejects one.
pub(crate) fn unpark_while_wanted(address: usize, hooks: &mut impl UnparkHooks) {
    match world::current() {
        Some(world) => world.unpark(address, UnparkScope::WhileWanted, hooks),
        None => real_unpark_while_wanted(address, hooks),
    }
}

/// Number of rounds of a spin in which the processor pauses, each twice as long as the one before:
/// together about as long as it takes to change some memory that another processor has changed.
const PAUSES: u32 = 5;
/// Number of rounds after them that give the processor away.
const YIELDS: u32 = 7;

/// A bounded spin before parking, useful only if another processor may be about to unlock.
pub(crate) struct Spin {
    round: u32,
    is_allowed: bool,
}

impl Spin {
    /// Creates a spin; in a simulated world it never spins.
    pub(crate) fn new() -> Self {
        Self {
            round: 0,
            is_allowed: !world::is_simulated(),
        }
    }

    /// Spins for a moment. Returns false if the caller should park.
    pub(crate) fn spin(&mut self) -> bool {
        if !self.is_allowed || self.round == PAUSES + YIELDS {
            return false;
        }
        self.round += 1;
        if self.round <= PAUSES {
            for _ in 0..1_u32 << self.round {
                std::hint::spin_loop();
            }
        } else {
            std::thread::yield_now();
        }
        true
    }

    /// Starts again.
    pub(crate) fn reset(&mut self) {
        self.round = 0;
    }
}

struct One<F> {
    found: F,
}

impl<F: FnMut(Woken) -> usize> UnparkHooks for One<F> {
    fn wants(&mut self, _wait: Wait) -> bool {
        true
    }

    fn found(&mut self, woken: Woken) -> usize {
        (self.found)(woken)
    }
}

fn real_park(place: WaitPoint, deadline: Option<Nanos>, hooks: &mut impl ParkHooks) -> Parked {
    let hooks = std::cell::RefCell::new(hooks);
    let result = {
        // SAFETY: the address belongs to a lock of this crate. `validate` and `timed_out` only
        // touch that lock's state; `before_sleep` at most unparks.
        unsafe {
            parking_lot_core::park(
                place.address,
                || hooks.borrow_mut().validate(),
                || hooks.borrow_mut().before_sleep(),
                |_, was_last| hooks.borrow_mut().timed_out(was_last),
                ParkToken(token_of(place.wait)),
                deadline.and_then(clock::instant_at),
            )
        }
    };
    match result {
        ParkResult::Invalid => Parked::Invalid,
        ParkResult::TimedOut => Parked::TimedOut,
        ParkResult::Unparked(UnparkToken(token)) => Parked::Unparked(token),
    }
}

fn real_unpark_while_wanted(address: usize, hooks: &mut impl UnparkHooks) {
    let hooks = std::cell::RefCell::new(hooks);
    // SAFETY: as for `unpark_one`.
    unsafe {
        parking_lot_core::unpark_filter(
            address,
            |ParkToken(token)| match hooks.borrow_mut().wants(wait_of(token)) {
                true => FilterOp::Unpark,
                false => FilterOp::Stop,
            },
            |result| UnparkToken(hooks.borrow_mut().found(real_woken(result))),
        );
    }
}

fn real_woken(result: parking_lot_core::UnparkResult) -> Woken {
    Woken {
        count: result.unparked_threads,
        has_more: result.have_more_threads,
        is_fair: false,
    }
}

const WAITS: [Wait; 4] = [Wait::Mutex, Wait::Read, Wait::Write, Wait::Condvar];

fn token_of(wait: Wait) -> usize {
    match wait {
        Wait::Mutex => 0,
        Wait::Read => 1,
        Wait::Write => 2,
        Wait::Condvar => 3,
    }
}

fn wait_of(token: usize) -> Wait {
    WAITS[token]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_name_their_waits() {
        for wait in WAITS {
            assert_eq!(wait_of(token_of(wait)), wait);
        }
    }
}
