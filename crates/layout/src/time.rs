//! Inode times: signed seconds since 1970; an extra word adds nanoseconds and two more bits of
//! seconds.
//!
//! ```text
//! word:  seconds, lower 32 bits, signed
//! extra: bits 0-1 epoch (added to the signed seconds, in units of 2^32), bits 2-31 nanoseconds
//! ```
//! The range is 1901-12-13 to 2038-01-19 without the extra word, and to 2446-05-10 with it.
//!
//! Source: Linux `Documentation/filesystems/ext4/inodes.rst`, "Inode Timestamps".

/// The earliest time that can be stored, in seconds.
pub const SECONDS_MIN: i64 = i32::MIN as i64;
/// The latest time that can be stored without the extra word, in seconds.
pub const SECONDS_MAX: i64 = i32::MAX as i64;
/// The latest time that can be stored with the extra word, in seconds.
pub const SECONDS_MAX_EXTRA: i64 = SECONDS_MAX + (3 << 32);

const NANOS_MAX: u32 = 999_999_999;

/// A time of an inode. The default is the start of 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct InodeTime {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds within the second, below 10^9.
    pub nanos: u32,
}

impl InodeTime {
    /// Creates a time; nanoseconds are limited to one second.
    pub const fn new(seconds: i64, nanos: u32) -> Self {
        Self {
            seconds,
            nanos: if nanos > NANOS_MAX { NANOS_MAX } else { nanos },
        }
    }

    /// Decodes a time from the word alone.
    pub const fn decode(word: u32) -> Self {
        Self {
            seconds: word as i32 as i64,
            nanos: 0,
        }
    }

    /// Decodes a time from the word and the extra word.
    pub const fn decode_extra(word: u32, extra: u32) -> Self {
        let epoch = (extra & 3) as i64;
        Self::new(word as i32 as i64 + (epoch << 32), extra >> 2)
    }

    /// Returns the nearest time that can be stored, truncated as in Linux: no nanoseconds in the
    /// first and the last second, and none at all without the extra word.
    #[must_use]
    pub const fn storable(self, has_extra: bool) -> Self {
        let latest = if has_extra {
            SECONDS_MAX_EXTRA
        } else {
            SECONDS_MAX
        };
        let seconds = clamp(self.seconds, latest);
        let is_whole = !has_extra || seconds == SECONDS_MIN || seconds == latest;
        Self::new(seconds, if is_whole { 0 } else { self.nanos })
    }

    /// Encodes the word, if there is no extra word. Times out of range become the nearest one in
    /// range.
    pub const fn encode(self) -> u32 {
        clamp(self.seconds, SECONDS_MAX) as u32
    }

    /// Encodes the word and the extra word. Times out of range become the nearest one in range.
    pub const fn encode_extra(self) -> (u32, u32) {
        let seconds = clamp(self.seconds, SECONDS_MAX_EXTRA);
        let word = seconds as u32;
        let epoch = ((seconds - word as i32 as i64) >> 32) as u32;
        (word, (epoch & 3) | (self.nanos << 2))
    }
}

const fn clamp(seconds: i64, latest: i64) -> i64 {
    if seconds < SECONDS_MIN {
        SECONDS_MIN
    } else if seconds > latest {
        latest
    } else {
        seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of Linux `Documentation/filesystems/ext4/inodes.rst`: epoch bits, sign bit, first
    /// and last second.
    const EPOCHS: [(u32, u32, i64, i64); 8] = [
        (0, 1, -0x8000_0000, -1),
        (0, 0, 0, 0x7FFF_FFFF),
        (1, 1, 0x8000_0000, 0xFFFF_FFFF),
        (1, 0, 0x1_0000_0000, 0x1_7FFF_FFFF),
        (2, 1, 0x1_8000_0000, 0x1_FFFF_FFFF),
        (2, 0, 0x2_0000_0000, 0x2_7FFF_FFFF),
        (3, 1, 0x2_8000_0000, 0x2_FFFF_FFFF),
        (3, 0, 0x3_0000_0000, 0x3_7FFF_FFFF),
    ];

    #[test]
    fn epochs() {
        for (epoch, sign, first, last) in EPOCHS {
            for (seconds, word) in [(first, sign << 31), (last, sign << 31 | 0x7FFF_FFFF)] {
                let time = InodeTime::new(seconds, 123_456_789);
                assert_eq!(time.encode_extra(), (word, 123_456_789 << 2 | epoch));
                assert_eq!(
                    InodeTime::decode_extra(word, 123_456_789 << 2 | epoch),
                    time
                );
            }
        }
    }

    #[test]
    fn times_out_of_range_become_the_nearest() {
        let encode = |seconds| InodeTime::new(seconds, 5).encode();
        assert_eq!(encode(-1), u32::MAX);
        assert_eq!(encode(SECONDS_MAX + 1), i32::MAX as u32);
        assert_eq!(encode(i64::MIN), 0x8000_0000);
        let latest = InodeTime::new(i64::MAX, 0).encode_extra();
        assert_eq!(
            InodeTime::decode_extra(latest.0, latest.1).seconds,
            SECONDS_MAX_EXTRA
        );
        let earliest = InodeTime::new(i64::MIN, 0).encode_extra();
        assert_eq!(
            InodeTime::decode_extra(earliest.0, earliest.1).seconds,
            SECONDS_MIN
        );
    }

    #[test]
    fn the_first_and_the_last_second_are_whole() {
        let storable = |seconds, has_extra| {
            let time = InodeTime::new(seconds, 5).storable(has_extra);
            (time.seconds, time.nanos)
        };
        assert_eq!(storable(7, true), (7, 5));
        assert_eq!(storable(7, false), (7, 0));
        assert_eq!(storable(SECONDS_MAX + 1, true), (SECONDS_MAX + 1, 5));
        assert_eq!(storable(SECONDS_MAX + 1, false), (SECONDS_MAX, 0));
        assert_eq!(storable(SECONDS_MIN, true), (SECONDS_MIN, 0));
        assert_eq!(storable(i64::MAX, true), (SECONDS_MAX_EXTRA, 0));
    }

    #[test]
    fn damaged_nanoseconds_stay_within_the_second() {
        assert_eq!(InodeTime::decode_extra(0, u32::MAX).nanos, 999_999_999);
        assert_eq!(InodeTime::decode(u32::MAX), InodeTime::new(-1, 0));
    }
}
