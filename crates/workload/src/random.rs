//! Random streams, one per task, all derived from one seed; and the distributions that workloads
//! use.
//!
//! The generator is xoshiro256** (D. Blackman, S. Vigna, *Scrambled linear pseudorandom number
//! generators*, ACM TOMS 47(4), 2021), seeded through SplitMix64 from a mixture of the seed and the
//! task's number. PostMark uses the generator of its original
//! ([`postmark::random`](crate::postmark::random)).
//!
//! Distributions that need a logarithm repeat exactly on one machine only; the last bit of `ln` may
//! differ between systems.

use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use rt::Nanos;
use rt::split_mix::GAMMA;

/// 2^53, the number of distinct steps of a float between 0 and 1.
const UNIT_STEPS: f64 = 9_007_199_254_740_992.0;
const NANOS_PER_SECOND: f64 = 1e9;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Random(Xoshiro256StarStar);

impl Random {
    /// Returns the stream of one task.
    #[must_use]
    pub fn new(seed: u64, task: u64) -> Self {
        let mixed = seed ^ task.wrapping_add(1).wrapping_mul(GAMMA);
        Self(Xoshiro256StarStar::seed_from_u64(mixed))
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0. The relative bias is at most `bound` /
    /// 2^64 (D. Lemire's multiplication, *Fast random integer generation in an interval*, ACM
    /// TOMACS 29(1), 2019).
    pub fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.next_u64()) * u128::from(bound);
        (product >> 64) as u64
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// Returns true in `share` of 100 cases.
    pub fn percent(&mut self, share: u32) -> bool {
        self.below(100) < u64::from(share)
    }

    /// Returns a number greater than 0 and at most 1.
    pub fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / UNIT_STEPS
    }

    /// Draws from an exponential distribution with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -libm::log(self.unit()) * mean
    }

    /// Returns the time until the next event of a Poisson process with this rate.
    pub fn gap(&mut self, per_second: f64) -> Nanos {
        Nanos::new((self.exponential(1.0 / per_second) * NANOS_PER_SECOND) as u64)
    }

    /// Draws from the standard normal distribution (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * libm::log(self.unit())).sqrt();
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// Draws from a gamma distribution with this mean and a shape of at least 1 (G. Marsaglia, W.
    /// W. Tsang, *A simple method for generating gamma variables*, ACM TOMS 26(3), 2000).
    pub fn gamma(&mut self, mean: f64, shape: f64) -> f64 {
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = libm::pow(1.0 + c * x, 3.0);
            if v > 0.0 && libm::log(self.unit()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                return d * v * mean / shape;
            }
        }
    }

    /// Shuffles a list (Fisher and Yates).
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            list.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 100_000;

    fn mean(mut draw: impl FnMut() -> f64) -> f64 {
        (0..DRAWS).map(|_| draw()).sum::<f64>() / f64::from(DRAWS)
    }

    #[test]
    fn distributions_have_their_means() {
        let mut random = Random::new(42, 0);
        for (name, expected, found) in [
            ("below", 4.5, mean(|| random.below(10) as f64)),
            ("between", 6.0, mean(|| random.between(5, 7) as f64)),
            ("exponential", 3.0, mean(|| random.exponential(3.0))),
            ("gamma", 16.0, mean(|| random.gamma(16.0, 1.5))),
            ("gap", 0.5, mean(|| random.gap(2.0).as_secs_f64())),
        ] {
            assert!((found / expected - 1.0).abs() < 0.02, "{name}: {found}");
        }
        assert!(mean(|| random.normal()).abs() < 0.02);
        assert_eq!((random.below(0), random.below(1)), (0, 0));
    }

    #[test]
    fn streams_differ_by_task_and_repeat_by_seed() {
        let draws = |seed, task| {
            let mut random = Random::new(seed, task);
            std::array::from_fn::<u64, 4, _>(|_| random.next_u64())
        };
        assert_eq!(draws(1, 2), draws(1, 2));
        assert_ne!(draws(1, 2), draws(1, 3));
        assert_ne!(draws(1, 2), draws(2, 2));
        let mut list: Vec<u32> = (0..100).collect();
        Random::new(1, 1).shuffle(&mut list);
        assert!(!list.is_sorted());
        list.sort_unstable();
        assert_eq!(list, (0..100).collect::<Vec<_>>());
    }
}
