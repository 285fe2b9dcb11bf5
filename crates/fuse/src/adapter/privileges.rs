//! Removal of set-user-ID and set-group-ID bits after a change of the file. The kernel leaves that
//! to the file system (`FUSE_HANDLE_KILLPRIV_V2`), so that it need not query a file's capabilities
//! at every write. Capabilities it removes itself, but not before a write to a file that bypasses
//! its cache.
//!
//! | operation | the bits are removed |
//! |---|---|
//! | change of owner or group | always |
//! | write | if the kernel requests it |
//! | change of no attribute | always |
//! | truncate, range change, copy, open with O_TRUNC | unless the caller has CAP_FSETID |
//! | setting an access control list | set-group-ID, for an outsider without CAP_FSETID |
//!
//! A request to change no attribute is what the kernel leaves of a request to remove the bits. An
//! overlay file system sends it before it writes with root's rights. For a truncation the kernel
//! requests it too, but fuser does not pass the request on: the caller is the process behind the
//! request, whose user is root's for an overlay.
//!
//! Set-group-ID without the group's execute permission is removed only if the caller is outside the
//! group, as on ext3.

use std::sync::{Arc, OnceLock};

use ext::volume::{Attributes, FileKind, SetAttributes};
use fuser::{Notifier, Request};
use layout::{InodeNr, mode};

use super::Adapter;
use super::caller::Caller;
use super::guard::Failure;
use crate::attributes::node_of;

/// The session's notifier, which invalidates the kernel's cached nodes. It is set once the session
/// exists.
pub(crate) type NotifierSlot = Arc<OnceLock<Notifier>>;

/// Returns the remaining permissions; `None` if no bit is removed.
fn left(attributes: &Attributes, caller: &Caller) -> Option<u16> {
    if attributes.kind == FileKind::Directory {
        return None;
    }
    let mut left = attributes.permissions & !mode::SET_UID;
    if left & mode::SET_GID != 0
        && (left & GROUP_EXECUTE != 0 || is_outside(caller, attributes.gid))
    {
        left &= !mode::SET_GID;
    }
    (left != attributes.permissions).then_some(left)
}

/// True if the caller is not in the group and lacks CAP_FSETID.
fn is_outside(caller: &Caller, gid: u32) -> bool {
    !caller.keeps_set_id() && !caller.groups.contains(&gid)
}

/// True if there are bits to remove.
fn has_set_id(attributes: &Attributes) -> bool {
    attributes.permissions & (mode::SET_UID | mode::SET_GID) != 0
}

/// The extended attribute of a program's capabilities.
const CAPABILITIES: &[u8] = b"security.capability";
/// Execute permission of the group; without it set-group-ID has another meaning.
const GROUP_EXECUTE: u16 = 0o010;

impl Adapter {
    /// Returns the slot for the session's notifier.
    pub(crate) fn notifier_slot(&self) -> NotifierSlot {
        Arc::clone(&self.notifier)
    }

    /// Returns the change of permissions that must accompany a change of attributes, if any.
    pub(super) fn permissions_after(
        &self,
        request: &Request,
        node: InodeNr,
        change: &SetAttributes,
    ) -> Result<Option<u16>, Failure> {
        let has_owner = change.uid.is_some() || change.gid.is_some();
        let is_kill = *change == SetAttributes::default();
        let is_concerned = has_owner || is_kill || change.size.is_some();
        if change.permissions.is_some() || !is_concerned {
            return Ok(change.permissions);
        }
        let attributes = self.fs.attributes(node)?;
        if !has_set_id(&attributes) {
            return Ok(None);
        }
        let caller = Caller::behind(request);
        if !has_owner && !is_kill && caller.keeps_set_id() {
            return Ok(None);
        }
        Ok(left(&attributes, &caller))
    }

    /// Removes the bits after a change of a file's contents by a caller without CAP_FSETID.
    pub(super) fn contents_change(&self, request: &Request, node: InodeNr) -> Result<(), Failure> {
        let attributes = self.fs.attributes(node)?;
        if !has_set_id(&attributes) || Caller::behind(request).keeps_set_id() {
            return Ok(());
        }
        self.take_privileges(request, node)
    }

    /// Removes set-group-ID after an access control list was set, if the caller is outside the
    /// group.
    pub(super) fn list_was_set(&self, request: &Request, node: InodeNr) -> Result<(), Failure> {
        let attributes = self.fs.attributes(node)?;
        let has_bit = attributes.permissions & mode::SET_GID != 0;
        if !has_bit || !is_outside(&Caller::behind(request), attributes.gid) {
            return Ok(());
        }
        let change = SetAttributes {
            permissions: Some(attributes.permissions & !mode::SET_GID),
            ..SetAttributes::default()
        };
        self.fs.set_attributes(node, &change)?;
        Ok(())
    }

    /// Removes the bits, and invalidates the kernel's attributes.
    pub(super) fn take_privileges(&self, request: &Request, node: InodeNr) -> Result<(), Failure> {
        let attributes = self.fs.attributes(node)?;
        if !has_set_id(&attributes) {
            return Ok(());
        }
        let Some(permissions) = left(&attributes, &Caller::behind(request)) else {
            return Ok(());
        };
        let change = SetAttributes {
            permissions: Some(permissions),
            ..SetAttributes::default()
        };
        self.fs.set_attributes(node, &change)?;
        self.ask_again(node);
        Ok(())
    }

    /// Removes the capabilities of a program before a write past the kernel's cache.
    pub(super) fn take_capabilities(&self, node: InodeNr) -> Result<(), Failure> {
        if self.fs.get_attribute(node, CAPABILITIES).is_err() {
            return Ok(());
        }
        match self.fs.remove_attribute(node, CAPABILITIES) {
            // Another writer was faster.
            Err(ext::Error::NoAttribute) => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// Invalidates the kernel's attributes of a node.
    pub(super) fn ask_again(&self, node: InodeNr) {
        if let Some(notifier) = self.notifier.get()
            && let Err(error) = notifier.inval_inode(node_of(node), -1, 0)
        {
            tracing::warn!(%node, %error, "the kernel may keep attributes that are stale");
        }
    }
}
