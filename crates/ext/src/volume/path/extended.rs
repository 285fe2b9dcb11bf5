//! Extended attributes by path.
//!
//! With `follow`, the calls are `getxattr` and its family: a symbolic link at the end of the path
//! is followed. Without, they are `lgetxattr` and its family: they apply to the link itself.

use super::AsPath;
use crate::error::Result;
use crate::volume::Volume;
use crate::xattr::SetMode;

impl Volume {
    /// Returns the value of an attribute of the inode of a path.
    ///
    /// # Errors
    /// Fails as [`Volume::get_attribute`] and [`Volume::with_inode_at`].
    pub fn get_attribute_at(
        &self,
        path: &(impl AsPath + ?Sized),
        follow: bool,
        name: impl AsRef<[u8]>,
    ) -> Result<Vec<u8>> {
        self.with_inode_at(path, follow, |nr| self.get_attribute(nr, name.as_ref()))
    }

    /// Returns the names of all attributes of the inode of a path.
    ///
    /// # Errors
    /// Fails as [`Volume::list_attributes`] and [`Volume::with_inode_at`].
    pub fn list_attributes_at(
        &self,
        path: &(impl AsPath + ?Sized),
        follow: bool,
    ) -> Result<Vec<Vec<u8>>> {
        self.with_inode_at(path, follow, |nr| self.list_attributes(nr))
    }

    /// Sets an attribute of the inode of a path, in one step.
    ///
    /// # Errors
    /// Fails as [`Volume::set_attribute`] and [`Volume::with_inode_at`].
    pub fn set_attribute_at(
        &self,
        path: &(impl AsPath + ?Sized),
        follow: bool,
        name: impl AsRef<[u8]>,
        value: &[u8],
        mode: SetMode,
    ) -> Result<()> {
        self.with_inode_at(path, follow, |nr| {
            self.set_attribute(nr, name.as_ref(), value, mode)
        })
    }

    /// Removes an attribute of the inode of a path, in one step.
    ///
    /// # Errors
    /// Fails as [`Volume::remove_attribute`] and [`Volume::with_inode_at`].
    pub fn remove_attribute_at(
        &self,
        path: &(impl AsPath + ?Sized),
        follow: bool,
        name: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.with_inode_at(path, follow, |nr| self.remove_attribute(nr, name.as_ref()))
    }
}
