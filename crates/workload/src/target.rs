//! The trait [`Target`]: the file system interface that benchmarks need.
//!
//! It is the system call interface reduced to the needs of benchmarks, with explicit errors, and
//! can be used as `Arc<dyn Target>`.
//!
//! # Rules
//!
//! - A path is UTF-8, with components separated by `/`, relative to the target's root even if it
//!   starts with `/`. `..` is refused. `stat` and `unlink` do not follow a symbolic link at the end
//!   of the path.
//! - An [`OpenFile`] carries the target's own state, so an operation on it needs no lookup. It must
//!   be passed to [`Target::close`]: dropping it may leak it, and reports no error.
//! - `read` and `write` use and change the file's position; `pread` and `pwrite` do not, and
//!   several threads may use them on one open file.
//! - `read` returns 0 only at the end of the file or for an empty buffer. `write` may be short.
//! - The target charges the cost of a system call (`rt::Cost::Syscall`) for every call; the caller
//!   must not.

use std::any::Any;
use std::fmt;

use rt::WallTime;

use crate::error::{ErrorKind, Operation, TargetError};

/// A file system, or a part of one, on which workloads run.
pub trait Target: Send + Sync {
    /// Returns a short description: the path of a directory, `ext3 on mem:1GiB`.
    fn name(&self) -> String;

    /// Returns true if written data can be read again; a target that only counts returns zeros.
    fn keeps_contents(&self) -> bool {
        true
    }

    /// Opens a file; creates it if the flags request that.
    ///
    /// # Errors
    /// Fails if the flags exclude the state of the name: the file is missing, or exists and must be
    /// new.
    fn open(&self, path: &str, flags: OpenFlags) -> Result<OpenFile, TargetError>;

    /// Closes a file, and reports errors that are detected only then.
    ///
    /// # Errors
    /// Fails with an error of the file that no earlier call reported.
    fn close(&self, file: OpenFile) -> Result<(), TargetError>;

    /// Reads at the position and advances it; returns the number of bytes.
    ///
    /// # Errors
    /// Fails if the file is not open for reading, or if the device fails.
    fn read(&self, file: &mut OpenFile, buffer: &mut [u8]) -> Result<usize, TargetError>;

    /// Writes at the position (or at the end, if opened for append) and advances it; returns the
    /// number of bytes.
    ///
    /// # Errors
    /// Fails if the file is not open for writing, if there is no space, or if the device fails.
    fn write(&self, file: &mut OpenFile, data: &[u8]) -> Result<usize, TargetError>;

    /// Sets the position to `offset` bytes from the start.
    ///
    /// # Errors
    /// Fails if the offset is larger than the target supports.
    fn seek(&self, file: &mut OpenFile, offset: u64) -> Result<(), TargetError>;

    /// Reads at `offset`; returns the number of bytes.
    ///
    /// # Errors
    /// Fails if the file is not open for reading, or if the device fails.
    fn pread(&self, file: &OpenFile, buffer: &mut [u8], offset: u64) -> Result<usize, TargetError>;

    /// Writes at `offset`; returns the number of bytes.
    ///
    /// # Errors
    /// Fails if the file is not open for writing, if there is no space, or if the device fails.
    fn pwrite(&self, file: &OpenFile, data: &[u8], offset: u64) -> Result<usize, TargetError>;

    /// Makes the file's data and metadata durable.
    ///
    /// # Errors
    /// Fails if data or metadata could not be written.
    fn fsync(&self, file: &OpenFile) -> Result<(), TargetError>;

    /// Makes the file's data durable, and the metadata that is needed to read it.
    ///
    /// # Errors
    /// Fails if data or metadata could not be written.
    fn fdatasync(&self, file: &OpenFile) -> Result<(), TargetError>;

    /// Makes the entries of a directory durable.
    ///
    /// # Errors
    /// Fails if the path is not a directory, or if metadata could not be written.
    fn fsync_directory(&self, path: &str) -> Result<(), TargetError>;

