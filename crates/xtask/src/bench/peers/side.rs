//! The sides: jext in several places, and its peers.

use clap::ValueEnum;

use crate::disk_image::Format;

/// A file system or a program that does a work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Side {
    /// Jext in this process, on memory of the process.
    JextMem,
    /// Jext in this process, on an image in a tmpfs.
    JextTmpfs,
    /// Jext in this process, on an image on disk with direct I/O.
    JextDisk,
    /// The same with fast commits.
    JextDiskFc,
    /// Jext in this process, on that image without checksums of metadata, with asynchronous commits
    /// and data=journal.
    JextDiskAsync,
    /// Jext mounted by FUSE, with the image in a tmpfs.
    JextMount,
    /// The command jext.
    Jext,
    /// The kernel's ext3 on a loop device.
    Ext3,
    /// The kernel's ext4 on a loop device.
    Ext4,
    /// The same with fast commits.
    Ext4Fc,
    /// The kernel's ext4 without checksums of metadata, with asynchronous commits and data=journal.
    Ext4Async,
    /// The kernel's XFS on a loop device.
    Xfs,
    /// A tmpfs.
    Tmpfs,
    /// Debian's fuse2fs, with an ext4 image in a tmpfs.
    Fuse2fs,
    /// Libfuse's passthrough_ll -o writeback over a tmpfs.
    Passthrough,
    /// A file on disk with direct I/O, preallocated and written before.
    Raw,
    /// Memory that is copied.
    Memcpy,
    /// The command mke2fs -d.
    Mke2fs,
    /// The command e2fsck.
    E2fsck,
}

impl Side {
    /// Returns the name of the option.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::JextMem => "jext-mem",
            Self::JextTmpfs => "jext-tmpfs",
            Self::JextDisk => "jext-disk",
            Self::JextDiskFc => "jext-disk-fc",
            Self::JextDiskAsync => "jext-disk-async",
            Self::JextMount => "jext-mount",
            Self::Jext => "jext",
            Self::Ext3 => "ext3",
            Self::Ext4 => "ext4",
            Self::Ext4Fc => "ext4-fc",
            Self::Ext4Async => "ext4-async",
            Self::Xfs => "xfs",
            Self::Tmpfs => "tmpfs",
            Self::Fuse2fs => "fuse2fs",
            Self::Passthrough => "passthrough",
            Self::Raw => "raw",
            Self::Memcpy => "memcpy",
            Self::Mke2fs => "mke2fs",
            Self::E2fsck => "e2fsck",
        }
    }

    /// Returns the format of an image on disk; `None` for a side that uses none.
    pub(super) const fn disk_format(self) -> Option<Format> {
        match self {
            Self::Ext3 => Some(Format::Ext3),
            Self::JextDisk | Self::Ext4 => Some(Format::Ext4),
            Self::JextDiskFc | Self::Ext4Fc => Some(Format::Ext4Fast),
            Self::JextDiskAsync | Self::Ext4Async => Some(Format::Ext4Async),
            Self::Xfs => Some(Format::Xfs),
            _ => None,
        }
    }

    /// Returns the mount options of an image on disk.
    pub(super) const fn disk_options(self) -> &'static str {
        match self {
            Self::Xfs => "rw",
            Self::JextDiskAsync | Self::Ext4Async => "data=journal,journal_async_commit,commit=5",
            _ => "data=ordered,commit=5",
        }
    }

    /// True if the program jext takes part.
    pub(super) const fn needs_jext(self) -> bool {
        matches!(self, Self::JextMount | Self::Jext)
    }

    /// True if it is mounted in a folder.
    pub(super) const fn is_mounted(self) -> bool {
        matches!(
            self,
            Self::JextMount
                | Self::Ext3
                | Self::Ext4
                | Self::Ext4Fc
                | Self::Ext4Async
                | Self::Xfs
                | Self::Tmpfs
                | Self::Fuse2fs
                | Self::Passthrough
        )
    }

    /// True if a FUSE program serves it.
    pub(super) const fn is_fuse(self) -> bool {
        matches!(self, Self::JextMount | Self::Fuse2fs | Self::Passthrough)
    }

    /// Returns the maximum number of rounds, so that a slow side does not take most of the time.
    pub(super) const fn rounds_max(self) -> u32 {
        match self {
            Self::Fuse2fs => 2,
            _ => u32::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_option() {
        for side in Side::value_variants() {
            let value = side.to_possible_value().expect("none is skipped");
            assert_eq!(value.get_name(), side.name());
        }
    }
}
