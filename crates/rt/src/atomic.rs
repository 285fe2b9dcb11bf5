//! Atomic integers with a [`point`] at every access.
//!
//! A simulated world runs its tasks one at a time. It explores the orders of accesses, but not the
//! effects of weak memory ordering.

#[doc(no_inline)]
pub use std::sync::atomic::Ordering;

use crate::world::point;

macro_rules! common {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $value:ty) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name($inner);

        impl $name {
            /// Creates an atomic with this value.
            pub const fn new(value: $value) -> Self {
                Self(<$inner>::new(value))
            }

            /// Returns the value.
            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                point();
                self.0.load(order)
            }

            /// Replaces the value.
            #[inline]
            pub fn store(&self, value: $value, order: Ordering) {
                point();
                self.0.store(value, order);
            }

            /// Replaces the value and returns the old one.
            #[inline]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.swap(value, order)
            }

            /// Replaces the value if it is `current`. Returns the old value, as an error if it
            /// differed.
            #[inline]
            #[expect(clippy::missing_errors_doc, reason = "the error is the first sentence")]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange(current, new, success, failure)
            }

            /// Replaces the value if it is `current`, as
            /// [`compare_exchange`](Self::compare_exchange) does: a spurious failure would make a
            /// simulated world depend on the processor.
            #[inline]
            #[expect(clippy::missing_errors_doc, reason = "the error is the first sentence")]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            /// Replaces the value by a function of it, repeating the call if the value has changed
            /// meanwhile. Returns the old value, as an error if the function returned `None`.
            #[inline]
            #[expect(clippy::missing_errors_doc, reason = "the error is the first sentence")]
            pub fn fetch_update(
                &self,
                set_order: Ordering,
                fetch_order: Ordering,
                mut update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut current = self.load(fetch_order);
                while let Some(new) = update(current) {
                    match self.compare_exchange(current, new, set_order, fetch_order) {
                        Ok(old) => return Ok(old),
                        Err(now) => current = now,
                    }
                }
                Err(current)
            }

            /// Returns the value by exclusive access.
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// Consumes the atomic and returns its value.
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }
        }

        impl From<$value> for $name {
            fn from(value: $value) -> Self {
                Self::new(value)
            }
        }
    };
}

macro_rules! fetch {
    ($name:ident, $value:ty, $($(#[$doc:meta])* $method:ident),* $(,)?) => {
        impl $name {
            $(
                $(#[$doc])*
                #[inline]
                pub fn $method(&self, operand: $value, order: Ordering) -> $value {
                    point();
                    self.0.$method(operand, order)
                }
            )*
        }
    };
}

macro_rules! integer {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $value:ty) => {
        common!($(#[$doc])* $name, $inner, $value);
        fetch!(
            $name, $value,
            /// Adds, wrapping around, and returns the old value.
            fetch_add,
            /// Subtracts, wrapping around, and returns the old value.
            fetch_sub,
            /// Stores the bitwise and, and returns the old value.
            fetch_and,
            /// Stores the bitwise or, and returns the old value.
            fetch_or,
            /// Stores the bitwise exclusive or, and returns the old value.
            fetch_xor,
            /// Stores the larger value, and returns the old one.
            fetch_max,
            /// Stores the smaller value, and returns the old one.
            fetch_min,
        );
    };
}

common!(
    /// An atomic flag.
    AtomicBool, std::sync::atomic::AtomicBool, bool
);
fetch!(
    AtomicBool, bool,
    /// Stores the logical and, and returns the old value.
    fetch_and,
    /// Stores the logical or, and returns the old value.
    fetch_or,
    /// Stores the logical exclusive or, and returns the old value.
    fetch_xor,
);
integer!(
    /// An atomic 32-bit number.
    AtomicU32, std::sync::atomic::AtomicU32, u32
);
integer!(
    /// An atomic 64-bit number.
    AtomicU64, std::sync::atomic::AtomicU64, u64
);
integer!(
    /// An atomic number of the processor's word size.
    AtomicUsize, std::sync::atomic::AtomicUsize, usize
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_do_what_the_standard_ones_do() {
        let number = AtomicU64::new(5);
        assert_eq!(number.fetch_add(3, Ordering::Relaxed), 5);
        assert_eq!(number.fetch_max(20, Ordering::Relaxed), 8);
        assert_eq!(number.swap(1, Ordering::AcqRel), 20);
        assert_eq!(
            number.compare_exchange(2, 3, Ordering::AcqRel, Ordering::Acquire),
            Err(1)
        );
        let doubled = number.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| Some(n * 2));
        assert_eq!((doubled, number.into_inner()), (Ok(1), 2));

        let flag = AtomicBool::default();
        assert!(!flag.fetch_or(true, Ordering::Relaxed));
        assert!(flag.load(Ordering::Relaxed));
    }
}
