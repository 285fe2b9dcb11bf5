//! The trait [`Target`]: what a benchmark needs of a file system.
//!
//! It is the system call interface cut down to what benchmarks use, with explicit errors, and can be used as
//! `Arc<dyn Target>`.
//!
//! # Rules
//!
//! - A path is UTF-8, its components divided by `/`, relative to the target's root whether or not it begins with `/`.
//!   `..` is refused. `stat` and `unlink` do not follow a symbolic link at the end of the path.
//! - An [`OpenFile`] carries the target's own state, so an operation on it looks nothing up. It must be given back to
//!   [`Target::close`]: dropping it may leak it, and reports no error.
//! - `read` and `write` use and move the file's position; `pread` and `pwrite` do not, and several threads may use them
//!   on one open file.
//! - `read` returns 0 only at the end of the file or for an empty buffer. `write` may write less than asked.
//! - The target charges the cost of a system call (`rt::Cost::Syscall`) for every call; its caller does not.

use std::any::Any;
use std::fmt;

use rt::WallTime;

use crate::error::{ErrorKind, Operation, TargetError};

/// A file system, or a part of one, that a workload can be run on.
pub trait Target: Send + Sync {
    /// What the target is, in a few words for people: a directory's path, `ext3 on mem:1GiB`.
    fn name(&self) -> String;

    /// Whether what is written can be read again; a target that only counts gives zeros.
    fn keeps_contents(&self) -> bool {
        true
    }

    /// Opens a file, and makes it if the flags say so.
    fn open(&self, path: &str, flags: OpenFlags) -> Result<OpenFile, TargetError>;

    /// Closes a file and reports the errors that only then come to light.
    fn close(&self, file: OpenFile) -> Result<(), TargetError>;

    /// Reads at the position and moves it; returns how many bytes.
    fn read(&self, file: &mut OpenFile, buffer: &mut [u8]) -> Result<usize, TargetError>;

    /// Writes at the position (or at the end, if opened for append) and moves it; returns how many bytes.
    fn write(&self, file: &mut OpenFile, data: &[u8]) -> Result<usize, TargetError>;

    /// Moves the position to `offset` bytes from the start.
    fn seek(&self, file: &mut OpenFile, offset: u64) -> Result<(), TargetError>;

    /// Reads at `offset`; returns how many bytes.
    fn pread(&self, file: &OpenFile, buffer: &mut [u8], offset: u64) -> Result<usize, TargetError>;

    /// Writes at `offset`; returns how many bytes.
    fn pwrite(&self, file: &OpenFile, data: &[u8], offset: u64) -> Result<usize, TargetError>;

    /// Makes the file's data and metadata durable.
    fn fsync(&self, file: &OpenFile) -> Result<(), TargetError>;

    /// Makes the file's data durable, and the metadata without which it cannot be read.
    fn fdatasync(&self, file: &OpenFile) -> Result<(), TargetError>;

    /// Makes the entries of a directory durable.
    fn fsync_directory(&self, path: &str) -> Result<(), TargetError>;

    /// Sets a file's size.
    fn truncate(&self, path: &str, size: u64) -> Result<(), TargetError>;

    /// Removes a name that is not a directory.
    fn unlink(&self, path: &str) -> Result<(), TargetError>;

    /// Makes a directory.
    fn mkdir(&self, path: &str) -> Result<(), TargetError>;

    /// Removes an empty directory.
    fn rmdir(&self, path: &str) -> Result<(), TargetError>;

    /// Renames, and replaces what had the new name.
    fn rename(&self, old: &str, new: &str) -> Result<(), TargetError>;

    /// Gives a file a second name.
    fn link(&self, existing: &str, new: &str) -> Result<(), TargetError>;

    /// Makes a symbolic link at `path` that points to `contents`.
    fn symlink(&self, contents: &str, path: &str) -> Result<(), TargetError>;

    /// Where a symbolic link points.
    fn read_link(&self, path: &str) -> Result<String, TargetError>;

    /// The attributes of a path.
    fn stat(&self, path: &str) -> Result<Stat, TargetError>;

    /// The attributes of an open file.
    fn stat_open(&self, file: &OpenFile) -> Result<Stat, TargetError>;