    /// Sets the size of a file.
    ///
    /// # Errors
    /// Fails if the path is not a file, if there is no space, or if the device fails.
    fn truncate(&self, path: &str, size: u64) -> Result<(), TargetError>;

    /// Removes a directory entry that is not a directory.
    ///
    /// # Errors
    /// Fails if the name does not exist or is a directory.
    fn unlink(&self, path: &str) -> Result<(), TargetError>;

    /// Creates a directory.
    ///
    /// # Errors
    /// Fails if the name exists, or if there is no space.
    fn mkdir(&self, path: &str) -> Result<(), TargetError>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Fails if the name is not a directory, or if the directory is not empty.
    fn rmdir(&self, path: &str) -> Result<(), TargetError>;

    /// Renames an entry, and replaces an existing one with the new name.
    ///
    /// # Errors
    /// Fails if `old` does not exist, or if `new` is something that it cannot replace.
    fn rename(&self, old: &str, new: &str) -> Result<(), TargetError>;

    /// Creates a hard link.
    ///
    /// # Errors
    /// Fails if `existing` does not exist, or if `new` exists.
    fn link(&self, existing: &str, new: &str) -> Result<(), TargetError>;

    /// Creates a symbolic link at `path` that points to `contents`.
    ///
    /// # Errors
    /// Fails if `path` exists, or if there is no space.
    fn symlink(&self, contents: &str, path: &str) -> Result<(), TargetError>;

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// Fails if the path is not a symbolic link.
    fn read_link(&self, path: &str) -> Result<String, TargetError>;

    /// Returns the attributes of a path.
    ///
    /// # Errors
    /// Fails if the path does not exist.
    fn stat(&self, path: &str) -> Result<Stat, TargetError>;

    /// Returns the attributes of an open file.
    ///
    /// # Errors
    /// Fails if the device fails.
    fn stat_open(&self, file: &OpenFile) -> Result<Stat, TargetError>;

    /// Sets the access and modification times of a path.
    ///
    /// # Errors
    /// Fails if the path does not exist, or if the target is read-only.
    fn set_times(
        &self,
        path: &str,
        accessed: WallTime,
        modified: WallTime,
    ) -> Result<(), TargetError>;

    /// Returns the total and the free space.
    ///
    /// # Errors
    /// Fails if the target does not know its space.
    fn space(&self) -> Result<Space, TargetError>;

    /// Returns the entries of a directory without `.` and `..`, in the file system's order.
    ///
    /// # Errors
    /// Fails if the path is not a directory, or if the device fails.
    fn readdir(&self, path: &str) -> Result<Vec<DirectoryEntry>, TargetError>;

    /// Sets an inode's flags and clears the other flags of [`InodeFlags`].
    ///
    /// # Errors
    /// Fails if the path does not exist, or if the target does not support flags.
    fn set_flags(&self, path: &str, flags: InodeFlags) -> Result<(), TargetError>;

    /// Returns the extents of a file in file order, without holes. The call is not measured, and
    /// not every target supports it.
    ///
    /// # Errors
    /// Fails if the path is not a file, or if the target does not support it.
    fn extents(&self, path: &str) -> Result<Vec<Extent>, TargetError> {
        let cause = "the target does not report extents";
        Err(TargetError::new(
            Operation::Extents,
            path,
            ErrorKind::Unsupported,
            cause,
        ))
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// Fails if data or metadata could not be written.
    fn sync(&self) -> Result<(), TargetError>;
}

/// An open file: the target's own state behind an opaque type.
#[must_use = "an open file must be closed"]
pub struct OpenFile(Box<dyn Any + Send + Sync>);

impl OpenFile {
    /// Wraps a target's state.
    pub fn new<T: Any + Send + Sync>(state: T) -> Self {
        Self(Box::new(state))
    }

