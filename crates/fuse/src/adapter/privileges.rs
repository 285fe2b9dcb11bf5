//! The bits that give a program the rights of its owner or group go when somebody changes what it does. The kernel leaves that
//! to us (`FUSE_HANDLE_KILLPRIV_V2`), so that it need not ask for a file's capabilities at every write; capabilities it takes itself.
//!
//! | what is done | the bits go |
//! |---|---|
//! | a file gets another owner or group | always |
//! | a write | if the kernel says so |
//! | another size, a range, a copy into the file, an open that empties it | unless the caller has CAP_FSETID: fuser does not carry what the kernel says |
//! | an access control list is set | set-group-ID, if the caller neither is in the group nor has CAP_FSETID |
//!
//! Set-group-ID without the group's right to execute goes only if the caller is outside the group, as on ext3.

use std::sync::{Arc, OnceLock};

use ext::volume::{Attributes, FileKind, SetAttributes};
use fuser::{Notifier, Request};
use layout::{InodeNr, mode};

use super::Adapter;
use super::caller::Caller;
use super::guard::Failure;
use crate::attributes::node_of;
use crate::vfs::Vfs;

/// What tells the kernel that it knows a node no more. It is there once the session is.
pub(crate) type NotifierSlot = Arc<OnceLock<Notifier>>;

/// The permissions that are left; none if nothing goes.
fn left(attributes: &Attributes, request: &Request) -> Option<u16> {
    if attributes.kind == FileKind::Directory {
        return None;
    }
    let mut left = attributes.permissions & !mode::SET_UID;
    if left & mode::SET_GID != 0
        && (left & GROUP_EXECUTE != 0 || is_outside(request, attributes.gid))
    {
        left &= !mode::SET_GID;
    }
    (left != attributes.permissions).then_some(left)
}

/// Returns true if the caller is neither in the group nor has CAP_FSETID.
fn is_outside(request: &Request, gid: u32) -> bool {
    if request.uid() == 0 || request.gid() == gid {
        return false;
    }
    let caller = Caller::of(request);
    !caller.keeps_set_id() && !caller.groups.contains(&gid)
}

/// Returns true if there are bits to lose.
fn has_set_id(attributes: &Attributes) -> bool {
    attributes.permissions & (mode::SET_UID | mode::SET_GID) != 0
}

/// The group may execute: without it the bit of the group means something else.
const GROUP_EXECUTE: u16 = 0o010;

impl<V: Vfs> Adapter<V> {
    /// What a change of attributes changes, too, if it is one that the bits do not survive.
    pub(super) fn permissions_after(
        &self,
        request: &Request,
        node: InodeNr,
        change: &SetAttributes,
    ) -> Result<Option<u16>, Failure> {
        let has_owner = change.uid.is_some() || change.gid.is_some();
        let has_size = change.size.is_some() && request.uid() != 0;
        if change.permissions.is_some() || !(has_owner || has_size) {
            return Ok(change.permissions);
        }
        let attributes = self.vfs.attributes(node)?;
        if !has_owner && has_set_id(&attributes) && Caller::of(request).keeps_set_id() {
            return Ok(None);
        }
        Ok(left(&attributes, request))
    }

    /// Somebody other than root changes what is in a file.
    pub(super) fn contents_change(&self, request: &Request, node: InodeNr) -> Result<(), Failure> {
        if request.uid() == 0 {
            return Ok(());
        }
        let attributes = self.vfs.attributes(node)?;
        if !has_set_id(&attributes) || Caller::of(request).keeps_set_id() {
            return Ok(());
        }
        self.take_privileges(request, node)
    }

    /// An access control list was set: set-group-ID goes if the caller is outside the group.
    pub(super) fn list_was_set(&self, request: &Request, node: InodeNr) -> Result<(), Failure> {
        let attributes = self.vfs.attributes(node)?;
        if attributes.permissions & mode::SET_GID == 0 || !is_outside(request, attributes.gid) {
            return Ok(());
        }
        let change = SetAttributes {
            permissions: Some(attributes.permissions & !mode::SET_GID),
            ..SetAttributes::default()
        };
        self.vfs.set_attributes(node, &change)?;
        Ok(())
    }

    /// Takes the bits, and has the kernel ask again.
    pub(super) fn take_privileges(&self, request: &Request, node: InodeNr) -> Result<(), Failure> {
        let Some(permissions) = left(&self.vfs.attributes(node)?, request) else {
            return Ok(());
        };
        let change = SetAttributes {
            permissions: Some(permissions),
            ..SetAttributes::default()
        };
        self.vfs.set_attributes(node, &change)?;
        self.ask_again(node);
        Ok(())
    }

    /// Has the kernel ask for the attributes of a node again.
    pub(super) fn ask_again(&self, node: InodeNr) {
        if let Some(notifier) = self.notifier.get()
            && let Err(error) = notifier.inval_inode(node_of(node), -1, 0)
        {
            tracing::warn!(%node, %error, "the kernel may keep attributes that are stale");
        }
    }
}
