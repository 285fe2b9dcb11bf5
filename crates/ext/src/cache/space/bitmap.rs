//! Bitmaps: searched by words of 64 bits in memory, changed by ranges in the bytes of the on-disk
//! block.
//!
//! A set bit is a cluster or an inode that is taken. Bits beyond the end of the group are set in
//! memory, so that no search finds them.

/// Number of bits in a word.
const WORD: u32 = u64::BITS;

/// Largest number of extents that a search examines before it takes the best: a limit for badly
/// fragmented groups.
const RUNS_EXAMINED_MAX: u32 = 128;

/// A bitmap in memory.
#[derive(Debug, Clone)]
pub(crate) struct Bitmap {
    words: Box<[u64]>,
    bits: u32,
}

/// The result of a search: consecutive clear bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClearRun {
    /// The first bit.
    pub(crate) start: u32,
    /// Number of bits.
    pub(crate) count: u32,
}

impl Bitmap {
    /// Creates a bitmap with all bits clear and those beyond the end set.
    pub(crate) fn clear(bits: u32) -> Self {
        let words = vec![0; bits.div_ceil(WORD) as usize].into_boxed_slice();
        let mut bitmap = Self { words, bits };
        bitmap.set_padding();
        bitmap
    }

    /// Creates a bitmap from the bytes of the on-disk block.
    pub(crate) fn from_bytes(bytes: &[u8], bits: u32) -> Self {
        let words = bytes.chunks_exact(8).take(bits.div_ceil(WORD) as usize);
        let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
        let mut bitmap = Self {
            words: words.collect(),
            bits,
        };
        bitmap.set_padding();
        bitmap
    }

    fn set_padding(&mut self) {
        let used = self.bits % WORD;
        if let Some(last) = self.words.last_mut()
            && used != 0
        {
            *last |= u64::MAX << used;
        }
    }

    /// Returns the number of bits.
    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns the number of clear bits.
    pub(crate) fn count_clear(&self) -> u32 {
        self.words.iter().map(|word| word.count_zeros()).sum()
    }

    /// Returns true if a bit is set.
    pub(crate) fn is_set(&self, bit: u32) -> bool {
        self.words[(bit / WORD) as usize] & (1 << (bit % WORD)) != 0
    }

    /// Sets bits.
    pub(crate) fn set(&mut self, start: u32, count: u32) {
        self.change(start, count, |word, mask| *word |= mask);
    }

    /// Clears bits.
    pub(crate) fn unset(&mut self, start: u32, count: u32) {
        self.change(start, count, |word, mask| *word &= !mask);
    }

    /// Returns true if all of the bits are set.
    pub(crate) fn all_set(&self, start: u32, count: u32) -> bool {
        self.first_clear(start, start + count).is_none()
    }

    /// Returns true if all bits in `from..to` are clear.
    pub(crate) fn all_clear(&self, from: u32, to: u32) -> bool {
        let view = View {
            taken: self,
            avoided: None,
        };
        view.first_set(from, to).is_none()
    }

    fn change(&mut self, start: u32, count: u32, change: impl Fn(&mut u64, u64)) {
        assert!(
            start + count <= self.bits,
            "the range lies inside the bitmap"
        );
        let end = start + count;
        let mut at = start;
        while at < end {
            let low = at % WORD;
            let taken = (WORD - low).min(end - at);
            let mask = (u64::MAX >> (WORD - taken)) << low;
            change(&mut self.words[(at / WORD) as usize], mask);
            at += taken;
        }
    }

    /// Returns the first clear bit in `from..to`.
    pub(crate) fn first_clear(&self, from: u32, to: u32) -> Option<u32> {
        View {
            taken: self,
            avoided: None,
        }
        .first_clear(from, to)
    }

    /// Returns the first byte of eight clear bits that starts at `from` or later (at a multiple of
    /// 8).
    pub(crate) fn first_clear_byte(&self, from: u32) -> Option<u32> {
        let mut at = from.next_multiple_of(8);
        while at < self.bits {
            let word = self.words[(at / WORD) as usize] >> (at % WORD);
            if word == u64::MAX {
                at = (at / WORD + 1) * WORD;
                continue;
            }
            if word & 0xFF == 0 && at + 8 <= self.bits.next_multiple_of(WORD) {
                return Some(at);
            }
            at += 8;
        }
        None
    }
}

/// A bitmap, and optionally a second one whose bits are avoided as well.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// Bits that are taken.
    pub(crate) taken: &'a Bitmap,
    /// Bits to avoid.
    pub(crate) avoided: Option<&'a Bitmap>,
}

