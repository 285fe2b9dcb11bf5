//! Errors of the journal, in families: a device failed, the bytes of a log are invalid, the bytes
//! are valid but not supported, and misuse by a caller.

use std::fmt;
use std::sync::Arc;

use block::DeviceError;
use layout::{BlockNr, Tid};

/// An error of the journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device failed.
    #[error(transparent)]
    Io(#[from] DeviceError),
    /// A device has no room for a write of the journal. Nothing is lost: the journal holds the
    /// write and retries it when there is room.
    #[error("the journal waits for room: {0}")]
    Held(DeviceError),
    /// The bytes of a log are invalid.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The log uses a feature that is known and not supported.
    #[error("the journal uses {0}, which is not supported")]
    Unsupported(String),
    /// The journal has aborted earlier, for this reason; it commits nothing more.
    #[error("the journal has aborted: {0}")]
    Aborted(Arc<Error>),
    /// A handle requested more than a transaction can hold.
    #[error("an operation asked for {asked} log blocks, the journal has room for {most}")]
    TooManyCredits {
        /// Log blocks that the handle would have reserved.
        asked: u32,
        /// Largest number of log blocks that a transaction may take.
        most: u32,
    },
    /// A handle dirtied or revoked more blocks than it had requested.
    #[error("an operation used up its credits before block {block}")]
    OutOfCredits {
        /// The block to be changed or revoked.
        block: BlockNr,
    },
    /// A handle that had changed something was dropped unfinished.
    #[error("an operation ended half-way in transaction {tid}")]
    Abandoned {
        /// The handle's transaction.
        tid: Tid,
    },
    /// The journal was opened before its log had been recovered.
    #[error("the log has to be recovered before the journal is opened")]
    NotRecovered,
    /// The log holds transactions, and the caller has asked to refuse such a log.
    #[error("the log holds {transactions} transactions that nobody has asked to replay")]
    Unsettled {
        /// Number of transactions; for a damaged log, of those before the damage.
        transactions: u32,
    },
    /// The log is too small.
    #[error("the journal has {blocks} blocks, at least {least} are needed")]
    TooSmall {
        /// Its length in blocks.
        blocks: u32,
        /// Smallest length in blocks.
        least: u32,
    },
    /// The external journal is not the one that the file system names.
    #[error("the journal device has UUID {}, the file system wants {}", Uuid(.found), Uuid(.wanted))]
    WrongJournal {
        /// The UUID on the device.
        found: [u8; 16],
        /// The UUID that the file system names.
        wanted: [u8; 16],
    },
    /// The file system is not the user that the external journal names.
    #[error("the journal device belongs to {}, not to {}", User(.found.as_ref()), Uuid(.wanted))]
    WrongUser {
        /// The UUID of its first user, if it has one.
        found: Option<[u8; 16]>,
        /// The UUID of the file system.
        wanted: [u8; 16],
    },
    /// The external journal belongs to another file system already.
    #[error("the journal device belongs to {} already: take the journal away there, or make it anew", User(Some(.user)))]
    Taken {
        /// The UUID of that file system.
        user: [u8; 16],
    },
    /// The external journal holds transactions that were never replayed, so that no other file
    /// system can use it.
    #[error(
        "the log of the journal device was never replayed: replay it with its file system, or make the journal anew"
    )]
    NotEmpty,
    /// Several file systems use the external journal.
    #[error("the journal device is in use by {users} file systems, one is supported")]
    InUse {
        /// Number of users.
        users: u32,
    },
    /// The journal was closed.
    #[error("the journal is closed")]
    Closed,
    /// The file system stopped the journal after a violated invariant.
    #[error("{0}")]
    Stopped(String),
}

/// Invalid on-disk state of a log, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Corrupt {
    /// There is no journal superblock at its place.
    #[error("the journal's superblock has no magic number")]
    NoSuperblock,
    /// The superblock's checksum does not match.
    #[error("the journal's superblock has checksum {stored:#010x}, computed {computed:#010x}")]
    SuperblockChecksum {
        /// The stored checksum.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A field of the superblock has an invalid value.
    #[error("the journal's superblock has {field} {value}: {why}")]
    SuperblockField {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The reason why it is invalid.
        why: &'static str,
    },
    /// The device has no superblock of an external journal.
    #[error("the device is no external journal: {why}")]
    NoJournalDevice {
        /// The missing part.
        why: &'static str,
    },
    /// Fewer blocks of the journal are mapped than its superblock requires.
    #[error("the journal has {mapped} blocks on the device, its superblock says {wanted}")]
    Unmapped {
        /// Number of mapped blocks.
        mapped: u64,
        /// Number of blocks by the superblock.
        wanted: u64,
    },
    /// The log is damaged before its last transaction: replay stops, and nothing has been changed.
    #[error("transaction {tid} is damaged at log block {log_block}: {what}")]
    Log {
        /// The transaction.
        tid: Tid,
        /// The block of the log.
        log_block: u32,
        /// The fault.
        what: &'static str,
    },
    /// A tag names a block outside the file system.
    #[error("transaction {tid} has a block for {block}, beyond the end of the device")]
    OutsideDevice {
        /// The transaction.
        tid: Tid,
        /// The block that the tag names.
        block: BlockNr,
    },
}

/// A UUID in its usual form.
struct Uuid<'u>(&'u [u8; 16]);

/// The user of a journal device.
struct User<'u>(Option<&'u [u8; 16]>);

impl fmt::Display for Uuid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let dash = if matches!(index, 4 | 6 | 8 | 10) {
                "-"
            } else {
                ""
            };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Display for User<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(uuid) => write!(f, "the file system {}", Uuid(uuid)),
            None => f.write_str("nobody"),
        }
    }
}

/// The result of functions of this crate.
pub type Result<T, E = Error> = core::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_told_as_everybody_writes_them() {
        let found = core::array::from_fn(|index| index as u8 * 0x11);
        let text = Error::WrongJournal {
            found,
            wanted: [0xAB; 16],
        };
        assert_eq!(
            text.to_string(),
            "the journal device has UUID 00112233-4455-6677-8899-aabbccddeeff, the file system wants \
             abababab-abab-abab-abab-abababababab"
        );
        let text = Error::Taken { user: found }.to_string();
        assert!(text.contains("the file system 00112233-4455"), "{text}");
    }
}
