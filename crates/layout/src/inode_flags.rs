//! The inode flags (`i_flags`), shown as letters by chattr and lsattr.

use bitflags::bitflags;

bitflags! {
    /// `i_flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct InodeFlags: u32 {
        /// `s`: overwrite when deleted (never done).
        const SECURE_DELETE = 0x0000_0001;
        /// `u`: keep for undeletion (never done).
        const UNDELETE = 0x0000_0002;
        /// `c`: compress (never done).
        const COMPRESS = 0x0000_0004;
        /// `S`: every write is synchronous.
        const SYNC = 0x0000_0008;
        /// `i`: cannot be changed.
        const IMMUTABLE = 0x0000_0010;
        /// `a`: can only grow.
        const APPEND = 0x0000_0020;
        /// `d`: left out by dump.
        const NO_DUMP = 0x0000_0040;
        /// `A`: the access time is not updated.
        const NO_ATIME = 0x0000_0080;
        /// `Z`: compressed and dirty (never done).
        const DIRTY = 0x0000_0100;
        /// `B`: has compressed blocks (never done).
        const COMPRESSED_BLOCKS = 0x0000_0200;
        /// `m`: do not compress.
        const NO_COMPRESS = 0x0000_0400;
        /// `E`: encrypted.
        const ENCRYPT = 0x0000_0800;
        /// `I`: a directory with a hash tree.
        const INDEX = 0x0000_1000;
        /// AFS magic directory.
        const AFS_DIRECTORY = 0x0000_2000;
        /// `j`: its data goes through the journal.
        const JOURNAL_DATA = 0x0000_4000;
        /// `t`: no tail merging.
        const NO_TAIL = 0x0000_8000;
        /// `D`: every change of the directory is synchronous.
        const DIRSYNC = 0x0001_0000;
        /// `T`: the top of a hierarchy; its directories are spread.
        const TOP_DIRECTORY = 0x0002_0000;
        /// `i_blocks` counts file-system blocks.
        const HUGE_FILE = 0x0004_0000;
        /// `e`: mapped by extents.
        const EXTENTS = 0x0008_0000;
        /// `V`: protected by verity.
        const VERITY = 0x0010_0000;
        /// Holds the value of a large extended attribute.
        const ATTRIBUTE_INODE = 0x0020_0000;
        /// Has blocks beyond its end.
        const BLOCKS_BEYOND_END = 0x0040_0000;
        /// `C`: no copy on write.
        const NO_COPY_ON_WRITE = 0x0080_0000;
        /// Is a snapshot (never merged).
        const SNAPSHOT = 0x0100_0000;
        /// `x`: direct access to persistent memory.
        const DAX = 0x0200_0000;
        /// Snapshot being deleted (never merged).
        const SNAPSHOT_DELETED = 0x0400_0000;
        /// Snapshot being shrunk (never merged).
        const SNAPSHOT_SHRUNK = 0x0800_0000;
        /// `N`: data within the inode.
        const INLINE_DATA = 0x1000_0000;
        /// `P`: new files take the directory's project.
        const PROJECT_INHERIT = 0x2000_0000;
        /// `F`: names are looked up without regard to case.
        const CASEFOLD = 0x4000_0000;
    }
}

impl InodeFlags {
    /// The flags that a new inode inherits from its directory on ext2 and ext3, before
    /// [`Self::masked_for`] its type.
    pub const INHERITED: Self = Self::SECURE_DELETE
        .union(Self::UNDELETE)
        .union(Self::COMPRESS)
        .union(Self::SYNC)
        .union(Self::NO_DUMP)
        .union(Self::NO_ATIME)
        .union(Self::COMPRESSED_BLOCKS)
        .union(Self::NO_COMPRESS)
        .union(Self::JOURNAL_DATA)
        .union(Self::NO_TAIL)
        .union(Self::DIRSYNC)
        .union(Self::DAX)
        .union(Self::PROJECT_INHERIT);