impl View<'_> {
    fn word(&self, index: usize) -> u64 {
        self.taken.words[index] | self.avoided.map_or(0, |avoided| avoided.words[index])
    }

    /// Returns the first clear bit in `from..to`.
    pub(crate) fn first_clear(&self, from: u32, to: u32) -> Option<u32> {
        self.first(from, to, |word| !word)
    }

    fn first_set(&self, from: u32, to: u32) -> Option<u32> {
        self.first(from, to, |word| word)
    }

    /// Returns the first bit in `from..to` that is set after `pick` has been applied to its word.
    fn first(&self, from: u32, to: u32, pick: impl Fn(u64) -> u64) -> Option<u32> {
        let mut at = from;
        while at < to {
            let word = pick(self.word((at / WORD) as usize)) >> (at % WORD);
            if word != 0 {
                let found = at + word.trailing_zeros();
                return (found < to).then_some(found);
            }
            at = (at / WORD + 1) * WORD;
        }
        None
    }

    /// Returns the number of clear bits from `start` on, at most `count_max`.
    pub(crate) fn run_length(&self, start: u32, count_max: u32) -> u32 {
        let end = self.taken.bits.min(start.saturating_add(count_max));
        self.first_set(start, end)
            .unwrap_or(end)
            .saturating_sub(start)
    }

    /// Returns the number of clear bits before `end` that are consecutive.
    pub(crate) fn clear_before(&self, end: u32) -> u32 {
        let mut at = end;
        while at > 0 {
            let index = (at - 1) / WORD;
            // The bits before `at` are at the top.
            let word = self.word(index as usize) << (WORD - 1 - (at - 1) % WORD);
            if word != 0 {
                return end - at + word.leading_zeros();
            }
            at = index * WORD;
        }
        end
    }

    /// Returns the number of bits in the longest extent of clear bits.
    pub(crate) fn longest(&self) -> u32 {
        let bits = self.taken.bits;
        let (mut longest, mut at) = (0, 0);
        while let Some(start) = self.first_clear(at, bits) {
            let count = self.run_length(start, bits);
            longest = longest.max(count);
            at = start + count;
        }
        longest
    }

    /// Returns the first extent of `count` clear bits that starts in `from..to`, or else the
    /// longest of those examined.
    pub(crate) fn find_run(&self, from: u32, to: u32, count: u32) -> Option<ClearRun> {
        let mut best: Option<ClearRun> = None;
        let mut at = from;
        for _ in 0..RUNS_EXAMINED_MAX {
            let Some(start) = self.first_clear(at, to) else {
                break;
            };
            let found = ClearRun {
                start,
                count: self.run_length(start, count),
            };
            if found.count == count {
                return Some(found);
            }
            if best.is_none_or(|best| found.count > best.count) {
                best = Some(found);
            }
            at = found.start + found.count;
        }
        best
    }
}

/// Sets bits in the on-disk bytes; returns false and changes nothing if one of them is set already.
pub(crate) fn set_in_bytes(bytes: &mut [u8], start: u32, count: u32) -> bool {
    if parts(start, count).any(|(at, mask)| bytes[at] & mask != 0) {
        return false;
    }
    add_to_bytes(bytes, start, count);
    true
}

/// Sets bits in the on-disk bytes, of which some may be set already.
pub(crate) fn add_to_bytes(bytes: &mut [u8], start: u32, count: u32) {
    parts(start, count).for_each(|(at, mask)| bytes[at] |= mask);
}

/// Clears bits in the on-disk bytes; returns false and changes nothing if one of them is clear
/// already.
pub(crate) fn clear_in_bytes(bytes: &mut [u8], start: u32, count: u32) -> bool {
    if !all_set_in_bytes(bytes, start, count) {
        return false;
    }
    parts(start, count).for_each(|(at, mask)| bytes[at] &= !mask);
    true
}

/// Returns true if all of the bits are set in the on-disk bytes.
pub(crate) fn all_set_in_bytes(bytes: &[u8], start: u32, count: u32) -> bool {
    parts(start, count).all(|(at, mask)| bytes[at] & mask == mask)
}

