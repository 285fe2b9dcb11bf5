//! Hashes of names in indexed directories.
//!
//! There are three algorithms, each in two forms, because the machines that wrote the first indexed
//! directories disagreed on the signedness of `char`. The superblock's flags select the form; the
//! version in a directory's root is always one of the first three.
//!
//! - *Legacy*: one multiplication for each byte.
//! - *Half MD4*: MD4's round functions and additive constants (RFC 1320) over blocks of 32 bytes,
//!   eight steps a round instead of sixteen.
//! - *TEA*: sixteen cycles of the Tiny Encryption Algorithm (D. Wheeler, R. Needham, 1994) over
//!   blocks of 16 bytes, with the block as the key.
//!
//! The last two start from the file system's seed (or MD4's initial state if the seed is zero).
//! They pad the last block with the length of the rest of the name. All arithmetic wraps at 32
//! bits.

/// A hash algorithm, as numbered on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HashVersion {
    /// Legacy, signed bytes.
    Legacy = 0,
    /// Half MD4, signed bytes.
    HalfMd4 = 1,
    /// TEA, signed bytes.
    Tea = 2,
    /// Legacy, unsigned bytes.
    LegacyUnsigned = 3,
    /// Half MD4, unsigned bytes.
    HalfMd4Unsigned = 4,
    /// TEA, unsigned bytes.
    TeaUnsigned = 5,
}

/// The hash of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirHash {
    /// Hash by which the tree is ordered; its lowest bit is 0, and it is never [`MAJOR_END`].
    pub major: u32,
    /// Second hash, the order of names with equal `major` in a directory read; 0 with the legacy
    /// algorithm.
    pub minor: u32,
}

/// Value of `major` that marks the end of a directory in a read position; no name hashes to it.
pub const MAJOR_END: u32 = 0xFFFF_FFFE;

/// Initial state of MD4, used if the seed is zero (RFC 1320, section 3.3).
const DEFAULT_SEED: [u32; 4] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];

impl HashVersion {
    /// Returns the algorithm of a raw number, if it is known.
    pub const fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            0 => Some(Self::Legacy),
            1 => Some(Self::HalfMd4),
            2 => Some(Self::Tea),
            3 => Some(Self::LegacyUnsigned),
            4 => Some(Self::HalfMd4Unsigned),
            5 => Some(Self::TeaUnsigned),
            _ => None,
        }
    }

    /// Returns the number stored in a directory's root and in `s_def_hash_version`, without the
    /// signedness.
    pub const fn raw_on_disk(self) -> u8 {
        match self {
            Self::Legacy | Self::LegacyUnsigned => 0,
            Self::HalfMd4 | Self::HalfMd4Unsigned => 1,
            Self::Tea | Self::TeaUnsigned => 2,
        }
    }

    /// Returns the same algorithm with the signedness that the superblock's flags select.
    #[must_use]
    pub const fn with_signedness(self, is_unsigned: bool) -> Self {
        match (self, is_unsigned) {
            (Self::Legacy | Self::LegacyUnsigned, false) => Self::Legacy,
            (Self::Legacy | Self::LegacyUnsigned, true) => Self::LegacyUnsigned,
            (Self::HalfMd4 | Self::HalfMd4Unsigned, false) => Self::HalfMd4,
            (Self::HalfMd4 | Self::HalfMd4Unsigned, true) => Self::HalfMd4Unsigned,
            (Self::Tea | Self::TeaUnsigned, false) => Self::Tea,
            (Self::Tea | Self::TeaUnsigned, true) => Self::TeaUnsigned,
        }
    }

    /// Widens a byte of a name to 32 bits, with or without its sign.
    const fn widen(self, byte: u8) -> u32 {
        match self {
            Self::Legacy | Self::HalfMd4 | Self::Tea => byte as i8 as u32,
            Self::LegacyUnsigned | Self::HalfMd4Unsigned | Self::TeaUnsigned => byte as u32,
        }
    }
}

/// Returns the hash of a name. `seed` is the superblock's `s_hash_seed`.
pub fn dx_hash(version: HashVersion, seed: [u32; 4], name: &[u8]) -> DirHash {
    let mut state = if seed == [0; 4] { DEFAULT_SEED } else { seed };
    let (major, minor) = match version {
        HashVersion::Legacy | HashVersion::LegacyUnsigned => (legacy(version, name), 0),
        HashVersion::HalfMd4 | HashVersion::HalfMd4Unsigned => {
            for start in (0..name.len()).step_by(32) {
                half_md4(&mut state, fill(version, &name[start..]));
            }
            (state[1], state[2])
        }
        HashVersion::Tea | HashVersion::TeaUnsigned => {
            for start in (0..name.len()).step_by(16) {
                tea(&mut state, fill(version, &name[start..]));
            }
            (state[0], state[1])
        }
    };
    let major = major & !1;
    DirHash {
        major: if major == MAJOR_END {
            MAJOR_END - 2
        } else {
            major
        },
        minor,
    }
}

