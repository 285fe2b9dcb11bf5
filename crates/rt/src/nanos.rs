//! [`Nanos`]: a span of time, or a moment since the world started, in whole nanoseconds.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

const PER_MICRO: u64 = 1_000;
const PER_MILLI: u64 = 1_000_000;
const PER_SECOND: u64 = 1_000_000_000;

/// A span of time, or a moment since the world started, in nanoseconds.
///
/// The range is 584 years. Overflow and underflow panic: they are programming errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(u64);

impl Nanos {
    /// The empty span, or the moment when the world started.
    pub const ZERO: Self = Self(0);
    /// The last moment.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates a span from nanoseconds.
    pub const fn new(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Creates a span from microseconds.
    ///
    /// # Panics
    ///
    /// Panics if the span is more than 584 years; the other constructors likewise.
    pub const fn from_micros(micros: u64) -> Self {
        Self(scale(micros, PER_MICRO))
    }

    /// Creates a span from milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(scale(millis, PER_MILLI))
    }

    /// Creates a span from seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(scale(seconds, PER_SECOND))
    }

    /// Returns the number of nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / PER_MICRO
    }

    /// Returns whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / PER_MILLI
    }

    /// Returns whole seconds, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / PER_SECOND
    }

    /// Returns seconds as a floating-point number, for reports only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PER_SECOND as f64
    }

    /// Returns the difference, or zero if `other` is later.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns the sum, or the last moment on overflow.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the sum, or `None` on overflow.
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }
}

impl Add for Nanos {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(
            self.0
                .checked_add(other.0)
                .expect("a moment within 584 years"),
        )
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.checked_sub(other.0).expect("the later moment first"))
    }
}

impl SubAssign for Nanos {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Mul<u64> for Nanos {
    type Output = Self;

    fn mul(self, factor: u64) -> Self {
        Self(scale(self.0, factor))
    }
}

impl Div<u64> for Nanos {
    type Output = Self;

    fn div(self, divisor: u64) -> Self {
        Self(self.0 / divisor)
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Nanos {
    /// Formats in the largest unit that leaves a whole part, with three decimals: `1.234 s`, `5.000
    /// ms`, `17 ns`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0..PER_MICRO => return write!(out, "{} ns", self.0),
            PER_MICRO..PER_MILLI => (PER_MICRO, "us"),
            PER_MILLI..PER_SECOND => (PER_MILLI, "ms"),
            PER_SECOND.. => (PER_SECOND, "s"),
        };
        let thousandths = self.0 % unit / (unit / 1_000);
        write!(out, "{}.{thousandths:03} {name}", self.0 / unit)
    }
}

const fn scale(value: u64, factor: u64) -> u64 {
    match value.checked_mul(factor) {
        Some(product) => product,
        None => panic!("a span of time above 584 years"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_takes_the_largest_unit() {
        let check = |nanos: u64, expect: &str| assert_eq!(Nanos::new(nanos).to_string(), expect);
        check(0, "0 ns");
        check(17, "17 ns");
        check(1_000, "1.000 us");
        check(5_030_000, "5.030 ms");
        check(1_234_567_890, "1.234 s");
        check(61_000_000_000, "61.000 s");
    }

    #[test]
    fn arithmetic() {
        assert_eq!(Nanos::from_secs(1), Nanos::from_millis(500) * 2);
        assert_eq!(
            Nanos::from_micros(3) - Nanos::new(1_000),
            Nanos::from_micros(2)
        );
        assert_eq!(Nanos::new(1).saturating_sub(Nanos::new(2)), Nanos::ZERO);
        assert_eq!(
            [Nanos::new(1), Nanos::new(2)].into_iter().sum::<Nanos>(),
            Nanos::new(3)
        );
        assert_eq!(Nanos::MAX.checked_add(Nanos::new(1)), None);
    }

    #[test]
    #[should_panic(expected = "the later moment first")]
    fn underflow_panics() {
        let _ = Nanos::new(1) - Nanos::new(2);
    }
}
