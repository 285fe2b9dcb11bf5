//! The atomics under the locks. The model checker in `model/` puts its own in their place.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};
