//! Reasons why a block cannot be used after it was read.

use core::fmt;
use std::sync::Arc;

use block::DeviceError;
use jbd2::Buffer;

use crate::disk::entry::Bad;
use crate::disk::metadata::Damage;
use crate::error::Error;

/// A block that cannot be used.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The device failed, the block belongs to the volume's own metadata and is damaged, or its
    /// checksum does not match.
    Failed(Error),
    /// The block belongs to a file and is damaged. Its sound parts can still be read.
    Damaged(DamagedBlock),
}

/// A damaged block of a file.
pub(crate) struct DamagedBlock {
    /// A copy outside the cache, which must not be changed.
    pub(crate) copy: Arc<Buffer>,
    /// The first damage.
    pub(crate) bad: Bad,
}

impl fmt::Debug for DamagedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}: {:?}", self.copy.nr(), self.bad)
    }
}

impl Refused {
    /// Creates the error of a damaged block.
    pub(super) fn damaged(damage: Damage, copy: Arc<Buffer>) -> Self {
        match damage {
            Damage::Volume(error) => Self::Failed(error),
            Damage::File(bad) => Self::Damaged(DamagedBlock { copy, bad }),
        }
    }

    /// Returns the error of a block. `of_file` describes the damage of a file's block.
    pub(crate) fn into_error(self, of_file: impl FnOnce(DamagedBlock) -> Error) -> Error {
        match self {
            Self::Failed(error) => error,
            Self::Damaged(damaged) => of_file(damaged),
        }
    }

    /// Returns the error of a block that belongs to the volume's own metadata.
    pub(crate) fn of_volume(self) -> Error {
        self.into_error(|_| unreachable!("the block belongs to no file"))
    }
}

impl From<DeviceError> for Refused {
    fn from(error: DeviceError) -> Self {
        Self::Failed(error.into())
    }
}
