//! A hash that is the same on every machine and in every version, for the names of record files and
//! the seeds of trials.
//!
//! FNV-1a over length-prefixed fields, finished with the mixer of SplitMix64. It is stable; it does
//! not resist attacks.
//!
//! # Sources
//!
//! G. Fowler, L. C. Noll, K.-P. Vo, the FNV hash; S. Vigna's `splitmix64.c` for the finish.

use rt::split_mix::mix;

const OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01B3;

/// A hash in progress.
#[derive(Debug, Clone)]
pub(crate) struct StableHash(u64);

impl StableHash {
    pub(crate) const fn new() -> Self {
        Self(OFFSET_BASIS)
    }

    /// Adds bytes without their length.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    }

    /// Adds a field: its length, then its bytes, so that adjacent fields stay distinct.
    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.raw(text.as_bytes());
    }

    /// Adds a number.
    pub(crate) fn number(&mut self, number: u64) {
        self.raw(&number.to_le_bytes());
    }

    /// Returns the hash.
    pub(crate) const fn finish(&self) -> u64 {
        mix(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_is_fnv_1a() {
        // The published test vector for "foobar".
        let mut hash = StableHash::new();
        hash.raw(b"foobar");
        assert_eq!(hash.0, 0x8594_4171_F739_67E8);
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        let of = |fields: &[&str]| {
            let mut hash = StableHash::new();
            fields.iter().for_each(|field| hash.text(field));
            hash.finish()
        };
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
    }
}
