//! [`charge`]: reports host work to a simulated world.

use crate::cost::Cost;
use crate::world;

/// Adds host work to the virtual time that the calling task owes. Does nothing in the real world.
#[inline]
pub fn charge(cost: Cost) {
    if let Some(world) = world::current() {
        world.charge(cost);
    }
}
