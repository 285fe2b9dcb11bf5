//! [`random_u64`]: random numbers of the world.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use crate::world;

/// Returns a random number: from the world's seed in simulation, else from the system.
///
/// Good for seeds, UUIDs and jitter; not for secrets.
pub fn random_u64() -> u64 {
    match world::current() {
        Some(world) => world.random(),
        None => RandomState::new().hash_one(0_u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ() {
        assert_ne!(random_u64(), random_u64());
    }
}
