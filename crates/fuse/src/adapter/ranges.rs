//! Operations on ranges of files: fallocate and copy_file_range.

use fuser::{Errno, FileHandle, INodeNo, Request};

use super::flags::range_change;
use super::{Adapter, inode, reserve};
use crate::requests::Copy;

/// Maximum size of a copy: the answer has 32 bits.
const COPY_BYTES_MAX: u64 = 1 << 30;

impl Adapter {
    pub(super) fn change_range(
        &self,
        request: &Request,
        (node, handle): (INodeNo, FileHandle),
        offset: u64,
        length: u64,
        mode: i32,
    ) -> Result<(), Errno> {
        let done = self.guard_for(request, "fallocate", || {
            let (what, keeps_size) = range_change(mode).ok_or(Errno::EOPNOTSUPP)?;
            let file = (inode(node)?, reserve::decode(handle));
            self.contents_change(request, file.0)?;
            Ok(self
                .fs
                .change_range(file, offset, length, what, keeps_size)?)
        });
        self.changed_node(node, done)
    }

    /// Copies a range. Returns the number of bytes copied.
    pub(super) fn copy_range(
        &self,
        request: &Request,
        (source, source_offset): (INodeNo, u64),
        (target, target_handle): (INodeNo, FileHandle),
        target_offset: u64,
        length: u64,
    ) -> Result<u64, Errno> {
        self.guard_for(request, "copy_file_range", || {
            let copy = Copy {
                source: inode(source)?,
                source_offset,
                target: inode(target)?,
                target_handle: reserve::decode(target_handle),
                target_offset,
                length: length.min(COPY_BYTES_MAX),
            };
            self.contents_change(request, copy.target)?;
            Ok(self.fs.copy(copy)?)
        })
    }
}