/// Returns the bytes that a range of bits touches, each with its mask.
fn parts(start: u32, count: u32) -> impl Iterator<Item = (usize, u8)> {
    let end = start + count;
    let last = if count == 0 {
        start / 8
    } else {
        (end - 1) / 8 + 1
    };
    (start / 8..last).map(move |byte| {
        let low = start.saturating_sub(byte * 8);
        let high = (end - byte * 8).min(8);
        (
            (byte as usize),
            (((1u16 << high) - 1) & !((1u16 << low) - 1)) as u8,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a random bitmap and its model, one bool a bit.
    fn random(bits: u32, percent: u64, seed: &mut u64) -> (Bitmap, Vec<bool>) {
        let mut bitmap = Bitmap::clear(bits);
        let model: Vec<bool> = (0..bits).map(|_| next(seed) % 100 < percent).collect();
        for (bit, set) in model.iter().enumerate().filter(|(_, set)| **set) {
            assert!(set);
            bitmap.set(bit as u32, 1);
        }
        (bitmap, model)
    }

    fn next(seed: &mut u64) -> u64 {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    }

    #[test]
    fn searches_agree_with_a_model() {
        let mut seed = 1;
        for round in 0..300 {
            let bits = 8 + (next(&mut seed) % 400) as u32;
            let (taken, model) = random(bits, round % 101, &mut seed);
            let (avoided, other) = random(bits, 20, &mut seed);
            assert_eq!(
                taken.count_clear() as usize,
                model.iter().filter(|set| !**set).count()
            );
            for _ in 0..50 {
                let from = (next(&mut seed) % u64::from(bits)) as u32;
                let to = from + (next(&mut seed) % u64::from(bits - from + 1)) as u32;
                let clear = (from..to).find(|bit| !model[*bit as usize]);
                assert_eq!(taken.first_clear(from, to), clear);
                assert_eq!(taken.all_set(from, to - from), clear.is_none());
                let view = View {
                    taken: &taken,
                    avoided: Some(&avoided),
                };
                let is_free = |bit: &u32| !model[*bit as usize] && !other[*bit as usize];
                assert_eq!(view.first_clear(from, to), (from..to).find(is_free));
                let length = (from..bits).take_while(is_free).count() as u32;
                assert_eq!(view.run_length(from, u32::MAX), length);
                let before = (0..from).rev().take_while(is_free).count() as u32;
                assert_eq!(view.clear_before(from), before);
                let longest = (0..bits).map(|bit| view.run_length(bit, bits)).max();
                assert_eq!(Some(view.longest()), longest);
                let byte = (from.div_ceil(8)..bits / 8)
                    .find(|byte| (byte * 8..byte * 8 + 8).all(|bit| !model[bit as usize]));
                let found = taken.first_clear_byte(from).filter(|at| at + 8 <= bits);
                assert_eq!(found, byte.map(|byte| byte * 8));
            }
        }
    }

    #[test]
    fn a_run_is_the_first_long_enough_or_the_longest() {
        let mut bitmap = Bitmap::clear(200);
        bitmap.set(0, 200);
        for (start, count) in [(3, 2), (20, 5), (70, 9), (150, 9)] {
            bitmap.unset(start, count);
        }
        let view = View {
            taken: &bitmap,
            avoided: None,
        };
        assert_eq!(
            view.find_run(0, 200, 4),
            Some(ClearRun {
                start: 20,
                count: 4
            })
        );
        assert_eq!(
            view.find_run(0, 200, 9),
            Some(ClearRun {
                start: 70,
                count: 9
            })
        );
        assert_eq!(
            view.find_run(0, 200, 10),
            Some(ClearRun {
                start: 70,
                count: 9
            })
        );
        assert_eq!(
            view.find_run(71, 200, 10),
            Some(ClearRun {
                start: 150,
                count: 9
            })
        );
        assert_eq!(view.find_run(159, 200, 1), None);
    }

    #[test]
    fn bytes_and_words_agree() {
        let mut seed = 7;
        let mut bytes = vec![0u8; 64];
        let mut bitmap = Bitmap::from_bytes(&bytes, 500);
        for _ in 0..2000 {
            let start = (next(&mut seed) % 500) as u32;
            let count = (next(&mut seed) % 30).min(u64::from(500 - start)) as u32;
            let view = View {
                taken: &bitmap,
                avoided: None,
            };
            let is_clear = view.run_length(start, count) == count;
            if count > 0 && bitmap.all_set(start, count) {
                assert!(clear_in_bytes(&mut bytes, start, count));
                bitmap.unset(start, count);
            } else if is_clear {
                assert!(set_in_bytes(&mut bytes, start, count));
                bitmap.set(start, count);
            } else {
                assert!(!set_in_bytes(&mut bytes, start, count));
                assert!(!clear_in_bytes(&mut bytes, start, count));
            }
            let read = Bitmap::from_bytes(&bytes, 500);
            assert_eq!(read.words, bitmap.words);
        }
        assert!(!Bitmap::from_bytes(&bytes, 499).is_set(0) || bytes[0] & 1 == 1);
    }
}
