//! Errors of a target: the operation, its path, and the kind of failure.

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

    /// Returns the name of the operation for messages.
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

/// Kind of a failure, as far as a workload can act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The path, or a directory on it, does not exist.
    NotFound,
    /// The path exists already.
    Exists,
    /// A component of the path is not a directory.
    NotDirectory,
    /// The path is a directory.
    IsDirectory,
    /// The directory is not empty.
    NotEmpty,
    /// No space or inodes are left, or a quota is exhausted.
    NoSpace,
    /// The file would exceed the maximum file size.
    TooLarge,
    /// The name is too long or not allowed.
    BadName,
    /// The inode has the maximum number of links.
    TooManyLinks,
    /// The file system is read-only, possibly because of an earlier error.
    ReadOnly,
    /// The operation is not permitted.
    Permission,
    /// The device failed.
    Io,
    /// The on-disk state is invalid.
    Corrupt,
    /// The target does not support the operation.
    Unsupported,
    /// The call is invalid: a bad offset, a handle of another target, a file not opened for this.
    Invalid,
    /// The device or the file system is no longer available.
    Gone,
    /// Any other failure, described by the cause.
    Other,
}

/// A failed operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation} {path}: {cause}")]
pub struct TargetError {
    /// The operation.
    pub operation: Operation,
    /// The path; for an operation on an open file the path of its open, or an empty text.
    pub path: String,
    /// Description from the target.
    pub cause: String,
    /// Kind of the failure.
    pub kind: ErrorKind,
}

impl TargetError {
    /// Returns an error from its parts.
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

    /// Returns the error for an open file of another target.
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