    /// Returns the state, if it is of type `T`.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// Returns the state for modification, if it is of type `T`.
    #[must_use]
    pub fn get_mut<T: Any>(&mut self) -> Option<&mut T> {
        self.0.downcast_mut()
    }

    /// Returns the state by value, if it is of type `T`.
    #[must_use]
    pub fn into_inner<T: Any>(self) -> Option<T> {
        self.0.downcast().ok().map(|state| *state)
    }
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenFile")
    }
}

/// Flags of an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFlags {
    /// The file can be read.
    pub read: bool,
    /// The file can be written.
    pub write: bool,
    /// Every `write` appends.
    pub append: bool,
    /// The file is created if it does not exist.
    pub create: bool,
    /// With `create`: the open fails if the file exists.
    pub exclusive: bool,
    /// The file is truncated.
    pub truncate: bool,
    /// Every write is durable when it returns, as after `fsync` (O_SYNC).
    pub sync: bool,
    /// Every write is durable when it returns, as after `fdatasync` (O_DSYNC).
    pub data_sync: bool,
    /// Requests bypass the cache if the target supports it (O_DIRECT). Buffers, sizes and offsets
    /// must then be aligned.
    pub direct: bool,
}

impl OpenFlags {
    const NONE: Self = Self {
        read: false,
        write: false,
        append: false,
        create: false,
        exclusive: false,
        truncate: false,
        sync: false,
        data_sync: false,
        direct: false,
    };
    /// Read access.
    pub const READ: Self = Self {
        read: true,
        ..Self::NONE
    };
    /// Write access.
    pub const WRITE: Self = Self {
        write: true,
        ..Self::NONE
    };
    /// Read and write access.
    pub const READ_WRITE: Self = Self {
        read: true,
        write: true,
        ..Self::NONE
    };

    /// Returns the flags with `create`: the file is created if it does not exist.
    #[must_use]
    pub const fn create(self) -> Self {
        Self {
            create: true,
            ..self
        }
    }

    /// Returns the flags with `create` and `exclusive`: the open fails if the file exists.
    #[must_use]
    pub const fn create_new(self) -> Self {
        Self {
            create: true,
            exclusive: true,
            ..self
        }
    }

    /// Returns the flags with `truncate`: the file is truncated.
    #[must_use]
    pub const fn truncate(self) -> Self {
        Self {
            truncate: true,
            ..self
        }
    }

    /// Returns the flags with `append`: every write appends.
    #[must_use]
    pub const fn append(self) -> Self {
        Self {
            append: true,
            ..self
        }
    }

    /// Sets whether requests bypass the cache.
    #[must_use]
    pub const fn direct(self, is_direct: bool) -> Self {
        Self {
            direct: is_direct,
            ..self
        }
    }

    /// Returns the flags with `sync`: every write is durable when it returns.
    #[must_use]
    pub const fn sync(self) -> Self {
        Self { sync: true, ..self }
    }
}

/// Flags of an inode, as `chattr` sets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InodeFlags {
    /// All changes of the inode are synchronous (`+S`); new files inherit it from their directory.
    pub sync: bool,
    /// Changes of the directory are synchronous (`+D`).
    pub directory_sync: bool,
    /// The file's data goes through the journal (`+j`).
    pub journal_data: bool,
}

/// Kind of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, a pipe or a socket.
    Other,
}

/// Attributes of an inode that benchmarks need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Inode number.
    pub inode: u64,
    /// Kind of the inode.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Allocated space in bytes.
    pub allocated: u64,
    /// Link count.
    pub links: u64,
}

/// Space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Total space for files in bytes.
    pub total: u64,
    /// Free space in bytes.
    pub free: u64,
}

/// An extent: a range of a file that is contiguous on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Offset on the device, in bytes.
    pub place: u64,
    /// Length in bytes.
    pub length: u64,
}

/// A directory entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Name without its directory; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// Inode number.
    pub inode: u64,
    /// Kind of the inode.
    pub kind: FileKind,
}
