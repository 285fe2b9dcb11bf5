//! Extended attributes by inode and whole name: `user.colour`, `trusted.overlay.opaque`, `security.capability`.
//!
//! `system.posix_acl_access` and `system.posix_acl_default` are access control lists; their values have the form that programs
//! see (version 2). Setting the first sets the permission bits, too, and a new inode gets what its directory hands down.
//! Who may do what is for the caller to decide, as with every operation here; so is hiding `trusted.` names.

use layout::InodeNr;

use super::Volume;
use crate::error::Result;
use crate::xattr::{self, SetMode};

impl Volume {
    /// The value of an attribute.
    ///
    /// # Errors
    /// - [`crate::Error::NoAttribute`] if there is none; [`crate::Error::AttributeName`] or [`crate::Error::Unsupported`] for a name that
    ///   no inode can have.
    pub fn get_attribute(&self, nr: InodeNr, name: &[u8]) -> Result<Vec<u8>> {
        rt::charge(rt::Cost::Syscall);
        xattr::get(&self.core, nr, name)
    }

    /// The names of all attributes: those in the inode first, each place in its order.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the inode is not in use, and those of reading its attributes.
    pub fn list_attributes(&self, nr: InodeNr) -> Result<Vec<Vec<u8>>> {
        rt::charge(rt::Cost::Syscall);
        xattr::list_names(&self.core, nr)
    }

    /// The block that holds attributes of an inode, if there is one; each inode that shares it counts it among its sectors.
    ///
    /// # Errors
    /// As [`Volume::attributes`].
    pub fn attribute_block(&self, nr: InodeNr) -> Result<Option<u64>> {
        let inode = self.core.inode(nr)?;
        let block = inode.state.read().attribute_block.get();
        Ok((block != 0).then_some(block))
    }

    /// Sets an attribute, in one step.
    ///
    /// # Errors
    /// - [`crate::Error::Exists`] and [`crate::Error::NoAttribute`] as the mode says.
    /// - [`crate::Error::AttributeTooLarge`] if it fits neither the inode nor its block.
    /// - [`crate::Error::NoSpace`] if no block is left.
    /// - [`crate::Error::NotPermitted`] for `user.` names of what is neither file nor directory, and for inodes that may not be changed.
    pub fn set_attribute(
        &self,
        nr: InodeNr,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        xattr::set(&self.core, nr, name, value, mode)
    }

    /// Takes an attribute away, in one step. To take away an access control list that is not there is no error.
    ///
    /// # Errors
    /// - [`crate::Error::NoAttribute`] if there is none.
    pub fn remove_attribute(&self, nr: InodeNr, name: &[u8]) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        xattr::remove(&self.core, nr, name)
    }
}
