//! The data modes of a journal and the structures of a volume, as far as the contract differs
//! between them.

/// The structures of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Structures {
    /// Block maps, and no checksums: ext3, or ext2 without a journal.
    Ext3,
    /// Extents, checksums, groups without initialised bitmaps and, with a journal, an orphan file:
    /// the defaults of ext4. And large values of attributes in inodes of their own.
    Ext4,
    /// The same, with files and directories in inodes that are as large as a block.
    Inline,
    /// The same as `Ext4`, with quotas of users, groups and projects. Without an orphan file, so
    /// that checksums cover a list of orphans.
    Quota,
    /// The same as `Ext4`, with multiple mount protection.
    MultiMount,
    /// As `Ext4`, with clusters of several blocks.
    Clustered,
    /// As `Ext4`, with checksums of group descriptors only (`uninit_bg`): commits can be
    /// asynchronous.
    GroupChecksums,
}

impl Structures {
    /// Returns true for structures of ext4.
    pub const fn is_ext4(self) -> bool {
        !matches!(self, Self::Ext3)
    }

    /// Returns true if all metadata has checksums (`metadata_csum`).
    pub const fn has_checksums(self) -> bool {
        !matches!(self, Self::Ext3 | Self::GroupChecksums)
    }
}

/// The relation between file data and the journal: `data=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataMode {
    /// Data goes through the journal.
    Journal,
    /// Data is on the device before the commit block of the transaction that wrote it.
    Ordered,
    /// Data and the journal have no order.
    Writeback,
}

/// The blocks that ordered mode writes before a commit block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderedScope {
    /// Every block that was written in the transaction: ext3's own rule.
    All,
    /// Only blocks that the transaction allocates or brings inside the file's size.
    Allocated,
}
