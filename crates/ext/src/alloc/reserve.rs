//! The right of the calling thread to the reserved blocks.

use crate::core::Core;

/// Tags of threads without and with the right to the reserved blocks; see [`rt::tag`].
pub(crate) const DENIED: u64 = 1;
pub(crate) const ALLOWED: u64 = 2;

impl Core {
    /// Returns true if the calling thread may use the reserved blocks.
    pub(crate) fn may_use_reserve(&self) -> bool {
        match rt::tag() {
            ALLOWED => true,
            DENIED => false,
            _ => self.options.privileged,
        }
    }
}
