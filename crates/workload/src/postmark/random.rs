//! The random numbers of PostMark: the Mersenne Twister MT19937 with its authors' seeding of 1998.
//!
//! M. Matsumoto, T. Nishimura, *Mersenne Twister: a 623-dimensionally equidistributed uniform
//! pseudo-random number generator*, ACM TOMACS 8(1), 1998. The seeding was replaced in 2002; that
//! of current libraries gives another stream.
//!
//! Seeding: with a word `s`, each of the 624 state words takes its high half from bits 31..16 of
//! `s` and its low half from bits 31..16 of the next `s`; the next one is always 69069 s + 1 mod
//! 2^32.

use rt::split_mix::{GAMMA, mix};

const STATE_WORDS: usize = 624;
const SHIFT_WORDS: usize = 397;
const MATRIX: u32 = 0x9908_B0DF;
const UPPER_BIT: u32 = 0x8000_0000;
const LOWER_BITS: u32 = 0x7FFF_FFFF;

/// The generator.
#[derive(Debug, Clone)]
pub struct Mt19937 {
    state: Vec<u32>,
    next: usize,
}

impl Mt19937 {
    /// Returns the generator for a seed of PostMark.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        let mut word = seed;
        let mut half = || {
            let high = word >> 16;
            word = word.wrapping_mul(69069).wrapping_add(1);
            high
        };
        let state = (0..STATE_WORDS).map(|_| half() << 16 | half()).collect();
        Self {
            state,
            next: STATE_WORDS,
        }
    }

    /// Returns the generator of one thread of several: the seed itself for the first, a mixture of
    /// both numbers for the others (the finaliser of SplitMix64, folded to 32 bits).
    #[must_use]
    pub fn split(seed: u32, thread: u32) -> Self {
        if thread == 0 {
            return Self::new(seed);
        }
        let mixed = mix((u64::from(seed) << 32 | u64::from(thread)).wrapping_mul(GAMMA));
        Self::new(((mixed >> 32) ^ (mixed & u64::from(u32::MAX))) as u32)
    }

    /// Returns the next number.
    pub fn next_u32(&mut self) -> u32 {
        if self.next == STATE_WORDS {
            self.refill();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9D2C_5680;
        word ^= word << 15 & 0xEFC6_0000;
        word ^ word >> 18
    }

    /// Returns a number below `bound`, with the slight bias of a remainder. Returns 0 without a
    /// draw if `bound` is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        if bound == 0 {
            0
        } else {
            self.next_u32() % bound
        }
    }

    fn refill(&mut self) {
        for at in 0..STATE_WORDS {
            let following = self.state[(at + 1) % STATE_WORDS];
            let word = self.state[at] & UPPER_BIT | following & LOWER_BITS;
            let twist = if word & 1 == 0 { 0 } else { MATRIX };
            self.state[at] = self.state[(at + SHIFT_WORDS) % STATE_WORDS] ^ word >> 1 ^ twist;
        }
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the first bytes that the original writes to its files, observed with `strace`.
    #[test]
    fn the_text_of_the_original() {
        for (seed, text) in [
            (42, "LeZebJ6S5~qPv$C$py}hmKd H58nM4~"),
            (9, "|)u]3uJ<1CEPb&K7k^pZ+n`n[DM\\-qx\\"),
        ] {
            let mut random = Mt19937::new(seed);
            let drawn: String = text
                .chars()
                .map(|_| char::from(32 + random.below(95) as u8))
                .collect();
            assert_eq!(drawn, text, "seed {seed}");
        }
    }

    #[test]
    fn a_draw_of_nothing_takes_no_number() {
        let (mut a, mut b) = (Mt19937::new(1), Mt19937::new(1));
        assert_eq!(a.below(0), 0);
        assert_eq!(a.next_u32(), b.next_u32());
    }

    #[test]
    fn threads_have_their_own_streams() {
        let first = |thread| Mt19937::split(42, thread).next_u32();
        assert_eq!(first(0), Mt19937::new(42).next_u32());
        let mut drawn: Vec<u32> = (0..64).map(first).collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 64);
    }
}
