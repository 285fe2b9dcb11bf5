//! Why a device did not do what it was asked.

use std::io::{self, ErrorKind};

use layout::SectorNr;

/// An error of one request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The device said that it could not do it: a medium error, a failed cable, an `EIO`.
    #[error("{operation} of {sectors} sectors at sector {sector} failed on {device}: {cause}")]
    Failed {
        /// `read`, `write`, `flush` or `discard`.
        operation: &'static str,
        /// The first sector.
        sector: SectorNr,
        /// How many sectors.
        sectors: u64,
        /// The device's name.
        device: String,
        /// What the system said.
        cause: String,
    },
    /// The request reaches beyond the end of the device.
    #[error("{sectors} sectors at sector {sector} lie beyond the end of the device")]
    OutOfRange {
        /// The first sector.
        sector: SectorNr,
        /// How many sectors.
        sectors: u64,
    },
    /// The device is read-only.
    #[error("the device is read-only")]
    ReadOnly,
    /// The device is not there any more.
    #[error("the device is gone")]
    Gone,
    /// A write was refused because no space is left behind the device: a sparse image on a full disk, a thin volume. It
    /// changed nothing outside its own range, earlier writes are what they were, and it may succeed later. A flush never
    /// fails so: what it could not write is lost, for whatever reason.
    #[error("no space left behind {device}")]
    NoSpace {
        /// The device's name.
        device: String,
    },
    /// The device could not be opened or made.
    #[error("{device}: {cause}")]
    Open {
        /// The device's name.
        device: String,
        /// The kind of the system's error, [`ErrorKind::InvalidInput`] if the system was not asked.
        kind: ErrorKind,
        /// What the system said.
        cause: String,
    },
    /// Somebody else uses the device, and sharing it would destroy what is on it.
    #[error("{device} is in use: {cause}")]
    InUse {
        /// The device's name.
        device: String,
        /// Who uses it, as far as the system tells.
        cause: String,
    },
}

impl DeviceError {
    /// Returns the kind that the error has as an [`io::Error`].
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Failed { .. } | Self::Gone => ErrorKind::Other,
            Self::OutOfRange { .. } => ErrorKind::InvalidInput,
            Self::ReadOnly => ErrorKind::ReadOnlyFilesystem,
            Self::NoSpace { .. } => ErrorKind::StorageFull,
            Self::Open { kind, .. } => *kind,
            Self::InUse { .. } => ErrorKind::ResourceBusy,
        }
    }
}

/// The [`io::Error`] carries the error, which [`io::Error::downcast`] returns.
impl From<DeviceError> for io::Error {
    fn from(error: DeviceError) -> Self {
        Self::new(error.kind(), error)
    }
}
