//! Units: one type for each kind of number, so that a block number cannot be used as an inode
//! number by mistake.
//!
//! Conversions are named functions. Arithmetic goes through `get` and `new`, except for the few
//! operators that every caller needs (`+ u64` on block numbers).

use core::fmt;
use core::ops::Add;

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident, $raw:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name($raw);

        impl $name {
            /// Wraps a raw number.
            pub const fn new(raw: $raw) -> Self {
                Self(raw)
            }

            /// Returns the raw number.
            pub const fn get(self) -> $raw {
                self.0
            }

            /// Returns the raw number as an index into memory.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl Add<$raw> for $name {
            type Output = Self;
            fn add(self, count: $raw) -> Self {
                Self(self.0 + count)
            }
        }
    };
}

unit! {
    /// A block number on the file system's device, counted in file-system blocks. Zero is never a
    /// file's block.
    BlockNr, u64
}
unit! {
    /// A block number within a file, counted in file-system blocks.
    FileBlock, u64
}
unit! {
    /// An inode number; the first is 1, the root directory is 2.
    InodeNr, u32
}
unit! {
    /// A block group number, from 0.
    GroupNr, u32
}
unit! {
    /// A sector number on a device, counted in units of 512 bytes.
    SectorNr, u64
}

impl InodeNr {
    /// The root directory.
    pub const ROOT: Self = Self(2);
    /// The inode that holds the reserved GDT blocks.
    pub const RESIZE: Self = Self(7);
    /// The inode of an internal journal.
    pub const JOURNAL: Self = Self(8);
}

impl SectorNr {
    /// Size of a sector in bytes.
    pub const SIZE: u64 = 512;

    /// Returns the sector at a byte offset.
    ///
    /// # Panics
    /// Panics if the offset is not a multiple of the sector size.
    pub const fn from_byte_offset(offset: u64) -> Self {
        assert!(
            offset.is_multiple_of(Self::SIZE),
            "offset lies inside a sector"
        );
        Self(offset / Self::SIZE)
    }

    /// Returns the byte offset of the sector.
    pub const fn byte_offset(self) -> u64 {
        self.0 * Self::SIZE
    }
}

/// A transaction number. Numbers wrap and so have no total order: compare with [`Tid::is_after`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tid(u32);

impl Tid {
    /// Wraps a raw number.
    pub const fn new(raw: u32) -> Self {
        Self(raw)
    }

    /// Returns the raw number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the number of the next transaction.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Returns the number `count` transactions later.
    #[must_use]
    pub const fn advance(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// True if this transaction is later than `other`; the two must be less than 2^31 apart.
    pub const fn is_after(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) > 0
    }

    /// True if this transaction is `other` or later.
    pub const fn is_at_or_after(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) >= 0
    }

    /// Returns the number of transactions from `other` to this one (wrapping).
    pub const fn distance_from(self, other: Self) -> u32 {
        self.0.wrapping_sub(other.0)
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tid({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tids_compare_across_the_wrap() {
        let before = Tid::new(0xFFFF_FFFF);
        let after = Tid::new(1);
        assert!(after.is_after(before));
        assert!(!before.is_after(after));
        assert!(before.is_at_or_after(before));
        assert_eq!(after.distance_from(before), 2);
    }

    #[test]
    fn sectors_convert_to_bytes_and_back() {
        assert_eq!(SectorNr::from_byte_offset(4096), SectorNr::new(8));
        assert_eq!(SectorNr::new(8).byte_offset(), 4096);
    }
}
