//! Extended attributes by inode and full name: `user.colour`, `trusted.overlay.opaque`,
//! `security.capability`.
//!
//! `system.posix_acl_access` and `system.posix_acl_default` are access control lists; their values
//! have the form that programs use (version 2). Setting the first sets the permission bits, too,
//! and a new inode inherits the default ACL of its directory. The caller checks permissions, as
//! with every operation here; it also hides `trusted.` names.

use layout::InodeNr;

use super::Volume;
use crate::error::Result;
use crate::file::with_values;
use crate::xattr::{self, SetMode};

impl Volume {
    /// Returns the value of an attribute.
    ///
    /// # Errors
    /// - [`crate::Error::NoAttribute`] if there is none; [`crate::Error::AttributeName`] or
    ///   [`crate::Error::Unsupported`] for a name that no inode can have.
    pub fn get_attribute(&self, nr: InodeNr, name: &[u8]) -> Result<Vec<u8>> {
        rt::charge(rt::Cost::Syscall);
        xattr::get(&self.core, nr, name)
    }

    /// Returns the names of all attributes: those in the inode first, then those in the block, each
    /// in stored order.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the inode is not in use, and the errors of reading its
    /// attributes.
    pub fn list_attributes(&self, nr: InodeNr) -> Result<Vec<Vec<u8>>> {
        rt::charge(rt::Cost::Syscall);
        xattr::list_names(&self.core, nr)
    }

    /// Returns the attribute block of an inode, if there is one; each inode that shares it counts
    /// it among its sectors.
    ///
    /// # Errors
    /// Fails as [`Volume::attributes`].
    pub fn attribute_block(&self, nr: InodeNr) -> Result<Option<u64>> {
        let inode = self.core.inode(nr)?;
        let block = inode.state.read().attribute_block.get();
        Ok((block != 0).then_some(block))
    }

    /// Sets an attribute, in one step.
    ///
    /// # Errors
    /// - [`crate::Error::Exists`] and [`crate::Error::NoAttribute`] by the mode.
    /// - [`crate::Error::AttributeTooLarge`] if it fits neither the inode nor its block. With
    ///   `ea_inode`: if it has more than 64 KiB, or if there is no room for its entry.
    /// - [`crate::Error::NoSpace`] and [`crate::Error::NoInodes`] if no block or no inode is
    ///   left.
    /// - [`crate::Error::NotPermitted`] for `user.` names of inodes that are neither files nor
    ///   directories, and for inodes that may not be changed.
    pub fn set_attribute(
        &self,
        nr: InodeNr,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        with_values(&self.core, || xattr::set(&self.core, nr, name, value, mode))
    }

    /// Removes an attribute, in one step. Removing an access control list that does not exist is no
    /// error.
    ///
    /// # Errors
    /// - [`crate::Error::NoAttribute`] if there is none.
    pub fn remove_attribute(&self, nr: InodeNr, name: &[u8]) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        with_values(&self.core, || xattr::remove(&self.core, nr, name))
    }
}
