//! Errors that prevent a check. Faults *in* an image are [`crate::Problem`]s.

use block::DeviceError;

/// The reason why an image could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device could not be read.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Neither the superblock nor its usual backup is valid.
    #[error("no superblock: {why}")]
    NoSuperblock {
        /// Fault of the primary superblock.
        why: SuperblockFault,
    },
    /// The device is an external journal, not a file system.
    #[error("it is an external journal; check the file system that uses it")]
    IsJournalDevice,
    /// The file system has features that this checker does not support; its findings would be
    /// wrong.
    #[error("features that are not supported: {names}")]
    Features {
        /// Names of the features, separated by spaces.
        names: String,
    },
    /// The file system has an external journal, and no device was given for it.
    #[error("the journal is on another device, which was not given; its UUID is {}", uuid_text(.uuid))]
    JournalDeviceNeeded {
        /// UUID of the journal.
        uuid: [u8; 16],
    },
}

/// Faults of a superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SuperblockFault {
    /// The device ends before the end of the superblock.
    #[error("the device is too small")]
    TooSmall,
    /// The magic number is wrong.
    #[error("the magic is {found:#06x}, not 0xef53")]
    Magic {
        /// Number found in the place of the magic.
        found: u16,
    },
    /// The checksum is wrong.
    #[error("the checksum is {found:#010x}, not {expected:#010x}")]
    Checksum {
        /// Stored checksum.
        found: u32,
        /// Checksum of the contents.
        expected: u32,
    },
    /// A field is invalid.
    #[error("{field} is {value}: {why}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: u64,
        /// Reason why the value is invalid.
        why: &'static str,
    },
}

/// Formats a UUID in its usual form.
pub(crate) fn uuid_text(uuid: &[u8; 16]) -> String {
    let hex: Vec<String> = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |range: core::ops::Range<usize>| hex[range].concat();
    [
        part(0..4),
        part(4..6),
        part(6..8),
        part(8..10),
        part(10..16),
    ]
    .join("-")
}
