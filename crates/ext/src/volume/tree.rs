//! Operations on the tree by inode and name, in the style of a VFS.

use std::sync::Arc;

use layout::InodeNr;
use layout::device::DeviceNumber;

use super::Volume;
use crate::cache::inode::Inode;
use crate::disk::entry::Entry;
use crate::disk::kind::FileKind;
use crate::disk::new_inode::NewInode;
use crate::error::{Error, Result};
use crate::namei::{self, RenameMode};

impl Volume {
    /// Looks up a name in a directory.
    ///
    /// # Errors
    /// - [`Error::NotFound`] if the directory has no such name; [`Error::NotDirectory`] if it is
    ///   none.
    /// - [`Error::NameTooLong`] for a name of more than 255 bytes.
    pub fn lookup(&self, parent: InodeNr, name: &[u8]) -> Result<InodeNr> {
        rt::charge(rt::Cost::Syscall);
        namei::lookup(&self.core, parent, name)
    }

    /// Creates an empty regular file.
    ///
    /// # Errors
    /// - [`Error::Exists`] if the name exists; [`Error::Invalid`] for a name that no file can have.
    /// - [`Error::NoSpace`], [`Error::NoInodes`] and [`Error::DirectoryFull`] if there is no room.
    /// - [`Error::NotPermitted`] if the directory is immutable.
    /// - Errors of [`Volume::lookup`].
    pub fn create(&self, parent: InodeNr, name: &[u8], new: &NewInode) -> Result<InodeNr> {
        rt::charge(rt::Cost::Syscall);
        let inode = self.create_pinned(parent, name, new)?;
        self.let_go(&inode)
    }

    /// Creates an empty regular file, pinned.
    pub(super) fn create_pinned(
        &self,
        parent: InodeNr,
        name: &[u8],
        new: &NewInode,
    ) -> Result<Arc<Inode>> {
        let (kind, device) = (FileKind::Regular, DeviceNumber::default());
        namei::create(&self.core, parent, name, kind, device, new)
    }

    /// Unpins a new inode.
    fn let_go(&self, inode: &Arc<Inode>) -> Result<InodeNr> {
        self.unpin(inode)?;
        Ok(inode.nr)
    }

    /// Creates a device node, fifo, socket or empty regular file.
    ///
    /// # Errors
    /// - [`Error::Invalid`] for a directory or symbolic link, and for a device number that is too
    ///   large.
    /// - Errors of [`Volume::create`].
    pub fn make_node(
        &self,
        parent: InodeNr,
        name: &[u8],
        kind: FileKind,
        device: DeviceNumber,
        new: &NewInode,
    ) -> Result<InodeNr> {
        rt::charge(rt::Cost::Syscall);
        if matches!(kind, FileKind::Directory | FileKind::Symlink) {
            return Err(Error::Invalid(
                "directories and links have calls of their own",
            ));
        }
        let inode = namei::create(&self.core, parent, name, kind, device, new)?;
        self.let_go(&inode)
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// - [`Error::TooManyLinks`] if the parent has as many directories as the format allows.
    /// - Errors of [`Volume::create`].
    pub fn make_directory(&self, parent: InodeNr, name: &[u8], new: &NewInode) -> Result<InodeNr> {
        rt::charge(rt::Cost::Syscall);
        let inode = namei::make_directory(&self.core, parent, name, new)?;
        self.let_go(&inode)
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    /// - [`Error::Invalid`] if the target is empty or has a zero byte; [`Error::NameTooLong`] if it
    ///   does not fit into a block.
    /// - Errors of [`Volume::create`].
    pub fn symlink(
        &self,
        parent: InodeNr,
        name: &[u8],
        target: &[u8],
        new: &NewInode,
    ) -> Result<InodeNr> {
        rt::charge(rt::Cost::Syscall);
        let inode = namei::symlink(&self.core, parent, name, target, new)?;
        self.let_go(&inode)
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// [`Error::Invalid`] unless the inode is a symbolic link.
    pub fn read_link(&self, nr: InodeNr) -> Result<Vec<u8>> {
        rt::charge(rt::Cost::Syscall);
        namei::read_link(&self.core, nr)
    }

    /// Adds a directory entry for an inode.
    ///
    /// # Errors
    /// - [`Error::IsDirectory`] for a directory; [`Error::TooManyLinks`] if the inode has 32,000
    ///   links.
    /// - [`Error::NotPermitted`] if the inode is immutable or append-only.
    /// - Errors of [`Volume::create`].
    pub fn link(&self, nr: InodeNr, parent: InodeNr, name: &[u8]) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        namei::link(&self.core, nr, parent, name)
    }

    /// Removes a directory entry of an inode that is not a directory; the inode is deleted after
    /// its last link and its last open handle.
    ///
    /// # Errors
    /// - [`Error::IsDirectory`] for a directory.
    /// - [`Error::NotPermitted`] if the inode or its directory is immutable or append-only.
    /// - Errors of [`Volume::lookup`].
    pub fn unlink(&self, parent: InodeNr, name: &[u8]) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        namei::unlink(&self.core, parent, name)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// - [`Error::NotDirectory`] for other inodes; [`Error::NotEmpty`]; [`Error::Invalid`] for the
    ///   root and `.`.
    /// - Errors of [`Volume::unlink`].
    pub fn remove_directory(&self, parent: InodeNr, name: &[u8]) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        namei::remove_directory(&self.core, parent, name)
    }

    /// Renames a directory entry, in one step.
    ///
    /// # Errors
    /// - [`Error::Exists`] with [`RenameMode::NoReplace`], if the new name exists.
    /// - [`Error::IsDirectory`], [`Error::NotDirectory`] and [`Error::NotEmpty`] if the new name
    ///   cannot be replaced.
    /// - [`Error::Invalid`] if a directory would be moved into itself.
    /// - Errors of [`Volume::create`] and [`Volume::unlink`].
    pub fn rename(
        &self,
        parent: InodeNr,
        name: &[u8],
        new_parent: InodeNr,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        namei::rename(&self.core, parent, name, new_parent, new_name, mode)
    }

    /// Calls `visit` with `(cookie, entry)` for each entry from a cookie on, 0 being the start,
    /// until it returns false.
    ///
    /// # Errors
    /// - [`Error::NotDirectory`] unless the inode is a directory.
    /// - [`Error::Corrupt`] after all readable entries.
    pub fn read_directory(
        &self,
        nr: InodeNr,
        cookie: u64,
        visit: &mut dyn FnMut(u64, Entry) -> bool,
    ) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        let inode = self.core.inode(nr)?;
        let state = inode.state.read();
        if state.kind != FileKind::Directory {
            return Err(Error::NotDirectory);
        }
        crate::dir::read(&self.core, &inode, &state, cookie, visit)
    }

    /// Makes a directory durable: its entries, and all changes committed with them.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the inode does not exist.
    pub fn sync_directory(&self, nr: InodeNr) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        let inode = self.core.inode(nr)?;
        crate::file::sync(&self.core, &inode, false)
    }
}
