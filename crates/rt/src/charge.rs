//! [`charge`] and [`charge_with`]: report host work to a simulated world.

use crate::cost::Cost;
use crate::world;

/// Adds host work to the virtual time that the calling task owes. Does nothing in the real world.
#[inline]
pub fn charge(cost: Cost) {
    if let Some(world) = world::current() {
        world.charge(cost);
    }
}

/// Like [`charge`], for work that takes some effort to count: `cost` runs only in a simulated
/// world.
#[inline]
pub fn charge_with(cost: impl FnOnce() -> Cost) {
    if let Some(world) = world::current() {
        world.charge(cost());
    }
}
