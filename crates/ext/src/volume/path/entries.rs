//! The tree by path: directories, links, removal and rename.

use std::sync::Arc;

use layout::InodeNr;

use super::AsPath;
use crate::cache::inode::Inode;
use crate::disk::entry::Entry;
use crate::disk::kind::FileKind;
use crate::disk::new_inode::NewInode;
use crate::error::{Error, Result};
use crate::namei::{self, RenameMode};
use crate::volume::Volume;

impl Volume {
    /// Creates a directory with permissions 0755.
    ///
    /// # Errors
    /// - [`Error::Exists`] if the path exists.
    /// - [`Error::NoSpace`] and [`Error::NoInodes`] if there is no room for it.
    /// - Errors of [`Volume::with_parent_of`].
    pub fn create_directory(&self, path: &(impl AsPath + ?Sized)) -> Result<InodeNr> {
        let new = NewInode {
            permissions: 0o755,
            ..Default::default()
        };
        self.with_parent_of(path, |parent, name| self.make_directory(parent, name, &new))
    }

    /// Creates a directory and its missing ancestors, following symbolic links. Does nothing if the
    /// directory exists.
    ///
    /// # Errors
    /// - [`Error::NotDirectory`] if a name of the path is no directory.
    /// - [`Error::Exists`] if a name is a dangling symbolic link.
    /// - Errors of [`Volume::create_directory`].
    pub fn create_directory_all(&self, path: &(impl AsPath + ?Sized)) -> Result<InodeNr> {
        let mut links = 0;
        let mut current = self.walk(None, b"/", true, &mut links)?;
        let names = path.path_bytes().split(|byte| *byte == b'/');
        for name in names.filter(|name| !name.is_empty()) {
            let next = self.find_or_make_directory(&current, name, &mut links);
            self.unpin(&current)?;
            current = next?;
        }
        self.unpin(&current)?;
        Ok(current.nr)
    }

    /// Returns the directory of a name, pinned; creates it if the name does not exist.
    fn find_or_make_directory(
        &self,
        parent: &Arc<Inode>,
        name: &[u8],
        links: &mut u32,
    ) -> Result<Arc<Inode>> {
        let new = NewInode {
            permissions: 0o755,
            ..Default::default()
        };
        loop {
            match self.enter(parent, name, true, links) {
                Err(Error::NotFound) => {}
                Ok(found) if found.kind != FileKind::Directory => {
                    self.unpin(&found)?;
                    return Err(Error::NotDirectory);
                }
                found => return found,
            }
            rt::charge(rt::Cost::Syscall);
            match namei::make_directory(&self.core, parent.nr, name, &new) {
                // Created by another thread meanwhile, unless it is a dangling link.
                Err(Error::Exists) => match self.enter(parent, name, false, links) {
                    Err(Error::NotFound) => {}
                    found => {
                        let found = found?;
                        self.unpin(&found)?;
                        if found.kind == FileKind::Symlink {
                            return Err(Error::Exists);
                        }
                    }
                },
                made => return made,
            }
        }
    }

    /// Creates a symbolic link. The target is stored as it is, and looked up when the link is
    /// followed: relative to the link's directory, unless it starts with a slash.
    ///
    /// # Errors
    /// - [`Error::Exists`] if the path exists, even as a dangling link.
    /// - [`Error::Invalid`] if the target is empty or has a zero byte; [`Error::NameTooLong`] if it
    ///   does not fit into a block.
    /// - Errors of [`Volume::with_parent_of`].
    pub fn create_symlink(
        &self,
        path: &(impl AsPath + ?Sized),
        target: &(impl AsPath + ?Sized),
    ) -> Result<InodeNr> {
        self.with_parent_of(path, |parent, name| {
            self.symlink(parent, name, target.path_bytes(), &NewInode::default())
        })
    }

    /// Returns the target of a symbolic link, as it was given to [`Volume::create_symlink`].
    ///
    /// # Errors
    /// - [`Error::Invalid`] if the path is no symbolic link.
    /// - Errors of [`Volume::with_inode_at`].
    pub fn read_link_at(&self, path: &(impl AsPath + ?Sized)) -> Result<Vec<u8>> {
        self.with_inode_at(path, false, |nr| self.read_link(nr))
    }

    /// Adds a hard link to a file. A symbolic link at the end of `original` is not followed: the
    /// new entry refers to the symbolic link itself.
    ///
    /// # Errors
    /// - [`Error::Exists`] if `path` exists.
    /// - [`Error::IsDirectory`] if `original` is a directory; [`Error::TooManyLinks`] if it has
    ///   32,000 links.
    /// - Errors of [`Volume::with_inode_at`] and [`Volume::with_parent_of`].
    pub fn hard_link(
        &self,
        original: &(impl AsPath + ?Sized),
        path: &(impl AsPath + ?Sized),
    ) -> Result<()> {
        self.with_inode_at(original, false, |nr| {
            self.with_parent_of(path, |parent, name| self.link(nr, parent, name))
        })
    }

    /// Removes a file, link or node.
    ///
    /// # Errors
    /// - [`Error::NotFound`] if there is none; [`Error::IsDirectory`] if the path is a directory.
    /// - Errors of [`Volume::with_parent_of`].
    pub fn remove_file(&self, path: &(impl AsPath + ?Sized)) -> Result<()> {
        self.with_parent_of(path, |parent, name| self.unlink(parent, name))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// - [`Error::NotFound`] if there is none; [`Error::NotDirectory`] if the path is none;
    ///   [`Error::NotEmpty`].
    /// - Errors of [`Volume::with_parent_of`].
    pub fn remove_directory_at(&self, path: &(impl AsPath + ?Sized)) -> Result<()> {
        self.with_parent_of(path, |parent, name| self.remove_directory(parent, name))
    }

    /// Renames a path and replaces an existing target, in one step.
    ///
    /// # Errors
    /// - [`Error::NotFound`] if `from` does not exist.
    /// - [`Error::IsDirectory`], [`Error::NotDirectory`] and [`Error::NotEmpty`] if `to` exists and
    ///   cannot be replaced.
    /// - [`Error::Invalid`] if a directory would be moved into itself.
    /// - Errors of [`Volume::with_parent_of`].
    pub fn rename_path(
        &self,
        from: &(impl AsPath + ?Sized),
        to: &(impl AsPath + ?Sized),
    ) -> Result<()> {
        self.with_parent_of(from, |parent, name| {
            self.with_parent_of(to, |new_parent, new_name| {
                self.rename(parent, name, new_parent, new_name, RenameMode::Replace)
            })
        })
    }

    /// Returns the entries of a directory, without `.` and `..`, in directory order.
    ///
    /// # Errors
    /// - [`Error::NotDirectory`] if the path is none.
    /// - Errors of [`Volume::with_inode_at`].
    pub fn list(&self, path: &(impl AsPath + ?Sized)) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        self.with_inode_at(path, true, |nr| {
            self.read_directory(nr, 0, &mut |_, entry| {
                if entry.name != b"." && entry.name != b".." {
                    entries.push(entry);
                }
                true
            })
        })?;
        Ok(entries)
    }
}
