//! Device numbers in the inodes of device files.
//!
//! ```text
//! old: i_block[0] = major << 8 | minor                                       both below 256
//! new: i_block[0] = 0
//!      i_block[1] = minor & 0xFF | major << 8 | (minor & 0xFFF00) << 12      12 and 20 bits
//! ```

/// Largest major number.
pub const MAJOR_MAX: u32 = (1 << 12) - 1;
/// Largest minor number.
pub const MINOR_MAX: u32 = (1 << 20) - 1;

/// A device number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DeviceNumber {
    /// Number of the driver.
    pub major: u32,
    /// Number of the device within the driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// Decodes the first two words of `i_block`.
    pub const fn decode(old: u32, new: u32) -> Self {
        if old != 0 {
            Self {
                major: (old >> 8) & 0xFF,
                minor: old & 0xFF,
            }
        } else {
            Self {
                major: (new >> 8) & MAJOR_MAX,
                minor: (new & 0xFF) | ((new >> 12) & 0xF_FF00),
            }
        }
    }

    /// Encodes the first two words of `i_block`, in the old form if it fits. Returns `None` if
    /// neither form fits.
    pub const fn encode(self) -> Option<[u32; 2]> {
        if self.major > MAJOR_MAX || self.minor > MINOR_MAX {
            return None;
        }
        if self.major < 256 && self.minor < 256 {
            return Some([(self.major << 8) | self.minor, 0]);
        }
        Some([
            0,
            (self.minor & 0xFF) | (self.major << 8) | ((self.minor & 0xF_FF00) << 12),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_the_old_form_where_they_fit() {
        let cases = [
            ((8, 1), Some([0x0801, 0])),
            ((255, 255), Some([0xFFFF, 0])),
            ((0, 1), Some([1, 0])),
            ((256, 0), Some([0, 0x1_0000])),
            ((8, 256), Some([0, 0x0010_0800])),
            ((MAJOR_MAX, MINOR_MAX), Some([0, 0xFFFF_FFFF])),
            ((MAJOR_MAX + 1, 0), None),
            ((0, MINOR_MAX + 1), None),
        ];
        for ((major, minor), words) in cases {
            let number = DeviceNumber { major, minor };
            assert_eq!(number.encode(), words, "{number:?}");
            if let Some([old, new]) = words {
                assert_eq!(DeviceNumber::decode(old, new), number);
            }
        }
    }
}
