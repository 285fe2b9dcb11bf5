//! File contents that can be verified without keeping a copy.
//!
//! The byte at `offset` of a file with the key `key` is the byte at `(key + offset) mod PERIOD` of
//! one pseudo-random block. The period is odd, so swapped blocks, swapped files and lost blocks are
//! detected. A piece is a slice of the block, which is extended by copies of itself: a write
//! computes and copies nothing, and a check is a single memory comparison.
//!
//! # Few pages
//!
//! The block holds the sequence of a linear feedback shift register of 16 bits, read 8 bits at a
//! time. The exclusive or of such a sequence and a shifted copy is again a shifted copy (S. W.
//! Golomb, *Shift Register Sequences*, 1967, the shift-and-add property). So all pages of 4096
//! bytes that files fill, and the parity that an array computes of any of them, are among the 65535
//! shifts and zero: 256 MiB, however much is written. A seed chooses where the sequence starts.
//! Simulated disks keep equal pages once.

use rt::split_mix::GAMMA;

use crate::random::Random;

/// Number of bytes after which the contents repeat: that of bits, which is odd.
const PERIOD: usize = 65_535;
/// Size in bytes of a page, of which there are few that differ.
pub const PAGE_BYTES: u64 = 4096;
/// Size in bytes of all pages that differ.
pub const PAGES_BYTES: u64 = PERIOD as u64 * PAGE_BYTES;
/// Maximum length of a piece in bytes.
pub const PIECE_BYTES_MAX: usize = 16 << 20;

/// Source of all file contents of a run.
#[derive(Debug)]
pub struct Contents {
    block: Vec<u8>,
    piece_max: usize,
    // Offset of the first byte in the block, below the period.
    start: u64,
}

impl Contents {
    /// Returns the contents of a seed, in pieces of at most `piece_max` bytes.
    ///
    /// # Panics
    /// Panics if `piece_max` is greater than [`PIECE_BYTES_MAX`].
    #[must_use]
    pub fn new(seed: u64, piece_max: usize) -> Self {
        assert!(piece_max <= PIECE_BYTES_MAX, "pieces are limited");
        let start = Random::new(seed, u64::MAX - 1).below(PERIOD as u64);
        let mut block = period();
        while block.len() < PERIOD + piece_max {
            let more = (PERIOD + piece_max - block.len()).min(PERIOD);
            block.extend_from_within(..more);
        }
        Self {
            block,
            piece_max,
            start,
        }
    }

    /// Returns the maximum length of a piece.
    #[must_use]
    pub fn piece_max(&self) -> usize {
        self.piece_max
    }

    /// Returns the bytes of a file from `offset`.
    ///
    /// # Panics
    /// Panics if `length` is greater than the maximum.
    #[must_use]
    pub fn piece(&self, key: u64, offset: u64, length: usize) -> &[u8] {
        assert!(length <= self.piece_max, "a piece of {length} bytes");
        let sum = u128::from(key) + u128::from(offset) + u128::from(self.start);
        let start = (sum % PERIOD as u128) as usize;
        &self.block[start..start + length]
    }

    /// Returns the offset of the first byte that differs from the written data, if there is one.
    #[must_use]
    pub fn first_difference(&self, key: u64, offset: u64, found: &[u8]) -> Option<u64> {
        let mut at = offset;
        for part in found.chunks(self.piece_max.max(1)) {
            let expected = self.piece(key, at, part.len());
            if expected != part {
                let same = expected.iter().zip(part).take_while(|(a, b)| a == b);
                return Some(at + same.count() as u64);
            }
            at += part.len() as u64;
        }
        None
    }
}

/// Returns one period of the shift register with taps 16, 15, 13 and 4, whose period is maximal (P.
/// Alfke, *Efficient Shift Registers, LFSR Counters, and Long Pseudo-Random Sequence Generators*,
/// Xilinx XAPP 052, 1996).
fn period() -> Vec<u8> {
    let mut register: u16 = 1;
    let mut bit = || {
        let next = (register ^ (register >> 1) ^ (register >> 3) ^ (register >> 12)) & 1;
        register = (register >> 1) | (next << 15);
        next as u8
    };
    let byte = |_| (0..8).fold(0, |byte, at| byte | (bit() << at));
    (0..PERIOD).map(byte).collect()
}

/// Returns the key for the file with this number.
#[must_use]
pub const fn key(number: u64) -> u64 {
    // Spreads the numbers over the period. Of many files, few start at the same offset.
    number.wrapping_mul(GAMMA)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn pieces_are_one_stream_and_a_wrong_byte_is_found() {
        let contents = Contents::new(1, 100_000);
        let whole = contents.piece(7, 0, 100_000).to_vec();
        assert_eq!(contents.piece(7, 70_000, 10), &whole[70_000..70_010]);
        assert_eq!(contents.first_difference(7, 0, &whole), None);
        let small = Contents::new(1, 16);
        assert_eq!(small.first_difference(7, 0, &whole), None, "piece by piece");
        let mut wrong = whole.clone();
        wrong[90_001] ^= 1;
        assert_eq!(contents.first_difference(7, 0, &wrong), Some(90_001));
        assert!(contents.first_difference(8, 0, &whole).is_some());
        assert!(contents.first_difference(7, 4096, &whole[..4096]).is_some());
        assert_eq!(contents.piece(u64::MAX, u64::MAX, 1).len(), 1);
    }

    #[test]
    fn files_and_their_parity_consist_of_few_pages() {
        let contents = Contents::new(1, 4096);
        let page = |at| contents.piece(0, at, 4096);
        let pages: BTreeSet<&[u8]> = (0..PERIOD as u64).map(page).collect();
        assert_eq!(pages.len(), PERIOD, "no shift is like another");
        let mut random = Random::new(2, 0);
        for _ in 0..100 {
            let parts = [0; 3].map(|_| page(random.next_u64() >> 1));
            let parity: Vec<u8> = (0..4096)
                .map(|at| parts.iter().fold(0, |sum, part| sum ^ part[at]))
                .collect();
            assert!(pages.contains(&*parity) || parity == [0; 4096]);
        }
        let other = Contents::new(2, 4096);
        assert_ne!(other.piece(0, 0, 4096), page(0), "a seed decides");
        assert!(pages.contains(other.piece(0, 0, 4096)));
    }
}
