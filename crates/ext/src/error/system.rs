//! Errors in the system's terms: values of `errno`, kinds of [`io::Error`].
//!
//! | error | number | as |
//! |---|---|---|
//! | the storage behind a device is full | ENOSPC | ext3 on a thin volume |
//! | a device or the journal failed, data was lost | EIO | ext3 |
//! | invalid on-disk state | EUCLEAN | ext4 (`EFSCORRUPTED`) |
//! | a checksum that does not match | EBADMSG | ext4 (`EFSBADCRC`) |
//! | on-disk state that is not supported | EOPNOTSUPP | POSIX |
//! | a journal that cannot be replayed, a device that cannot flush | EROFS | ext4 |
//! | features that can only be read | EROFS | ext4 |
//! | a volume that another node uses | EBUSY | ext4 |
//! | names of directories that ignore case | EOPNOTSUPP | POSIX |
//! | encrypted files and directories | ENOKEY | ext4 |
//! | contents of files with verity | EPERM | ext4 |
//! | outcomes that POSIX defines | their number | POSIX |

use std::io::{self, ErrorKind};

use rustix::io::Errno;

use super::{Corrupt, Error};

impl Error {
    /// Returns the value of `errno` for the error, as Linux's ext4 would return it.
    ///
    /// [`io::Error::raw_os_error`] of a converted error returns `None`, because the converted error
    /// carries this error itself.
    pub fn raw_os_error(&self) -> i32 {
        self.errno().raw_os_error()
    }

    /// Returns the kind of the error as an [`io::Error`].
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Device(cause) => cause.kind(),
            error if error.is_device_full() => ErrorKind::StorageFull,
            Self::Journal(_) | Self::DataLost { .. } => ErrorKind::Other,
            Self::Corrupt(_) => ErrorKind::InvalidData,
            Self::NoAttribute => ErrorKind::NotFound,
            Self::AttributeName => ErrorKind::InvalidInput,
            error => io::Error::from(error.errno()).kind(),
        }
    }

    fn errno(&self) -> Errno {
        match self {
            error if error.is_device_full() => Errno::NOSPC,
            Self::Device(_) | Self::Journal(_) | Self::DataLost { .. } => Errno::IO,
            Self::Corrupt(Corrupt::Checksum(_)) => Errno::BADMSG,
            Self::Corrupt(_) => Errno::UCLEAN,
            Self::Unsupported(_)
            | Self::UnmarkedLog { .. }
            | Self::NoJournalDevice
            | Self::CaseFolded
            | Self::NotClean => Errno::OPNOTSUPP,
            Self::NeedsRecovery { .. } | Self::CannotFlush { .. } | Self::ReadOnly => Errno::ROFS,
            Self::InUse(_) => Errno::BUSY,
            Self::NotFound => Errno::NOENT,
            Self::Exists => Errno::EXIST,
            Self::NotDirectory => Errno::NOTDIR,
            Self::IsDirectory => Errno::ISDIR,
            Self::NotEmpty => Errno::NOTEMPTY,
            Self::NoSpace | Self::NoInodes | Self::AttributeTooLarge | Self::DirectoryFull => {
                Errno::NOSPC
            }
            Self::TooManyLinks => Errno::MLINK,
            Self::NameTooLong => Errno::NAMETOOLONG,
            Self::FileTooLarge => Errno::FBIG,
            Self::NotPermitted | Self::Verity => Errno::PERM,
            Self::NoKey => Errno::NOKEY,
            Self::OtherProject => Errno::XDEV,
            Self::TooManySymlinks => Errno::LOOP,
            Self::Invalid(_) => Errno::INVAL,
            Self::BadHandle => Errno::BADF,
            Self::NoAttribute => Errno::NODATA,
            Self::AttributeName => Errno::RANGE,
        }
    }
}

/// Wraps the error in an [`io::Error`]; [`io::Error::downcast`] returns it.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::new(error.kind(), error)
    }
}

#[cfg(test)]
mod tests {
    use block::DeviceError;

