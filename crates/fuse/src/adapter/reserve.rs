//! Permission to use the blocks reserved for root, and other facts that a handle records.
//!
//! A request names its caller, but the kernel's write-back has none. So the number of a handle
//! records the permission of its opener. With `lazy_open` there are no handles, and cached data
//! have no permission.
//!
//! It also records that the open file bypasses the kernel's cache: then the kernel leaves more to
//! the file system.

use fuser::{Errno, FileHandle, Request};

use super::Adapter;
use super::caller::Caller;
use super::guard::Failure;
use crate::requests::Handle;

/// The opener of the file may use the reserved blocks.
const ALLOWED: u64 = 1;
/// The file bypasses the kernel's cache.
const UNCACHED: u64 = 2;
/// Number of bits below the handle's own number.
const SHIFT: u32 = 2;

/// Returns the handle in the kernel's form.
pub(super) fn encode(handle: Handle, may_use_reserve: bool, is_uncached: bool) -> FileHandle {
    let bit = |flag, is_set| if is_set { flag } else { 0 };
    let facts = bit(ALLOWED, may_use_reserve) | bit(UNCACHED, is_uncached);
    FileHandle(handle.0 << SHIFT | facts)
}

/// Returns the handle of the kernel's form.
pub(super) fn decode(handle: FileHandle) -> Handle {
    Handle(handle.0 >> SHIFT)
}

/// True if the opener of a file had the permission.
pub(super) fn opener_may(handle: FileHandle) -> bool {
    handle.0 & ALLOWED != 0
}

/// True if the open file bypasses the kernel's cache.
pub(super) fn is_uncached(handle: FileHandle) -> bool {
    handle.0 & UNCACHED != 0
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
    fn the_facts_go_with_the_handle() {
        for (allowed, uncached) in [(false, false), (false, true), (true, false), (true, true)] {
            let handle = encode(Handle(77), allowed, uncached);
            assert_eq!(decode(handle), Handle(77));
            assert_eq!(opener_may(handle), allowed);
            assert_eq!(is_uncached(handle), uncached);
        }
        let none = FileHandle(0);
        assert!(!opener_may(none), "no handle, with lazy_open");
        assert!(!is_uncached(none), "no handle, with lazy_open");
    }
}
