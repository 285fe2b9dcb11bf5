//! The process that opened a volume or a device. A fork gives its child handles with neither the
//! threads nor the locks behind them.

use rustix::io::Errno;

use crate::failure::{Failure, Result};

/// The process that an object belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// Returns the calling process.
    pub(crate) fn current() -> Self {
        Self(std::process::id())
    }

    /// Returns true in the process that the object belongs to, and false in one that it forked.
    pub(crate) fn is_current(self) -> bool {
        self == Self::current()
    }

    /// Refuses a forked process. `object` is "volume" or "device".
    pub(crate) fn check(self, object: &str) -> Result<()> {
        match self.is_current() {
            true => Ok(()),
            false => Err(Failure::new(
                Errno::PERM,
                format!(
                    "the {object} belongs to process {}, which forked this one: open it here, when it is closed there",
                    self.0
                ),
            )),
        }
    }
}
