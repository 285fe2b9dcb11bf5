//! [`Home`]: the world in which a lock was first waited for, checked in debug builds.

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(debug_assertions)]
use crate::world;

/// The first world in which an object's slow path ran. Takes no space in release builds.
pub(crate) struct Home {
    #[cfg(debug_assertions)]
    id: AtomicU64,
}

impl Home {
    /// Creates a `Home` without a world.
    pub(crate) const fn unknown() -> Self {
        Self {
            #[cfg(debug_assertions)]
            id: AtomicU64::new(UNKNOWN_ID),
        }
    }

    /// Asserts, in debug builds, that the object is used in one world only.
    #[inline]
    pub(crate) fn check(&self) {
        #[cfg(debug_assertions)]
        {
            let here = world::current_id();
            let result =
                self.id
                    .compare_exchange(UNKNOWN_ID, here, Ordering::Relaxed, Ordering::Relaxed);
            if let Err(home) = result {
                assert!(
                    home == here,
                    "an object of world {home} was used in world {here}"
                );
            }
        }
    }
}

#[cfg(debug_assertions)]
const UNKNOWN_ID: u64 = u64::MAX;
