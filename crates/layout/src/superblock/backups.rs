//! The groups with copies of the superblock and the descriptors.

use super::Superblock;
use crate::feature::{Compatible, Features, ReadOnlyCompatible};

/// The groups that hold a copy of the superblock and the descriptors, besides group 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backups {
    /// Every group.
    All,
    /// Those of [`is_sparse_backup`] (`sparse_super`).
    Sparse,
    /// These two at most; 0 stands for none (`sparse_super2`).
    Listed([u32; 2]),
}

impl Backups {
    /// Returns the groups of a file system with these features; the original revision has none.
    pub fn of(superblock: &Superblock, features: Features) -> Self {
        let is_sparse = features
            .read_only_compatible
            .contains(ReadOnlyCompatible::SPARSE_SUPER);
        if features.compatible.contains(Compatible::SPARSE_SUPER2) {
            Self::Listed(superblock.backup_groups.map(|group| group.get()))
        } else if is_sparse {
            Self::Sparse
        } else {
            Self::All
        }
    }

    /// True if a group holds a copy, or the original.
    #[inline]
    pub fn has(self, group: u32) -> bool {
        match self {
            Self::All => true,
            Self::Sparse => is_sparse_backup(group),
            Self::Listed(groups) => group == 0 || groups.contains(&group),
        }
    }
}

/// True if a group holds copies of the superblock and the descriptors under `sparse_super`: groups
/// 0 and 1, and powers of 3, 5 and 7. Without the feature every group holds them.
pub const fn is_sparse_backup(group: u32) -> bool {
    if group <= 1 {
        return true;
    }
    is_power_of(group, 3) || is_power_of(group, 5) || is_power_of(group, 7)
}

const fn is_power_of(number: u32, base: u32) -> bool {
    let mut number = number;
    while number > 1 && number.is_multiple_of(base) {
        number /= base;
    }
    number == 1
}
