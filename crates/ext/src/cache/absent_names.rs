//! [`AbsentNames`]: names that were searched for in vain, as a kernel's cache of names keeps them.
//! They decide about simulated costs only.

use core::hash::BuildHasher;

use foldhash::fast::FixedState;
use layout::InodeNr;
use rt::atomic::{AtomicU64, Ordering};

/// Number of names; one pushes out another of the same slot.
const SLOTS: usize = 64;

/// Names that were searched for in vain lately.
pub(crate) struct AbsentNames {
    /// Hashes of directory and name.
    slots: [AtomicU64; SLOTS],
}

impl AbsentNames {
    pub(crate) fn new() -> Self {
        Self {
            slots: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Notes that a directory has no such name. Returns true if that was noted before.
    pub(crate) fn note(&self, directory: InodeNr, name: &[u8]) -> bool {
        let hash = FixedState::default().hash_one((directory.get(), name));
        let slot = usize::try_from(hash % SLOTS as u64).expect("a slot's number fits");
        self.slots[slot].swap(hash, Ordering::Relaxed) == hash
    }
}
