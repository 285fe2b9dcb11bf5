//! Errors as FUSE carries them: the table of numbers is `ext`'s.

use ext::Error;
use fuser::Errno;

/// Returns the number that the kernel gets.
pub(crate) fn of(error: &Error) -> Errno {
    Errno::from_i32(error.raw_os_error())
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
