//! Errors of devices.

use std::io::{self, ErrorKind};

use layout::SectorNr;

/// The error of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The device reported a failure: a medium error, a failed cable, an `EIO`.
    #[error("{operation} of {sectors} sectors at sector {sector} failed on {device}: {cause}")]
    Failed {
        /// `read`, `write`, `flush` or `discard`.
        operation: &'static str,
        /// First sector.
        sector: SectorNr,
        /// Number of sectors.
        sectors: u64,
        /// Name of the device.
        device: String,
        /// Message of the system.
        cause: String,
    },
    /// The request reaches beyond the end of the device.
    #[error("{sectors} sectors at sector {sector} lie beyond the end of the device")]
    OutOfRange {
        /// First sector.
        sector: SectorNr,
        /// Number of sectors.
        sectors: u64,
    },
    /// The device is read-only.
    #[error("the device is read-only")]
    ReadOnly,
    /// The device is gone.
    #[error("the device is gone")]
    Gone,
    /// A write was refused for lack of space: a sparse image on a full disk, a thin volume. It
    /// changed nothing outside its own range and did not affect earlier writes; it may succeed
    /// later. A flush never fails this way: the data that it could not write is lost, for any
    /// reason.
    #[error("no space left behind {device}")]
    NoSpace {
        /// Name of the device.
        device: String,
    },
    /// The device could not be opened or created.
    #[error("{device}: {cause}")]
    Open {
        /// Name of the device.
        device: String,
        /// Kind of the system's error; [`ErrorKind::InvalidInput`] without a system call.
        kind: ErrorKind,
        /// Message of the system.
        cause: String,
    },
    /// Another program uses the device, and sharing it would destroy its contents.
    #[error("{device} is in use: {cause}")]
    InUse {
        /// Name of the device.
        device: String,
        /// Description of the other user, as far as the system reports it.
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

/// The [`io::Error`] wraps the error; [`io::Error::downcast`] returns it.
impl From<DeviceError> for io::Error {
    fn from(error: DeviceError) -> Self {
        Self::new(error.kind(), error)
    }
}
