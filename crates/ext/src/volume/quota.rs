//! Quotas: reports, limits, and the projects of inodes.

use layout::quota::Entry;

use super::Volume;
use crate::error::Result;
use crate::file::with_space;
use crate::quota;

pub use layout::quota::QuotaKind;

/// The counts and limits of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// User, group or project.
    pub id: u32,
    /// Space in use in bytes.
    pub space: u64,
    /// Number of inodes in use.
    pub inodes: u64,
    /// The limits.
    pub limits: QuotaLimits,
}

/// The limits of an owner; 0 for none. They are stored, and not enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaLimits {
    /// Space in KiB that may be exceeded for a time.
    pub space_soft: u64,
    /// Largest space in KiB.
    pub space_hard: u64,
    /// Number of inodes that may be exceeded for a time.
    pub inodes_soft: u64,
    /// Largest number of inodes.
    pub inodes_hard: u64,
}

impl Volume {
    /// Returns the counts and limits of all owners of a kind, by id; none if the volume does not
    /// count them.
    ///
    /// # Errors
    /// - [`Corrupt::Quota`](crate::Corrupt::Quota) if a quota file of a read-only volume is
    ///   damaged.
    pub fn quotas(&self, kind: QuotaKind) -> Result<Option<Vec<Quota>>> {
        rt::charge(rt::Cost::Syscall);
        let entries = match self.core.is_opened_read_only {
            true => quota::entries(&quota::load(&self.core)?, kind),
            false => quota::entries(&self.core.quotas, kind),
        };
        Ok(entries.map(|entries| entries.iter().map(Quota::of).collect()))
    }

    /// Sets the limits of an owner.
    ///
    /// # Errors
    /// - [`Error::Invalid`](crate::Error::Invalid) if the volume does not count such owners.
    /// - [`Error::NoSpace`](crate::Error::NoSpace) if the quota file cannot grow.
    pub fn set_quota_limits(&self, kind: QuotaKind, id: u32, limits: &QuotaLimits) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        with_space(&self.core, || {
            quota::edit(&self.core, kind, id, |entry| {
                entry.space_soft.set(limits.space_soft);
                entry.space_hard.set(limits.space_hard);
                entry.inode_soft.set(limits.inodes_soft);
                entry.inode_hard.set(limits.inodes_hard);
            })
        })
    }
}

impl Quota {
    fn of(entry: &Entry) -> Self {
        Self {
            id: entry.id.get(),
            space: entry.space.get(),
            inodes: entry.inodes.get(),
            limits: QuotaLimits {
                space_soft: entry.space_soft.get(),
                space_hard: entry.space_hard.get(),
                inodes_soft: entry.inode_soft.get(),
                inodes_hard: entry.inode_hard.get(),
            },
        }
    }
}