    /// Sets when a path was last read and written.
    fn set_times(
        &self,
        path: &str,
        accessed: WallTime,
        modified: WallTime,
    ) -> Result<(), TargetError>;

    /// How much space there is.
    fn space(&self) -> Result<Space, TargetError>;

    /// The entries of a directory without `.` and `..`, in the order in which the file system gives them.
    fn readdir(&self, path: &str) -> Result<Vec<DirectoryEntry>, TargetError>;

    /// Sets an inode's flags and clears those of [`InodeFlags`] that are not asked for.
    fn set_flags(&self, path: &str, flags: InodeFlags) -> Result<(), TargetError>;

    /// Where a file's bytes lie on the device, in the order of the file, holes left out. Nothing is measured here and not
    /// every target knows.
    fn extents(&self, path: &str) -> Result<Vec<Extent>, TargetError> {
        let cause = "the target does not say where files lie";
        Err(TargetError::new(
            Operation::Extents,
            path,
            ErrorKind::Unsupported,
            cause,
        ))
    }

    /// Makes everything durable.
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

    /// The state, if it is of type `T`.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// The state to change, if it is of type `T`.
    #[must_use]
    pub fn get_mut<T: Any>(&mut self) -> Option<&mut T> {
        self.0.downcast_mut()
    }

    /// The state itself, if it is of type `T`.
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

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFlags {
    /// It may be read.
    pub read: bool,
    /// It may be written.
    pub write: bool,
    /// Every `write` goes to the end.
    pub append: bool,
    /// It is made if it is not there.
    pub create: bool,
    /// With `create`: it must not be there.
    pub exclusive: bool,
    /// It is emptied.
    pub truncate: bool,
    /// Every write is durable when it returns, as after `fsync` (O_SYNC).
    pub sync: bool,
    /// Every write is durable when it returns, as after `fdatasync` (O_DSYNC).
    pub data_sync: bool,
    /// Past the cache, if the target can (O_DIRECT): buffers, sizes and offsets must then be aligned.
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
    /// To read.
    pub const READ: Self = Self {
        read: true,
        ..Self::NONE
    };
    /// To write.
    pub const WRITE: Self = Self {
        write: true,
        ..Self::NONE
    };
    /// To read and write.
    pub const READ_WRITE: Self = Self {
        read: true,
        write: true,
        ..Self::NONE
    };

    /// These, and made if it is not there.
    #[must_use]
    pub const fn create(self) -> Self {
        Self {
            create: true,
            ..self
        }
    }

    /// These, and it must not be there yet.
    #[must_use]
    pub const fn create_new(self) -> Self {
        Self {
            create: true,
            exclusive: true,
            ..self
        }
    }

    /// These, and emptied.
    #[must_use]
    pub const fn truncate(self) -> Self {
        Self {
            truncate: true,
            ..self
        }
    }

    /// These, and every write goes to the end.
    #[must_use]
    pub const fn append(self) -> Self {
        Self {
            append: true,
            ..self
        }
    }

    /// These, and past the cache or not.
    #[must_use]
    pub const fn direct(self, is_direct: bool) -> Self {
        Self {
            direct: is_direct,
            ..self
        }
    }

    /// These, and every write is durable when it returns.
    #[must_use]
    pub const fn sync(self) -> Self {
        Self { sync: true, ..self }
    }
}

/// Flags of an inode, as `chattr` sets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InodeFlags {
    /// Everything about the inode is written synchronously (`+S`); inherited by what is made in a directory.
    pub sync: bool,
    /// Changes of the directory are synchronous (`+D`).
    pub directory_sync: bool,
    /// The file's data goes through the journal (`+j`).
    pub journal_data: bool,
}

/// What an inode is.
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

/// The attributes of an inode that benchmarks look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The inode's number.
    pub inode: u64,
    /// What it is.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
    /// How many bytes of the device it occupies.
    pub allocated: u64,
    /// How many names it has.
    pub links: u64,
}

/// The space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes that files can have.
    pub total: u64,
    /// Bytes of them that are free.
    pub free: u64,
}

/// A run of a file's bytes that lie together on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// Where on the device, in bytes.
    pub place: u64,
    /// How many bytes.
    pub length: u64,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name without its directory; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// The inode's number.
    pub inode: u64,
    /// What it is.
    pub kind: FileKind,
}
