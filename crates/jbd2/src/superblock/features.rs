//! The features that a file system gives to the log that it opens.
//!
//! A log that is empty may change its features: its blocks are written and read in the new form
//! from then on.

use layout::journal::{ChecksumType, JournalCompatible, JournalIncompatible};

use super::{Checksums, Superblock};

impl Superblock {
    /// Adds block numbers of 64 bits, and checksums v3 in the place of any others and of
    /// asynchronous commits, if they are wanted; a log of version 1 becomes one of version 2.
    /// Returns true if anything has changed.
    pub(crate) fn add_features(&mut self, is_64bit: bool, has_checksums: bool) -> bool {
        let (mut compatible, mut incompatible) = match self.version() {
            1 => Default::default(),
            _ => (self.raw.compatible(), self.raw.incompatible()),
        };
        let before = (compatible, incompatible);
        if is_64bit {
            incompatible.insert(JournalIncompatible::IS_64BIT);
        }
        if has_checksums {
            compatible.remove(JournalCompatible::CHECKSUM);
            incompatible.remove(JournalIncompatible::CHECKSUM_V2);
            incompatible.remove(JournalIncompatible::ASYNC_COMMIT);
            incompatible.insert(JournalIncompatible::CHECKSUM_V3);
        }
        if (compatible, incompatible) == before {
            return false;
        }
        self.set_version_2();
        self.raw.compatible_bits = compatible.bits().into();
        self.raw.incompatible_bits = incompatible.bits().into();
        if has_checksums {
            self.raw.checksum_type = ChecksumType::Crc32c.raw();
            self.checksums = Checksums::V3;
        }
        true
    }

    /// Allows commit blocks that are written together with their transactions, or not. A log that
    /// allows them has checksums of whole transactions (v1), in the place of any others: by them a
    /// recovery finds what a power cut has torn. A log of version 1 becomes one of version 2.
    pub(crate) fn set_async_commit(&mut self, is_async: bool) {
        if !is_async && self.version() == 1 {
            return;
        }
        self.set_version_2();
        let (mut compatible, mut incompatible) = (self.raw.compatible(), self.raw.incompatible());
        if is_async {
            compatible.insert(JournalCompatible::CHECKSUM);
            incompatible
                .remove(JournalIncompatible::CHECKSUM_V2 | JournalIncompatible::CHECKSUM_V3);
            self.raw.checksum_type = 0;
            self.raw.checksum = 0.into();
            self.checksums = Checksums::V1;
        }
        incompatible.set(JournalIncompatible::ASYNC_COMMIT, is_async);
        self.raw.compatible_bits = compatible.bits().into();
        self.raw.incompatible_bits = incompatible.bits().into();
    }
}
