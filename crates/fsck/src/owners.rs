//! The space and inodes of users, groups and projects.

use std::collections::BTreeMap;

use layout::quota::QuotaKind;

/// Space and inodes of one owner.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    /// Space in bytes.
    pub(crate) space: u64,
    pub(crate) inodes: u64,
    /// Number of those inodes that are symbolic links with their target in them (`inline_data`),
    /// and of their values. Linux counts them, and e2fsck does not.
    pub(crate) inline_symlinks: u64,
}

impl Held {
    /// True if counts of space and inodes are those of this owner.
    pub(crate) fn is_counted_as(&self, (space, inodes): (u64, u64)) -> bool {
        let is_either = inodes == self.inodes || inodes == self.inodes - self.inline_symlinks;
        space == self.space && is_either
    }
}

/// Space and inodes by owner.
pub(crate) type Counts = BTreeMap<u32, Held>;

/// The counts of all kinds of owners.
#[derive(Debug, Default)]
pub(crate) struct Owners([Counts; QuotaKind::ALL.len()]);

impl Owners {
    /// Adds what an inode holds to the counts of its owners.
    pub(crate) fn add(&mut self, owners: [u32; QuotaKind::ALL.len()], added: Held) {
        for (counts, owner) in self.0.iter_mut().zip(owners) {
            let held = counts.entry(owner).or_default();
            held.space += added.space;
            held.inodes += added.inodes;
            held.inline_symlinks += added.inline_symlinks;
        }
    }

    /// Returns the counts of a kind of owners.
    pub(crate) fn of(&mut self, kind: QuotaKind) -> &mut Counts {
        &mut self.0[kind as usize]
    }
}
