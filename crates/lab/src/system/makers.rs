//! The file systems of guests, and the programs that make them.

use super::tool::Needed;

/// The types, each with its maker and the maker's package.
pub const GUEST_KINDS: [(&str, Needed); 7] = [
    ("ext2", ("mke2fs", "e2fsprogs")),
    ("ext3", ("mke2fs", "e2fsprogs")),
    ("ext4", ("mke2fs", "e2fsprogs")),
    ("reiserfs", ("mkreiserfs", "reiserfsprogs")),
    ("jfs", ("mkfs.jfs", "jfsutils")),
    ("xfs", ("mkfs.xfs", "xfsprogs")),
    ("btrfs", ("mkfs.btrfs", "btrfs-progs")),
];