    /// The flags that chattr may change on ext2 and ext3.
    pub const USER_MODIFIABLE: Self = Self::SECURE_DELETE
        .union(Self::UNDELETE)
        .union(Self::COMPRESS)
        .union(Self::SYNC)
        .union(Self::IMMUTABLE)
        .union(Self::APPEND)
        .union(Self::NO_DUMP)
        .union(Self::NO_ATIME)
        .union(Self::JOURNAL_DATA)
        .union(Self::NO_TAIL)
        .union(Self::DIRSYNC)
        .union(Self::TOP_DIRECTORY)
        .union(Self::DAX)
        .union(Self::PROJECT_INHERIT);

    /// The flags that chattr may pass. Those not in [`Self::USER_MODIFIABLE`] stay as they are,
    /// without an error, as in the Linux kernel.
    pub const USER_VISIBLE: Self = Self::USER_MODIFIABLE
        .union(Self::DIRTY)
        .union(Self::COMPRESSED_BLOCKS)
        .union(Self::NO_COMPRESS)
        .union(Self::ENCRYPT)
        .union(Self::INDEX)
        .union(Self::VERITY)
        .union(Self::BLOCKS_BEYOND_END)
        .union(Self::INLINE_DATA);

    /// The flags that only directories have.
    const OF_DIRECTORIES: Self = Self::DIRSYNC
        .union(Self::TOP_DIRECTORY)
        .union(Self::CASEFOLD)
        .union(Self::PROJECT_INHERIT);

    /// Returns the flags that apply to a file of this type (`i_mode`): all for a directory, those
    /// not specific to directories for a regular file, [`Self::NO_DUMP`] and [`Self::NO_ATIME`] for
    /// the others.
    #[must_use]
    pub const fn masked_for(self, mode: u16) -> Self {
        match mode & crate::mode::TYPE_MASK {
            crate::mode::DIRECTORY => self,
            crate::mode::REGULAR => self.difference(Self::OF_DIRECTORIES),
            _ => self.intersection(Self::NO_DUMP.union(Self::NO_ATIME)),
        }
    }
}

/// The letters of chattr and lsattr, in the order in which lsattr prints them.
pub const LETTERS: &[(char, InodeFlags)] = &[
    ('s', InodeFlags::SECURE_DELETE),
    ('u', InodeFlags::UNDELETE),
    ('S', InodeFlags::SYNC),
    ('D', InodeFlags::DIRSYNC),
    ('i', InodeFlags::IMMUTABLE),
    ('a', InodeFlags::APPEND),
    ('d', InodeFlags::NO_DUMP),
    ('A', InodeFlags::NO_ATIME),
    ('c', InodeFlags::COMPRESS),
    ('E', InodeFlags::ENCRYPT),
    ('j', InodeFlags::JOURNAL_DATA),
    ('I', InodeFlags::INDEX),
    ('t', InodeFlags::NO_TAIL),
    ('T', InodeFlags::TOP_DIRECTORY),
    ('e', InodeFlags::EXTENTS),
    ('C', InodeFlags::NO_COPY_ON_WRITE),
    ('x', InodeFlags::DAX),
    ('F', InodeFlags::CASEFOLD),
    ('N', InodeFlags::INLINE_DATA),
    ('P', InodeFlags::PROJECT_INHERIT),
    ('V', InodeFlags::VERITY),
    ('m', InodeFlags::NO_COMPRESS),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mode;

    #[test]
    fn new_files_inherit_what_suits_their_type() {
        let directory = InodeFlags::JOURNAL_DATA
            | InodeFlags::DIRSYNC
            | InodeFlags::NO_ATIME
            | InodeFlags::TOP_DIRECTORY
            | InodeFlags::INDEX;
        let inherited = directory & InodeFlags::INHERITED;
        let all = InodeFlags::JOURNAL_DATA | InodeFlags::DIRSYNC | InodeFlags::NO_ATIME;
        assert_eq!(inherited.masked_for(mode::DIRECTORY), all);
        assert_eq!(
            inherited.masked_for(mode::REGULAR),
            InodeFlags::JOURNAL_DATA | InodeFlags::NO_ATIME
        );
        assert_eq!(inherited.masked_for(mode::SYMLINK), InodeFlags::NO_ATIME);
    }

    #[test]
    fn letters_are_distinct() {
        for (i, (letter, flag)) in LETTERS.iter().enumerate() {
            assert!(
                LETTERS[..i].iter().all(|(l, f)| l != letter && f != flag),
                "{letter}"
            );
        }
    }
}
