//! Why an image cannot be checked at all. What is wrong *in* an image is a [`crate::Problem`].

use block::DeviceError;

/// Why a check was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device could not be read.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// There is no superblock, and no copy of one where one is usually kept.
    #[error("no superblock: {why}")]
    NoSuperblock {
        /// What is wrong with the first one.
        why: SuperblockFault,
    },
    /// The device is an external journal, not a file system.
    #[error("it is an external journal; check the file system that uses it")]
    IsJournalDevice,
    /// Features that this checker does not know: what it said would be wrong.
    #[error("features that are not supported: {names}; e2fsck -fn checks such a file system")]
    Features {
        /// Their names, separated by spaces.
        names: String,
    },
    /// The file system has an external journal, and no device was given for it.
    #[error("the journal is on another device, which was not given; its UUID is {}", uuid_text(.uuid))]
    JournalDeviceNeeded {
        /// The journal's UUID.
        uuid: [u8; 16],
    },
}

/// What is wrong with a superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SuperblockFault {
    /// The device ends before it.
    #[error("the device is too small")]
    TooSmall,
    /// It does not begin as one.
    #[error("the magic is {found:#06x}, not 0xef53")]
    Magic {
        /// What stands in place of the magic.
        found: u16,
    },
    /// A value that cannot be.
    #[error("{field} is {value}: {why}")]
    Field {
        /// Which field.
        field: &'static str,
        /// What it holds.
        value: u64,
        /// Why that cannot be.
        why: &'static str,
    },
}

/// A UUID in its usual form.
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
