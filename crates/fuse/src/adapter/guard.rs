//! What stands between an operation and its answer: a panic is caught, an error becomes a number.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::UNIX_EPOCH;

use ext::volume::Entry;
use fuser::{Errno, FileAttr, FileType, INodeNo};

use super::Adapter;
use crate::attributes::type_of;
use crate::errno;
use crate::vfs::Vfs;

/// `whence` of lseek: the next data.
pub(super) const SEEK_DATA: i32 = 3;
/// `whence` of lseek: the next hole.
pub(super) const SEEK_HOLE: i32 = 4;
/// The answer to a copy has 32 bits.
pub(super) const COPY_BYTES_MAX: u64 = 1 << 30;

/// Why an operation has no result.
pub(super) enum Failure {
    /// The file system says so.
    Engine(ext::Error),
    /// The request says so.
    Request(Errno),
}

impl From<ext::Error> for Failure {
    fn from(error: ext::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Request(errno)
    }
}

impl<V: Vfs> Adapter<V> {
    /// Does what a request asks for. After a panic nothing is changed any more: what was half done stays in memory.
    pub(super) fn guard<T>(
        &self,
        name: &'static str,
        operation: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Errno> {
        let result = match catch_unwind(AssertUnwindSafe(operation)) {
            Ok(result) => result,
            Err(_) => {
                tracing::error!(name, "a panic: the volume is read-only from here on");
                self.vfs.abort(&format!("a panic in {name}"));
                return Err(Errno::EIO);
            }
        };
        result.map_err(|failure| match failure {
            Failure::Request(errno) => errno,
            Failure::Engine(error) => {
                let errno = errno::of(&error);
                if errno.code() == Errno::EIO.code() || matches!(error, ext::Error::Corrupt(_)) {
                    tracing::error!(name, %error, "failed");
                } else {
                    tracing::debug!(name, %error, "refused");
                }
                errno
            }
        })
    }
}

/// A name that is not there.
pub(super) fn absent() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// `.`, `..`, and an entry whose inode cannot be read: the kernel makes no node of them. Of the first two it wants the
/// numbers.
pub(super) fn unknown(entry: &Entry) -> FileAttr {
    let is_dots = entry.name == b"." || entry.name == b"..";
    FileAttr {
        ino: INodeNo(if is_dots { u64::from(entry.inode.get()) } else { 0 }),
        kind: entry.kind.map_or(FileType::RegularFile, type_of),
        ..absent()
    }
}
