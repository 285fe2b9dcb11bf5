//! Permission to use the blocks reserved for root.
//!
//! A request names its caller, but the kernel's write-back has none. So the number of a handle
//! records the permission of its opener. With `lazy_open` there are no handles, and cached data
//! have no permission.

use fuser::{Errno, FileHandle, Request};

use super::Adapter;
use super::caller::Caller;
use super::guard::Failure;
use crate::requests::Handle;

/// Returns the handle in the kernel's form.
pub(super) fn encode(handle: Handle, may_use_reserve: bool) -> FileHandle {
    FileHandle(handle.0 << 1 | u64::from(may_use_reserve))
}

/// Returns the handle of the kernel's form.
pub(super) fn decode(handle: FileHandle) -> Handle {
    Handle(handle.0 >> 1)
}

/// True if the opener of a file had the permission.
pub(super) fn opener_may(handle: FileHandle) -> bool {
    handle.0 & 1 != 0
}

impl Adapter {
    /// True if the caller may use the reserved blocks.
    pub(super) fn may_use_reserve(&self, request: &Request) -> bool {
        let groups = || Caller::of(request).groups;
        self.fs.may_use_reserve(request.uid(), &groups)
    }

    /// Executes a request with the permission of its caller.
    pub(super) fn guard_for<T>(
        &self,
        request: &Request,
        name: &'static str,
        operation: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Errno> {
        self.guard(name, || {
            let allowed = self.may_use_reserve(request);
            self.fs.with_reserve(allowed, operation)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_goes_with_the_handle() {
        for allowed in [false, true] {
            let handle = encode(Handle(77), allowed);
            assert_eq!(decode(handle), Handle(77));
            assert_eq!(opener_may(handle), allowed);
        }
        assert!(!opener_may(FileHandle(0)), "no handle, with lazy_open");
    }
}