/// Returns the legacy hash, a recurrence over two values: each byte times a prime is mixed into the
/// newer value and added to the older one.
fn legacy(version: HashVersion, name: &[u8]) -> u32 {
    const FACTOR: u32 = 7_152_373;
    let (newer, _) = name.iter().fold(
        (0x12A3_FE2D_u32, 0x37AB_E8F9_u32),
        |(newer, older), byte| {
            let sum = older.wrapping_add(newer ^ version.widen(*byte).wrapping_mul(FACTOR));
            let reduced = if sum >> 31 == 1 {
                sum.wrapping_sub(0x7FFF_FFFF)
            } else {
                sum
            };
            (reduced, newer)
        },
    );
    newer << 1
}

/// Returns the next `N` words of a name. Bytes are shifted in from the right; missing words hold
/// the remaining length in every byte.
fn fill<const N: usize>(version: HashVersion, rest: &[u8]) -> [u32; N] {
    let padding = u32::from_ne_bytes([rest.len() as u8; 4]);
    let mut words = [padding; N];
    for (word, bytes) in words.iter_mut().zip(rest.chunks(4)) {
        *word = bytes.iter().fold(padding, |word, byte| {
            (word << 8).wrapping_add(version.widen(*byte))
        });
    }
    words
}

/// A round: its function, additive constant, order of words, and the shifts of four steps.
struct Round {
    function: fn(u32, u32, u32) -> u32,
    constant: u32,
    order: [usize; 8],
    shifts: [u32; 4],
}

/// The rounds of RFC 1320, section 3.4, reduced to eight words.
const HALF_MD4: [Round; 3] = [
    Round {
        function: |x, y, z| (x & y) | (!x & z),
        constant: 0,
        order: [0, 1, 2, 3, 4, 5, 6, 7],
        shifts: [3, 7, 11, 19],
    },
    Round {
        function: |x, y, z| (x & y) | (x & z) | (y & z),
        constant: 0x5A82_7999,
        order: [1, 3, 5, 7, 0, 2, 4, 6],
        shifts: [3, 5, 9, 13],
    },
    Round {
        function: |x, y, z| x ^ y ^ z,
        constant: 0x6ED9_EBA1,
        order: [3, 7, 2, 6, 1, 5, 0, 4],
        shifts: [3, 9, 11, 15],
    },
];

fn half_md4(state: &mut [u32; 4], words: [u32; 8]) {
    let [mut a, mut b, mut c, mut d] = *state;
    for round in &HALF_MD4 {
        for (step, word) in round.order.into_iter().enumerate() {
            let sum = a
                .wrapping_add((round.function)(b, c, d))
                .wrapping_add(words[word])
                .wrapping_add(round.constant);
            (a, b, c, d) = (d, sum.rotate_left(round.shifts[step % 4]), b, c);
        }
    }
    for (word, change) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(change);
    }
}

fn tea(state: &mut [u32; 4], key: [u32; 4]) {
    const DELTA: u32 = 0x9E37_79B9;
    const CYCLES: u32 = 16;
    let mix = |value: u32, sum: u32, first: u32, second: u32| {
        (value << 4).wrapping_add(first)
            ^ value.wrapping_add(sum)
            ^ (value >> 5).wrapping_add(second)
    };
    let [mut y, mut z, ..] = *state;
    for cycle in 1..=CYCLES {
        let sum = DELTA.wrapping_mul(cycle);
        y = y.wrapping_add(mix(z, sum, key[0], key[1]));
        z = z.wrapping_add(mix(y, sum, key[2], key[3]));
    }
    state[0] = state[0].wrapping_add(y);
    state[1] = state[1].wrapping_add(z);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_survive_their_numbers() {
        for raw in 0..6 {
            let version = HashVersion::from_raw(raw).unwrap();
            assert_eq!(version as u8, raw);
            assert_eq!(version.raw_on_disk(), raw % 3);
            let on_disk = HashVersion::from_raw(version.raw_on_disk()).unwrap();
            assert_eq!(on_disk.with_signedness(raw >= 3), version);
        }
        // SipHash, of encrypted and case-folding directories.
        assert_eq!(HashVersion::from_raw(6), None);
    }

    #[test]
    fn short_names_are_filled_with_what_is_left_of_them() {
        let padding = 0x0606_0606;
        let words: [u32; 4] = fill(HashVersion::Tea, b"abcdef");
        assert_eq!(words, [0x6162_6364, 0x0606_6566, padding, padding]);
        // A negative byte borrows from the bytes to its left.
        let words: [u32; 4] = fill(HashVersion::Tea, &[0x01, 0x80, 0, 0]);
        assert_eq!(words[0], 0x0080_0000);
        let words: [u32; 4] = fill(HashVersion::TeaUnsigned, &[0x01, 0x80, 0, 0]);
        assert_eq!(words[0], 0x0180_0000);
    }
}
