//! A set of small numbers, one bit each, laid out as the on-disk bitmaps: bit `n` is bit `n % 8` of
//! byte `n / 8`.

/// A set of the numbers below its length.
#[derive(Debug, Clone, Default)]
pub(crate) struct BitSet {
    bytes: Vec<u8>,
}

impl BitSet {
    /// Creates an empty set for the numbers below `length`.
    pub(crate) fn new(length: usize) -> Self {
        Self {
            bytes: vec![0; length.div_ceil(8)],
        }
    }

    /// Inserts a number. Returns `false` if it was present.
    #[inline]
    pub(crate) fn insert(&mut self, number: usize) -> bool {
        let (byte, bit) = (&mut self.bytes[number / 8], 1 << (number % 8));
        let is_new = *byte & bit == 0;
        *byte |= bit;
        is_new
    }
}

/// Returns the number of clear bits among the first `count`.
pub(crate) fn count_clear(bytes: &[u8], count: usize) -> u32 {
    let (words, rest) = bytes[..count / 8].as_chunks::<8>();
    let mut set: u32 = words
        .iter()
        .map(|word| u64::from_le_bytes(*word).count_ones())
        .sum();
    set += rest.iter().map(|byte| byte.count_ones()).sum::<u32>();
    if !count.is_multiple_of(8) {
        let mask = (1u8 << (count % 8)) - 1;
        set += (bytes[count / 8] & mask).count_ones();
    }
    count as u32 - set
}

/// True if the first `count` bits are equal.
pub(crate) fn are_equal(left: &[u8], right: &[u8], count: usize) -> bool {
    let whole = count / 8;
    if left[..whole] != right[..whole] {
        return false;
    }
    let mask = (1u8 << (count % 8)) - 1;
    mask == 0 || (left[whole] ^ right[whole]) & mask == 0
}

/// True if bit `number` is set.
pub(crate) fn bit(bytes: &[u8], number: usize) -> bool {
    bytes[number / 8] & (1 << (number % 8)) != 0
}

/// True if all bits from `first` to the end are set.
pub(crate) fn is_filled(bytes: &[u8], first: usize) -> bool {
    let partial = first.next_multiple_of(8).min(bytes.len() * 8);
    let (parts, rest) = bytes[partial / 8..].as_chunks::<64>();
    let is_set = |part: &[u8]| part.iter().fold(0xFF, |bits, byte| bits & byte) == 0xFF;
    (first..partial).all(|number| bit(bytes, number))
        && parts.iter().all(|part| is_set(part))
        && is_set(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_and_compared_up_to_any_border() {
        for count in [1, 7, 8, 9, 63, 64, 65, 100] {
            let mut set = BitSet::new(128);
            assert!(set.insert(0) && !set.insert(0) && bit(&set.bytes, 0));
            set.insert(count - 1);
            set.insert(count);
            let inside = if count == 1 { 1 } else { 2 };
            assert_eq!(count_clear(&set.bytes, count), count as u32 - inside);
            let mut other = BitSet::new(128);
            other.insert(0);
            other.insert(count - 1);
            assert!(are_equal(&set.bytes, &other.bytes, count));
            assert!(!are_equal(&set.bytes, &other.bytes, count + 1));
        }
    }

    #[test]
    fn padding_is_filled_from_its_first_bit_on() {
        let bytes = [0b1111_0111, 0xFF];
        assert!(is_filled(&bytes, 4) && is_filled(&bytes, 8) && is_filled(&bytes, 16));
        assert!(!is_filled(&bytes, 3) && !is_filled(&bytes, 0));
        for at in [1, 64, 127, 129] {
            let mut bytes = [0xFF; 130];
            bytes[at] = 0x7F;
            assert!(
                !is_filled(&bytes, 5) && is_filled(&bytes, (at + 1) * 8),
                "{at}"
            );
        }
    }
}
