//! A small seeded generator (SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom
//! number generators", OOPSLA 2014) for choices that must be the same on every machine: the sectors
//! that a power cut keeps, the requests that fail.

/// The golden gamma: the odd integer nearest to 2^64 divided by the golden ratio. A multiple of it
/// spreads consecutive numbers over all bits.
pub const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// A stream of random numbers, determined by its seed.
#[derive(Debug, Clone)]
pub struct SplitMix {
    state: u64,
}

impl SplitMix {
    /// Creates the stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// Returns a number below `bound`, which is not zero. The bias is below `bound` in 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).expect("the upper half of 128 bits fits")
    }
}

/// Returns a number that depends only on the given pair.
pub fn mix_pair(seed: u64, number: u64) -> u64 {
    mix(mix(seed ^ 0x6A09_E667_F3BC_C909).wrapping_add(number.wrapping_mul(GAMMA)))
}

/// Spreads the bits of a word over all bits (the finaliser of SplitMix64). No two words give the
/// same result.
pub const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected numbers are the first outputs for seed 1234567 of the reference implementation
    /// (Vigna, splitmix64.c).
    #[test]
    fn the_stream_is_splitmix64() {
        let mut random = SplitMix::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_stay_below_the_bound() {
        let mut random = SplitMix::new(7);
        assert!((0..1000).all(|_| random.below(3) < 3));
    }
}
