//! The bits that give a program the rights of its owner or group go when somebody changes what it does. The kernel leaves that
//! to us (`FUSE_HANDLE_KILLPRIV_V2`), so that it need not ask for a file's capabilities at every write; capabilities it takes itself.
//!
//! | what is done | the bits go |
//! |---|---|
//! | a file gets another owner or group | always |
//! | a write | if the kernel says so |
//! | another size, a range, a copy into the file, an open that empties it | unless root does it: fuser does not carry what the kernel says |

use std::sync::{Arc, OnceLock};

use ext::volume::{Attributes, FileKind, SetAttributes};
use fuser::{Notifier, Request};
use layout::{InodeNr, mode};

use super::Adapter;
use super::guard::Failure;
use crate::attributes::node_of;
use crate::vfs::Vfs;

/// What tells the kernel that it knows a node no more. It is there once the session is.
pub(crate) type NotifierSlot = Arc<OnceLock<Notifier>>;

/// The permissions that are left; none if nothing goes.
fn left(attributes: &Attributes) -> Option<u16> {
    if attributes.kind == FileKind::Directory {
        return None;
    }
    let is_group_program = attributes.permissions & GROUP_EXECUTE != 0;
    let group = if is_group_program { mode::SET_GID } else { 0 };
    let left = attributes.permissions & !(mode::SET_UID | group);
    (left != attributes.permissions).then_some(left)
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
        Ok(left(&self.vfs.attributes(node)?))
    }

    /// Somebody other than root changes what is in a file.
    pub(super) fn contents_change(&self, request: &Request, node: InodeNr) -> Result<(), Failure> {
        match request.uid() {
            0 => Ok(()),
            _ => self.take_privileges(node),
        }
    }

    /// Takes the bits, and has the kernel ask again.
    pub(super) fn take_privileges(&self, node: InodeNr) -> Result<(), Failure> {
        let Some(permissions) = left(&self.vfs.attributes(node)?) else {
            return Ok(());
        };
        let change = SetAttributes {
            permissions: Some(permissions),
            ..SetAttributes::default()
        };
        self.vfs.set_attributes(node, &change)?;
        if let Some(notifier) = self.notifier.get() {
            let told = notifier.inval_inode(node_of(node), -1, 0);
            if let Err(error) = told {
                tracing::warn!(%node, %error, "the kernel may believe that it is still set-user-ID");
            }
        }
        Ok(())
    }
}
