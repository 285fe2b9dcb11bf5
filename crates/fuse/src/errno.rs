//! The one table from errors to numbers.
//!
//! | error | number | who else says so |
//! |---|---|---|
//! | a device has no space behind it | ENOSPC | ext3, of a thin volume |
//! | a device or the journal failed, data was lost | EIO | ext3 |
//! | bytes that cannot be | EUCLEAN | ext4 (`EFSCORRUPTED`) |
//! | bytes that this version cannot | EOPNOTSUPP | POSIX |
//! | what POSIX knows | its number | POSIX |

use ext::Error;
use fuser::Errno;

/// "Structure needs cleaning": what Linux's file systems say of bytes that cannot be.
const EUCLEAN: i32 = 117;

/// The number that a kernel is told.
pub(crate) fn of(error: &Error) -> Errno {
    match error {
        error if error.is_device_full() => Errno::ENOSPC,
        Error::Device(_) | Error::Journal(_) | Error::DataLost { .. } => Errno::EIO,
        Error::Corrupt(_) => Errno::from_i32(EUCLEAN),
        Error::Unsupported(_) | Error::UnmarkedLog { .. } => Errno::EOPNOTSUPP,
        Error::NotFound => Errno::ENOENT,
        Error::Exists => Errno::EEXIST,
        Error::NotDirectory => Errno::ENOTDIR,
        Error::IsDirectory => Errno::EISDIR,
        Error::NotEmpty => Errno::ENOTEMPTY,
        Error::NoSpace | Error::NoInodes | Error::AttributeTooLarge | Error::DirectoryFull => {
            Errno::ENOSPC
        }
        Error::TooManyLinks => Errno::EMLINK,
        Error::NameTooLong => Errno::ENAMETOOLONG,
        Error::FileTooLarge => Errno::EFBIG,
        Error::ReadOnly => Errno::EROFS,
        Error::NotPermitted => Errno::EPERM,
        Error::TooManySymlinks => Errno::ELOOP,
        Error::Invalid(_) => Errno::EINVAL,
        Error::BadHandle => Errno::EBADF,
        Error::NoAttribute => Errno::ENODATA,
        Error::AttributeName => Errno::ERANGE,
        // The list may grow; what is not known here yet went wrong all the same.
        _ => Errno::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_of_posix_have_its_numbers() {
        for (error, number) in [
            (Error::NotFound, 2),
            (Error::Exists, 17),
            (Error::NotDirectory, 20),
            (Error::IsDirectory, 21),
            (Error::NotEmpty, 39),
            (Error::NoSpace, 28),
            (Error::NoInodes, 28),
            (Error::AttributeTooLarge, 28),
            (Error::DirectoryFull, 28),
            (Error::TooManyLinks, 31),
            (Error::NameTooLong, 36),
            (Error::FileTooLarge, 27),
            (Error::ReadOnly, 30),
            (Error::NotPermitted, 1),
            (Error::TooManySymlinks, 40),
            (Error::Invalid("that"), 22),
            (Error::BadHandle, 9),
            (Error::NoAttribute, 61),
            (Error::AttributeName, 34),
            (Error::Unsupported("that".to_owned()), 95),
            (ext::Corrupt::Magic { magic: 0 }.into(), 117),
            (block::DeviceError::Gone.into(), 5),
            (
                block::DeviceError::NoSpace {
                    device: "disk.img".to_owned(),
                }
                .into(),
                28,
            ),
        ] {
            assert_eq!(of(&error).code(), number, "{error}");
        }
    }
}
