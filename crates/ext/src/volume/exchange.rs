//! Exchanging blocks of files, and defragmentation.

use layout::InodeNr;

use super::{AsPath, NewInode, Volume};
use crate::error::{Error, Result};
use crate::file::{self, Exchange};

pub use crate::file::Defragmented;

/// Number of names that are tried for a file without a name.
const NAMES_MAX: u32 = 64;

impl Volume {
    /// Exchanges the contents of parts of two regular files with extents, without copying data:
    /// each part starts at its offset and has `length` bytes. A crash leaves the first blocks
    /// exchanged and the others not.
    ///
    /// Unlike `EXT4_IOC_MOVE_EXT` of Linux, which leaves the data where it is and exchanges the
    /// blocks below it, this exchanges the data.
    ///
    /// # Errors
    /// - [`Error::Invalid`] for parts that are not whole blocks, or not within the files, and for
    ///   parts of one file.
    /// - [`Error::Unsupported`] for a file without extents, or whose data is journaled, and on a
    ///   volume with `bigalloc`.
    /// - [`Error::NotPermitted`] for an immutable or append-only file, [`Error::Verity`].
    /// - [`Error::NoSpace`] if an extent is cut and the volume has no block for its tree.
    pub fn exchange_range(
        &self,
        files: [InodeNr; 2],
        offsets: [u64; 2],
        length: u64,
    ) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        let [first, second] = files;
        let (first, second) = (self.core.inode(first)?, self.core.inode(second)?);
        let what = Exchange {
            starts: offsets,
            length,
        };
        file::exchange(&self.core, &first, &second, what)
    }

    /// Gives a regular file fewer extents, if the volume has better places for its blocks. Its
    /// contents and times stay, and after a crash they do as well.
    ///
    /// # Errors
    /// - [`Error::Unsupported`] for a file without extents, or whose data is journaled, and on a
    ///   volume with `bigalloc`.
    /// - [`Error::NotPermitted`] for an immutable or append-only file, [`Error::Verity`].
    /// - Errors of [`Volume::with_inode_at`] and [`Volume::create`].
    pub fn defragment(&self, path: &(impl AsPath + ?Sized)) -> Result<Defragmented> {
        rt::charge(rt::Cost::Syscall);
        let path = path.path_bytes();
        self.with_inode_at(path, true, |nr| {
            let inode = self.core.inode(nr)?;
            file::check_live(&inode.state.read())?;
            let spare = self.with_parent_of(path, |parent, _| self.create_spare(parent))?;
            let done = file::defragment(&self.core, &inode, &spare);
            let deleted = self.unpin(&spare);
            let done = done?;
            deleted.map(|()| done)
        })
    }

    /// Creates a file that has lost its name at once. It is pinned.
    fn create_spare(&self, parent: InodeNr) -> Result<std::sync::Arc<crate::cache::inode::Inode>> {
        let mut created = Err(Error::Exists);
        for number in 0..NAMES_MAX {
            let name = format!(".defragment-{number}");
            let made = self.create_pinned(parent, name.as_bytes(), &NewInode::default());
            created = made.map(|inode| (inode, name));
            if !matches!(created, Err(Error::Exists)) {
                break;
            }
        }
        let (inode, name) = created?;
        if let Err(error) = self.unlink(parent, name.as_bytes()) {
            self.unpin(&inode)?;
            return Err(error);
        }
        Ok(inode)
    }
}
