//! The atomics under the locks. The model checker in `model/` substitutes its own.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};
