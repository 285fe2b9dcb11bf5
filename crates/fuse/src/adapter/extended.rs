//! Extended attributes and access control lists, which are attributes with special names.
//!
//! The kernel requests a value twice: with no space, to learn its length, and then with that much.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ext::volume::SetMode;
use fuser::{Errno, INodeNo, ReplyEmpty, ReplyXattr, Request};

use super::answers::answer;
use super::caller::Caller;
use super::{Adapter, inode};

/// setxattr(2): the attribute must not exist.
const XATTR_CREATE: i32 = 1;
/// setxattr(2): the attribute must exist.
const XATTR_REPLACE: i32 = 2;

/// Prefix of the names that only CAP_SYS_ADMIN shows.
const TRUSTED: &[u8] = b"trusted.";
/// Name of the access ACL.
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

impl Adapter {
    pub(super) fn set_attribute(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        reply: ReplyEmpty,
    ) {
        let done = self.guard_for(request, "setxattr", || {
            let mode = match flags {
                0 => SetMode::Any,
                XATTR_CREATE => SetMode::Create,
                XATTR_REPLACE => SetMode::Replace,
                _ => return Err(Errno::EINVAL.into()),
            };
            let node = inode(node)?;
            self.fs.set_attribute(node, name.as_bytes(), value, mode)?;
            if name.as_bytes() == ACCESS_LIST {
                self.list_was_set(request, node)?;
            }
            Ok(())
        });
        answer(reply, self.changed_node(node, done));
    }

    pub(super) fn get_attribute(&self, node: INodeNo, name: &OsStr, room: u32, reply: ReplyXattr) {
        let found = self.guard("getxattr", || {
            Ok(self.fs.get_attribute(inode(node)?, name.as_bytes())?)
        });
        answer_value(reply, found, room);
    }

    /// Lists names: those of trusted attributes only for a caller with CAP_SYS_ADMIN.
    pub(super) fn list_attributes(
        &self,
        request: &Request,
        node: INodeNo,
        room: u32,
        reply: ReplyXattr,
    ) {
        let found = self.guard("listxattr", || {
            let mut all = self.fs.list_attributes(inode(node)?)?;
            let is_trusted = |name: &Vec<u8>| name.starts_with(TRUSTED);
            if all.iter().any(is_trusted) && !Caller::of(request).administers() {
                all.retain(|name| !is_trusted(name));
            }
            let mut names = Vec::new();
            for name in all {
                names.extend(name);
                names.push(0);
            }
            Ok(names)
        });
        answer_value(reply, found, room);
    }

    pub(super) fn remove_attribute(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        reply: ReplyEmpty,
    ) {
        let done = self.guard_for(request, "removexattr", || {
            Ok(self.fs.remove_attribute(inode(node)?, name.as_bytes())?)
        });
        answer(reply, self.changed_node(node, done));
    }
}

fn answer_value(reply: ReplyXattr, found: Result<Vec<u8>, Errno>, room: u32) {
    match found {
        Ok(value) if room == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > room as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(errno) => reply.error(errno),
    }
}
