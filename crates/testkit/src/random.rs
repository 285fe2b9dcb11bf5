//! Random values for tests.

use rt::split_mix::SplitMix;

/// A stream of random numbers, determined by its seed.
#[derive(Debug, Clone)]
pub struct Random(SplitMix);

impl Random {
    /// Creates the stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    /// Returns the next number.
    #[expect(
        clippy::should_implement_trait,
        reason = "it never ends, so that an iterator's Option would only be in the way"
    )]
    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns one of the given values.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// Returns `count` random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}
