//! Errors as numbers of `errno`, for interfaces that carry nothing else: FUSE, C, Python.
//!
//! | error | number |
//! |---|---|
//! | [`ext::Error`] | [`ext::Error::raw_os_error`], as Linux's ext4 would return it |
//! | [`jbd2::Error`] | that of the [`ext::Error`] that carries it |
//! | [`DeviceError`] | that of its kind: `ENOENT` for a missing image, `EBUSY` for one in use |
//! | [`io::Error`] | its own number, or that of the error that it carries, or that of its kind |
//! | any other | that of its first cause with a number, or `EIO` |
//!
//! ```
//! let error = ext::Error::NotFound;
//! assert_eq!(errno::of(&error), 2);
//! let carried = std::io::Error::from(ext::Error::NotEmpty);
//! assert_eq!(errno::of(&carried), 39);
//! ```

use std::error::Error as StdError;
use std::io::{self, ErrorKind};

use block::DeviceError;
use rustix::io::Errno;

/// Returns the number of `errno` for an error.
#[must_use]
pub fn of(error: &(dyn StdError + 'static)) -> i32 {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(number) = of_one(error) {
            return number;
        }
        cause = error.source();
    }
    Errno::IO.raw_os_error()
}

/// Returns the number of an error itself, whatever its causes are.
fn of_one(error: &(dyn StdError + 'static)) -> Option<i32> {
    if let Some(error) = error.downcast_ref::<ext::Error>() {
        Some(error.raw_os_error())
    } else if let Some(error) = error.downcast_ref::<jbd2::Error>() {
        Some(ext::Error::from(error.clone()).raw_os_error())
    } else if let Some(error) = error.downcast_ref::<DeviceError>() {
        Some(of_kind(error.kind()).raw_os_error())
    } else {
        error.downcast_ref().map(of_io)
    }
}

fn of_io(error: &io::Error) -> i32 {
    match (error.raw_os_error(), error.get_ref()) {
        (Some(number), _) => number,
        (None, Some(carried)) => {
            of_one(carried).unwrap_or_else(|| of_kind(error.kind()).raw_os_error())
        }
        (None, None) => of_kind(error.kind()).raw_os_error(),
    }
}

/// Returns the number that the system uses for a kind.
fn of_kind(kind: ErrorKind) -> Errno {
    match kind {
        ErrorKind::NotFound => Errno::NOENT,
        ErrorKind::PermissionDenied => Errno::ACCESS,
        ErrorKind::AlreadyExists => Errno::EXIST,
        ErrorKind::NotADirectory => Errno::NOTDIR,
        ErrorKind::IsADirectory => Errno::ISDIR,
        ErrorKind::DirectoryNotEmpty => Errno::NOTEMPTY,
        ErrorKind::ReadOnlyFilesystem => Errno::ROFS,
        ErrorKind::StorageFull => Errno::NOSPC,
        ErrorKind::QuotaExceeded => Errno::DQUOT,
        ErrorKind::FileTooLarge => Errno::FBIG,
        ErrorKind::ResourceBusy => Errno::BUSY,
        ErrorKind::TooManyLinks => Errno::MLINK,
        ErrorKind::InvalidFilename => Errno::NAMETOOLONG,
        ErrorKind::InvalidInput => Errno::INVAL,
        ErrorKind::InvalidData => Errno::UCLEAN,
        ErrorKind::WouldBlock => Errno::AGAIN,
        ErrorKind::TimedOut => Errno::TIMEDOUT,
        ErrorKind::Interrupted => Errno::INTR,
        ErrorKind::Unsupported => Errno::OPNOTSUPP,
        ErrorKind::OutOfMemory => Errno::NOMEM,
        _ => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    fn open_failed(kind: ErrorKind) -> DeviceError {
        DeviceError::Open {
            device: "disk.img".to_owned(),
            kind,
            cause: "it cannot be opened".to_owned(),
        }
    }

    #[test]
    fn errors_of_volumes_have_the_numbers_of_ext4() {
        let full = || DeviceError::NoSpace {
            device: "disk.img".to_owned(),
        };
        let errors: [(ext::Error, i32); 8] = [
            (ext::Error::NotFound, 2),
            (ext::Error::NoInodes, 28),
            (ext::Error::NoAttribute, 61),
            (ext::Error::Unsupported("that".to_owned()), 95),
            (ext::Corrupt::Magic { magic: 0 }.into(), 117),
            (DeviceError::Gone.into(), 5),
            (full().into(), 28),
            (jbd2::Error::Held(full()).into(), 28),
        ];
        for (error, number) in errors {
            assert_eq!(of(&error), number, "{error}");
            let carried = io::Error::from(error);
            assert_eq!(of(&carried), number, "{carried}");
        }
        assert_eq!(of(&jbd2::Error::Closed), 5);
        assert_eq!(of(&jbd2::Error::Held(full())), 28);
    }

    #[test]
    fn errors_of_devices_and_of_the_system_have_the_numbers_of_their_kinds() {
        for (kind, number) in [
            (ErrorKind::NotFound, 2),
            (ErrorKind::PermissionDenied, 13),
            (ErrorKind::InvalidInput, 22),
            (ErrorKind::Other, 5),
        ] {
            assert_eq!(of(&open_failed(kind)), number, "{kind}");
            assert_eq!(of(&io::Error::from(open_failed(kind))), number, "{kind}");
            assert_eq!(of(&io::Error::new(kind, "a text")), number, "{kind}");
            assert_eq!(of(&io::Error::from(kind)), number, "{kind}");
        }
        let in_use = DeviceError::InUse {
            device: "disk.img".to_owned(),
            cause: "another process has it open".to_owned(),
        };
        assert_eq!(of(&in_use), 16);
        assert_eq!(of(&io::Error::from_raw_os_error(110)), 110);
    }

    #[test]
    fn kinds_have_numbers_that_std_gives_back() {
        // Those for which the kernel has several, or one that std does not know.
        let others = [Errno::IO, Errno::UCLEAN];
        for number in 1..134 {
            let kind = io::Error::from_raw_os_error(number).kind();
            let found = of_kind(kind);
            if !others.contains(&found) {
                let again = io::Error::from_raw_os_error(found.raw_os_error()).kind();
                assert_eq!(again, kind, "{number}");
            }
        }
    }

    #[derive(Debug)]
    struct Wrapped(Option<ext::Error>);

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the copy has ended")
        }
    }

    impl StdError for Wrapped {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            self.0.as_ref().map(|cause| cause as _)
        }
    }

    #[test]
    fn the_first_cause_with_a_number_decides() {
        assert_eq!(of(&Wrapped(Some(ext::Error::ReadOnly))), 30);
        assert_eq!(of(&Wrapped(None)), 5);
    }
}
