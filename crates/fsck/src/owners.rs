//! The space and inodes of users, groups and projects.

use std::collections::BTreeMap;

use layout::quota::QuotaKind;

/// Space in bytes and number of inodes by owner.
pub(crate) type Counts = BTreeMap<u32, (u64, u64)>;

/// The counts of all kinds of owners.
#[derive(Debug, Default)]
pub(crate) struct Owners([Counts; QuotaKind::ALL.len()]);

impl Owners {
    /// Adds an inode that holds some space to the counts of its owners.
    pub(crate) fn add(&mut self, owners: [u32; QuotaKind::ALL.len()], space: u64) {
        for (counts, owner) in self.0.iter_mut().zip(owners) {
            let (held, inodes) = counts.entry(owner).or_default();
            *held += space;
            *inodes += 1;
        }
    }

    /// Returns the counts of a kind of owners.
    pub(crate) fn of(&mut self, kind: QuotaKind) -> &mut Counts {
        &mut self.0[kind as usize]
    }
}
