//! The reserved blocks (`mke2fs -m`): who may use them.
//!
//! As in the kernel, the right belongs to the caller, and a call that allocates looks it up when it takes blocks from the
//! volume's count. [`Volume::with_reserve`] sets it for the calling thread, as `current_cred()` does there. Calls made outside
//! of it have the right that [`MountOptions::privileged`](crate::MountOptions::privileged) gives.
//!
//! ```
//! # fn write(volume: &ext::Volume, file: ext::volume::FileId, uid: u32, groups: &[u32]) -> ext::Result<usize> {
//! let allowed = volume.may_use_reserve(uid, groups);
//! volume.with_reserve(allowed, || volume.write(file, 0, b"hello"))
//! # }
//! ```
//!
//! The right may also be looked up once, when a file is opened, and kept beside the handle: that is what a server needs for
//! writes that come from a cache and name no caller.

use super::Volume;
use crate::alloc::reserve::{ALLOWED, DENIED};

/// The user and group that may use the reserved blocks beside root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReserveOwner {
    /// `resuid=`, or the superblock's.
    pub uid: u32,
    /// `resgid=`, or the superblock's; none for group 0, whose members have no right to the blocks.
    pub gid: Option<u32>,
}

impl Volume {
    /// Returns the user and group that may use the reserved blocks beside root.
    pub fn reserve_owner(&self) -> ReserveOwner {
        let raw = &self.core.superblock.raw;
        let options = &self.core.options;
        let uid = options.reserved_uid;
        let gid = options.reserved_gid;
        let gid = gid.unwrap_or_else(|| raw.s_def_resgid.get().into());
        ReserveOwner {
            uid: uid.unwrap_or_else(|| raw.s_def_resuid.get().into()),
            gid: (gid != 0).then_some(gid),
        }
    }

    /// Returns true if a caller may use the reserved blocks: root, the user of [`Volume::reserve_owner`], and members of its
    /// group. `groups` are all groups of the caller; it may be empty if the owner has no group.
    pub fn may_use_reserve(&self, uid: u32, groups: &[u32]) -> bool {
        let owner = self.reserve_owner();
        uid == 0 || uid == owner.uid || owner.gid.is_some_and(|gid| groups.contains(&gid))
    }

    /// Makes calls for a caller that may use the reserved blocks, or may not. Holds for the calling thread, until `calls` returns.
    pub fn with_reserve<T>(&self, allowed: bool, calls: impl FnOnce() -> T) -> T {
        let tag = if allowed { ALLOWED } else { DENIED };
        let _restored = Restored(rt::replace_tag(tag));
        calls()
    }
}

/// Gives a thread its old tag back, also when a call panics.
struct Restored(u64);

impl Drop for Restored {
    fn drop(&mut self) {
        rt::replace_tag(self.0);
    }
}
