//! The quota files of an open volume in memory, and the owners and counts of inodes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use jbd2::Label;
use layout::quota::QuotaKind;
use layout::{BlockNr, InodeNr};
use rt::Mutex;

use crate::disk::quota::{Change, QuotaTree};

/// Number of owners of an inode: a user, a group and a project.
pub(crate) const OWNERS: usize = QuotaKind::ALL.len();

/// The quota files of a volume.
#[derive(Default)]
pub(crate) struct Quotas {
    pub(crate) files: Vec<QuotaFile>,
    /// The lock held while an entry is added to a file. // [quota owners]
    pub(crate) growth: Mutex<Growth>,
}

/// The length of the files, which the lock of new entries protects.
#[derive(Default)]
pub(crate) struct Growth;

/// A quota file.
pub(crate) struct QuotaFile {
    pub(crate) kind: QuotaKind,
    pub(crate) inode: InodeNr,
    /// The label of its blocks.
    pub(crate) label: Label,
    // [quota]
    pub(crate) contents: Mutex<Contents>,
}

/// The contents of a quota file.
pub(crate) struct Contents {
    pub(crate) tree: QuotaTree,
    /// Its blocks on the device, in the order of the file.
    pub(crate) blocks: Vec<BlockNr>,
    /// Owners whose entries must stay, with the number of their claims.
    pub(crate) claims: BTreeMap<u32, u32>,
}

/// A claim of an operation in progress to the entry of an owner. The entry stays until the claim is
/// dropped, also without use.
pub(crate) struct Claim<'c> {
    file: &'c QuotaFile,
    owner: u32,
}

impl<'c> Claim<'c> {
    /// Claims an entry. Returns true too if there is one: otherwise the caller adds it.
    pub(crate) fn new(file: &'c QuotaFile, owner: u32) -> (Self, bool) {
        let mut contents = file.contents.lock();
        *contents.claims.entry(owner).or_default() += 1;
        let is_there = contents.tree.contains(owner);
        (Self { file, owner }, is_there)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut contents = self.file.contents.lock();
        if let Entry::Occupied(mut claims) = contents.claims.entry(self.owner) {
            *claims.get_mut() -= 1;
            if *claims.get() == 0 {
                claims.remove();
            }
        }
    }
}

impl Contents {
    /// Returns the owner of an entry without use, limits and claims.
    pub(crate) fn reusable(&self) -> Option<u32> {
        let mut unused = self.tree.unused();
        unused.find(|owner| !self.claims.contains_key(owner))
    }
}

/// The owners of an inode, by the number of their kind.
pub(crate) type Owners = [u32; OWNERS];

/// The share of an inode in the counts of its owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) owners: Owners,
    /// Space in bytes.
    pub(crate) space: u64,
    /// Number of inodes: 1, or that of values in inodes of their own.
    pub(crate) inodes: u64,
}

impl Share {
    /// Returns the changes of the counts of a kind of owners when one share takes the place of
    /// another: an owner and the change, for the old owner and the new one.
    pub(crate) fn changes(
        old: Option<&Self>,
        new: Option<&Self>,
        kind: QuotaKind,
    ) -> impl Iterator<Item = (u32, Change)> {
        let of = |share: Option<&Self>, sign: i64| {
            share.map(|share| {
                let change = Change {
                    space: sign * share.space.cast_signed(),
                    inodes: sign * share.inodes.cast_signed(),
                };
                (share.owners[kind as usize], change)
            })
        };
        let changes = match (of(old, -1), of(new, 1)) {
            (Some((owner, lost)), Some((new_owner, gained)))
                if owner == new_owner || rt::mutant!("quota/owner-not-moved") =>
            {
                let change = Change {
                    space: lost.space + gained.space,
                    inodes: lost.inodes + gained.inodes,
                };
                [Some((owner, change)), None]
            }
            changes => changes.into(),
        };
        let is_change = |(_, change): &(u32, Change)| *change != Change::default();
        changes.into_iter().flatten().filter(is_change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_owner_moves_the_whole_share() {
        let share = |owner, space, inodes| Share {
            owners: [owner; OWNERS],
            space,
            inodes,
        };
        let changes = |old: Option<&Share>, new: Option<&Share>| -> Vec<_> {
            Share::changes(old, new, QuotaKind::Group).collect()
        };
        let change = |space, inodes| Change { space, inodes };
        let (one, more, other) = (share(1, 10, 1), share(1, 15, 1), share(2, 15, 1));
        assert_eq!(changes(Some(&one), Some(&one)), []);
        assert_eq!(changes(Some(&one), Some(&more)), [(1, change(5, 0))]);
        assert_eq!(changes(None, Some(&one)), [(1, change(10, 1))]);
        assert_eq!(
            changes(Some(&one), Some(&other)),
            [(1, change(-10, -1)), (2, change(15, 1))]
        );
    }
}
