//! The quota files of an open volume in memory, and the owners and counts of inodes.

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
}

/// The owners of an inode, by the number of their kind.
pub(crate) type Owners = [u32; OWNERS];

/// The share of an inode in the counts of its owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) owners: Owners,
    /// Space in bytes.
    pub(crate) space: u64,
    /// Number of inodes: 1.
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
