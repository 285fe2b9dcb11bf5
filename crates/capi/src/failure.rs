//! The failure of a call: a number of `errno`, and a message for users of the library.

use std::any::Any;
use std::fmt::Display;

use jext::{DeviceError, Error, fsck};
use rustix::io::Errno;

/// The failure of a call.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The number of `errno`, which is positive.
    pub(crate) number: i32,
    /// One line: the object, the fact, the remedy.
    pub(crate) text: String,
}

/// The result of a call.
pub(crate) type Result<T, E = Failure> = core::result::Result<T, E>;

impl Failure {
    /// Creates a failure.
    pub(crate) fn new(errno: Errno, text: impl Into<String>) -> Self {
        let (number, text) = (errno.raw_os_error(), text.into());
        Self { number, text }
    }

    /// Creates the failure of a wrong argument.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(Errno::INVAL, text)
    }

    /// Puts the object that the failure is about before the message.
    pub(crate) fn about(self, object: impl Display) -> Self {
        let text = format!("{object}: {}", self.text);
        Self { text, ..self }
    }

    /// Puts a path before the message.
    pub(crate) fn at(self, path: &[u8]) -> Self {
        self.about(String::from_utf8_lossy(path))
    }

    /// Creates the failure of a panic.
    pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref().copied());
        Self::new(
            Errno::NOTRECOVERABLE,
            format!(
                "a bug in libjext: {}; close the volume, check it, and report the bug",
                said.unwrap_or("a panic without a message")
            ),
        )
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            number: error.raw_os_error(),
            text: advice(&error).unwrap_or_else(|| error.to_string()),
        }
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        Self {
            number: jext::errno::of(&error),
            text: error.to_string(),
        }
    }
}

impl From<fsck::Error> for Failure {
    fn from(error: fsck::Error) -> Self {
        let errno = match &error {
            fsck::Error::Device(cause) => return cause.clone().into(),
            fsck::Error::NoSuperblock { .. } => Errno::UCLEAN,
            fsck::Error::JournalDeviceNeeded { .. } => {
                let text = format!("{error}: set journal in struct jext_check_options");
                return Self::new(Errno::OPNOTSUPP, text);
            }
            _ => Errno::OPNOTSUPP,
        };
        Self::new(errno, error.to_string())
    }
}

/// Returns the message for an error whose own message gives the remedy in terms of Rust.
fn advice(error: &Error) -> Option<String> {
    Some(match error {
        Error::UnmarkedLog { transactions } => format!(
            "the superblock does not call for the transactions ({transactions}) that the log holds (needs_recovery is clear): `jext journal \
             replay` or e2fsck replays them, `jext journal discard` drops them"
        ),
        Error::NeedsRecovery { device } => format!(
            "the journal has to be replayed, but {device} is read-only: open a writable copy, or with JEXT_OPEN_READ_ONLY"
        ),
        Error::NoJournalDevice => {
            "the journal is on another device: set journal in struct jext_open_options".to_owned()
        }
        Error::CannotFlush { device } => format!(
            "{device} cannot flush, so that nothing would be durable: give it a flush callback, or open it with JEXT_OPEN_READ_ONLY, or with \
             the mount option force"
        ),
        Error::InUse(user) if user.is_checking => user.to_string().replace(
            "tune::clear_multi_mount releases it",
            "`jext tune --clear-mmp` releases it",
        ),
        Error::NoInodes => {
            "no inode is left on the volume: remove files, or make it anew with a larger inode_count"
                .to_owned()
        }
        _ => return None,
    })
}
