//! The reserved blocks (`mke2fs -m`), and the right to use them.
//!
//! As in the kernel, the right belongs to the caller, and a call that allocates checks it when it
//! takes blocks from the volume's count. [`Volume::with_reserve`] sets it for the calling thread,
//! as `current_cred()` does there. Calls made outside of it have the right that
//! [`MountOptions::privileged`](crate::MountOptions::privileged) gives.
//!
//! ```
//! # fn write(
//! #     volume: &ext::Volume, file: ext::volume::FileId, uid: u32, groups: &[u32],
//! # ) -> ext::Result<usize> {
//! let allowed = volume.may_use_reserve(uid, groups);
//! volume.with_reserve(allowed, || volume.write(file, 0, b"hello"))
//! # }
//! ```
//!
//! The right may also be determined once, when a file is opened, and stored with the handle: a
//! server needs that for writes that come from a cache and name no caller.

use super::Volume;
use crate::alloc::reserve::{ALLOWED, DENIED};

/// The user and group that may use the reserved blocks besides root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReserveOwner {
    /// The user: `resuid=`, or the superblock's.
    pub uid: u32,
    /// The group: `resgid=`, or the superblock's; none for group 0, whose members have no right to
    /// the blocks.
    pub gid: Option<u32>,
}

impl Volume {
    /// Returns the user and group that may use the reserved blocks besides root.
    pub fn reserve_owner(&self) -> ReserveOwner {
        let raw = &self.core.superblock.raw;
        let options = &self.core.options;
        let uid = options.reserved_uid;
        let gid = options.reserved_gid;
        let gid = gid.unwrap_or_else(|| raw.reserved_gid.get().into());
        ReserveOwner {
            uid: uid.unwrap_or_else(|| raw.reserved_uid.get().into()),
            gid: (gid != 0).then_some(gid),
        }
    }

    /// Returns true if a caller may use the reserved blocks: root, the user of
    /// [`Volume::reserve_owner`], and members of its group. `groups` are all groups of the caller;
    /// it may be empty if the owner has no group.
    pub fn may_use_reserve(&self, uid: u32, groups: &[u32]) -> bool {
        let owner = self.reserve_owner();
        uid == 0 || uid == owner.uid || owner.gid.is_some_and(|gid| groups.contains(&gid))
    }

    /// Runs `calls` for a caller with or without the right to the reserved blocks. Applies to the
    /// calling thread until `calls` returns.
    pub fn with_reserve<T>(&self, allowed: bool, calls: impl FnOnce() -> T) -> T {
        let tag = if allowed { ALLOWED } else { DENIED };
        let _restored = Restored(rt::replace_tag(tag));
        calls()
    }
}

/// A guard that restores a thread's old tag, also after a panic.
struct Restored(u64);

impl Drop for Restored {
    fn drop(&mut self) {
        rt::replace_tag(self.0);
    }
}
