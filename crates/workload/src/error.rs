//! Why an operation on a target failed: which operation, on what, and of which kind.

use std::fmt;

/// The operations of a [`Target`](crate::Target), for error messages and counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `open`.
    Open,
    /// `close`.
    Close,
    /// `read`.
    Read,
    /// `write`.
    Write,
    /// `seek`.
    Seek,
    /// `pread`.
    Pread,
    /// `pwrite`.
    Pwrite,
    /// `fsync`.
    Fsync,
    /// `fdatasync`.
    Fdatasync,
    /// `fsync_directory`.
    FsyncDirectory,
    /// `truncate`.
    Truncate,
    /// `unlink`.
    Unlink,
    /// `mkdir`.
    Mkdir,
    /// `rmdir`.
    Rmdir,
    /// `rename`.
    Rename,
    /// `link`.
    Link,
    /// `symlink`.
    Symlink,
    /// `read_link`.
    ReadLink,
    /// `stat`.
    Stat,
    /// `stat_open`.
    StatOpen,
    /// `set_times`.
    SetTimes,
    /// `space`.
    Space,
    /// `readdir`.
    Readdir,
    /// `set_flags`.
    SetFlags,
    /// `extents`.
    Extents,
    /// `sync`.
    Sync,
}

impl Operation {
    /// All operations, in the order of their declaration.
    pub const ALL: [Self; 26] = [
        Self::Open,
        Self::Close,
        Self::Read,
        Self::Write,
        Self::Seek,
        Self::Pread,
        Self::Pwrite,
        Self::Fsync,
        Self::Fdatasync,
        Self::FsyncDirectory,
        Self::Truncate,
        Self::Unlink,
        Self::Mkdir,
        Self::Rmdir,
        Self::Rename,
        Self::Link,
        Self::Symlink,
        Self::ReadLink,
        Self::Stat,
        Self::StatOpen,
        Self::SetTimes,
        Self::Space,
        Self::Readdir,
        Self::SetFlags,
        Self::Extents,
        Self::Sync,
    ];

    /// The name of the method.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Close => "close",
            Self::Read => "read",
            Self::Write => "write",
            Self::Seek => "seek",
            Self::Pread => "pread",
            Self::Pwrite => "pwrite",
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::FsyncDirectory => "fsync of directory",
            Self::Truncate => "truncate",
            Self::Unlink => "unlink",
            Self::Mkdir => "mkdir",
            Self::Rmdir => "rmdir",
            Self::Rename => "rename",
            Self::Link => "link",
            Self::Symlink => "symlink",
            Self::ReadLink => "readlink",
            Self::Stat => "stat",
            Self::StatOpen => "stat of open file",
            Self::SetTimes => "change of the times",
            Self::Space => "question for space",
            Self::Readdir => "readdir",
            Self::Extents => "block map",
            Self::SetFlags => "change of the flags",
            Self::Sync => "sync",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What kind of failure it was, as far as a workload can act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The path, or a directory on the way to it, is not there.
    NotFound,
    /// The path is there already.
    Exists,
    /// A component of the path is not a directory.
    NotDirectory,
    /// The path is a directory.
    IsDirectory,
    /// The directory is not empty.
    NotEmpty,
    /// No space or no inodes are left, or a quota is used up.
    NoSpace,
    /// The file would be larger than a file can be.
    TooLarge,
    /// The name is too long or not allowed.
    BadName,
    /// The inode has as many links as it can have.
    TooManyLinks,
    /// The file system is read-only, perhaps since an error.
    ReadOnly,
    /// Not permitted.
    Permission,
    /// The device failed.
    Io,
    /// What is on the device contradicts itself.
    Corrupt,
    /// The target cannot do this.
    Unsupported,
    /// The call makes no sense: a bad offset, a handle of another target, a file not opened for this.
    Invalid,
    /// The device or the file system is not there any more.
    Gone,
    /// Anything else; the cause says what.
    Other,
}

/// A failed operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation} {path}: {cause}")]
pub struct TargetError {
    /// What was asked.
    pub operation: Operation,
    /// On what; for an operation on an open file the path that it was opened with, or an empty text.
    pub path: String,
    /// What the target said.
    pub cause: String,
    /// Which kind of failure that is.
    pub kind: ErrorKind,
}

impl TargetError {
    /// An error from its parts.
    #[must_use]
    pub fn new(
        operation: Operation,
        path: &str,
        kind: ErrorKind,
        cause: impl Into<String>,
    ) -> Self {
        Self {
            operation,
            path: path.to_owned(),
            cause: cause.into(),
            kind,
        }
    }

    /// The error of an open file that another target opened.
    #[must_use]
    pub fn foreign_file(operation: Operation) -> Self {
        Self::new(
            operation,
            "",
            ErrorKind::Invalid,
            "the file was opened by another target",
        )
    }
}