    use super::*;
    use crate::error::Sealed;

    fn number_and_kind(error: Error) -> (i32, ErrorKind) {
        let text = error.to_string();
        let number = error.raw_os_error();
        let converted = io::Error::from(error);
        assert_eq!(converted.to_string(), text);
        let kind = converted.kind();
        let back: Error = converted.downcast().expect("it carries the error");
        assert_eq!(back.to_string(), text);
        (number, kind)
    }

    #[test]
    fn outcomes_of_posix_have_its_numbers_and_the_kinds_of_std() {
        for (error, number, kind) in [
            (Error::NotFound, 2, ErrorKind::NotFound),
            (Error::Exists, 17, ErrorKind::AlreadyExists),
            (Error::NotDirectory, 20, ErrorKind::NotADirectory),
            (Error::IsDirectory, 21, ErrorKind::IsADirectory),
            (Error::NotEmpty, 39, ErrorKind::DirectoryNotEmpty),
            (Error::NoSpace, 28, ErrorKind::StorageFull),
            (Error::NoInodes, 28, ErrorKind::StorageFull),
            (Error::AttributeTooLarge, 28, ErrorKind::StorageFull),
            (Error::DirectoryFull, 28, ErrorKind::StorageFull),
            (Error::TooManyLinks, 31, ErrorKind::TooManyLinks),
            (Error::NameTooLong, 36, ErrorKind::InvalidFilename),
            (Error::FileTooLarge, 27, ErrorKind::FileTooLarge),
            (Error::ReadOnly, 30, ErrorKind::ReadOnlyFilesystem),
            (Error::NotPermitted, 1, ErrorKind::PermissionDenied),
            (Error::Verity, 1, ErrorKind::PermissionDenied),
            (Error::CaseFolded, 95, ErrorKind::Unsupported),
            (Error::Invalid("that"), 22, ErrorKind::InvalidInput),
            (Error::NoAttribute, 61, ErrorKind::NotFound),
            (Error::AttributeName, 34, ErrorKind::InvalidInput),
            (
                Error::Unsupported("that".to_owned()),
                95,
                ErrorKind::Unsupported,
            ),
        ] {
            assert_eq!(number_and_kind(error.clone()), (number, kind), "{error}");
        }
        // The kinds of these errors have no stable name.
        let unnamed = [
            (Error::TooManySymlinks, 40),
            (Error::BadHandle, 9),
            (Error::NoKey, 126),
        ];
        for (error, number) in unnamed {
            let kind = io::Error::from_raw_os_error(number).kind();
            assert_eq!(number_and_kind(error.clone()), (number, kind), "{error}");
        }
    }

    #[test]
    fn failures_of_devices_and_damage_have_the_numbers_of_ext4() {
        let device = "disk.img".to_owned();
        for (error, number, kind) in [
            (
                Corrupt::Magic { magic: 0 }.into(),
                117,
                ErrorKind::InvalidData,
            ),
            (
                Corrupt::Checksum(Sealed::Superblock).into(),
                74,
                ErrorKind::InvalidData,
            ),
            (DeviceError::Gone.into(), 5, ErrorKind::Other),
            (jbd2::Error::Closed.into(), 5, ErrorKind::Other),
            (
                Error::CannotFlush {
                    device: device.clone(),
                },
                30,
                ErrorKind::ReadOnlyFilesystem,
            ),
            (
                Error::NeedsRecovery {
                    device: device.clone(),
                },
                30,
                ErrorKind::ReadOnlyFilesystem,
            ),
            (
                jbd2::Error::Held(DeviceError::NoSpace {
                    device: device.clone(),
                })
                .into(),
                28,
                ErrorKind::StorageFull,
            ),
            (
                DeviceError::NoSpace { device }.into(),
                28,
                ErrorKind::StorageFull,
            ),
        ] {
            let error: Error = error;
            assert_eq!(number_and_kind(error.clone()), (number, kind), "{error}");
        }
    }
}
