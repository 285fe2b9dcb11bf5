//! [`Order`]: reports lock and unlock operations to the record of lock order. Empty in release
//! builds.

#[cfg(debug_assertions)]
mod book;

use std::marker::PhantomData;
#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU64, Ordering};

/// The class and the rank of a lock around a `T`.
pub(super) struct Order<T: ?Sized> {
    #[cfg(debug_assertions)]
    rank: AtomicU64,
    class: PhantomData<fn(&T)>,
}

impl<T: ?Sized> Order<T> {
    /// Creates an order without a rank.
    pub(super) const fn new() -> Self {
        Self {
            #[cfg(debug_assertions)]
            rank: AtomicU64::new(0),
            class: PhantomData,
        }
    }
}

#[cfg(debug_assertions)]
impl<T: ?Sized> Order<T> {
    pub(super) fn set_rank(&self, rank: u64) {
        self.rank.store(rank, Ordering::Relaxed);
    }

    /// Records that the caller is about to wait for the lock.
    #[track_caller]
    pub(super) fn ask(&self) {
        book::ask(self.lock());
    }

    /// Records that the caller holds the lock.
    #[track_caller]
    pub(super) fn note(&self) {
        book::note(self.lock());
    }

    /// Records that the caller is about to release the lock.
    pub(super) fn forget(&self) {
        book::forget(self.address());
    }

    fn lock(&self) -> book::Lock {
        book::Lock {
            class: std::any::type_name::<T>(),
            address: self.address(),
            rank: self.rank.load(Ordering::Relaxed),
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

#[cfg(not(debug_assertions))]
#[allow(clippy::unused_self, reason = "in debug builds they use it")]
impl<T: ?Sized> Order<T> {
    #[inline]
    pub(super) fn set_rank(&self, _rank: u64) {}

    #[inline]
    pub(super) fn ask(&self) {}

    #[inline]
    pub(super) fn note(&self) {}

    #[inline]
    pub(super) fn forget(&self) {}
}
