//! File contents that can be verified without keeping a copy.
//!
//! The byte at `offset` of a file with the key `key` is the byte at `(key + offset) mod PERIOD` of
//! one pseudo-random block. The period is a prime, so swapped blocks, swapped files and lost blocks
//! are detected. A piece is a slice of the block, which is extended by copies of itself: a write
//! computes and copies nothing, and a check is a single memory comparison.

use rt::split_mix::GAMMA;

use crate::random::Random;

/// Number of bytes after which the contents repeat.
const PERIOD: usize = 65_521;
/// Maximum length of a piece in bytes.
pub const PIECE_BYTES_MAX: usize = 16 << 20;

/// Source of all file contents of a run.
#[derive(Debug)]
pub struct Contents {
    block: Vec<u8>,
    piece_max: usize,
}

impl Contents {
    /// Returns the contents of a seed, in pieces of at most `piece_max` bytes.
    ///
    /// # Panics
    /// Panics if `piece_max` is greater than [`PIECE_BYTES_MAX`].
    #[must_use]
    pub fn new(seed: u64, piece_max: usize) -> Self {
        assert!(piece_max <= PIECE_BYTES_MAX, "pieces are limited");
        let mut random = Random::new(seed, u64::MAX - 1);
        let words = (0..PERIOD.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes());
        let mut block: Vec<u8> = words.take(PERIOD).collect();
        while block.len() < PERIOD + piece_max {
            let more = (PERIOD + piece_max - block.len()).min(PERIOD);
            block.extend_from_within(..more);
        }
        Self { block, piece_max }
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
        let start = ((u128::from(key) + u128::from(offset)) % PERIOD as u128) as usize;
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

/// Returns the key for the file with this number.
#[must_use]
pub const fn key(number: u64) -> u64 {
    // Any odd factor that is not a multiple of the period gives different files different offsets.
    number.wrapping_mul(GAMMA)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
