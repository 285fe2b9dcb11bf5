//! [`GuestError`]: the errors of a guest.

use std::io;

/// The error of a guest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestError {
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// The object or action.
        what: String,
        /// The cause.
        source: io::Error,
    },
    /// The kernel violated a protocol.
    #[error("the kernel sent {0}")]
    Protocol(String),
    /// The guest ended before it had reported its end.
    #[error("the guest ended early{}", tail(.0))]
    Ended(String),
    /// The guest sent nothing for too long.
    #[error("the guest sent nothing for {seconds} s of real time{}", tail(.console))]
    Hung {
        /// Length of the silence in seconds.
        seconds: u64,
        /// Last lines of the console.
        console: String,
    },
    /// The kernel waits without a timer and without a request in flight.
    #[error("the guest waits forever{}", tail(.0))]
    Asleep(String),
    /// The run was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The kernel is not installed.
    #[error("{0}")]
    Missing(String),
}

impl GuestError {
    /// Returns a function that adds the object or action to an error of the system.
    pub(crate) fn at<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        move |error| Self::System {
            what: what.into(),
            source: error.into(),
        }
    }
}

/// Returns the last lines of a console as the end of a message.
fn tail(console: &str) -> String {
    match console.trim_end() {
        "" => String::new(),
        lines => format!("; its console ends with:\n{lines}"),
    }
}
