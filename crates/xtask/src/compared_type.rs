//! The type of the file systems that a comparison makes.

use clap::ValueEnum;
use ext::mkfs::FileSystemType;

/// A type that jext and the other program both make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ComparedType {
    /// With a journal and indirect blocks.
    Ext3,
    /// The features that mke2fs chooses for ext4.
    Ext4,
}

impl ComparedType {
    /// The name that mount and mke2fs know.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ext3 => "ext3",
            Self::Ext4 => "ext4",
        }
    }

    /// The type in the options of jext's mkfs.
    pub(crate) const fn to_mkfs(self) -> FileSystemType {
        match self {
            Self::Ext3 => FileSystemType::Ext3,
            Self::Ext4 => FileSystemType::Ext4,
        }
    }
}
