//! Opening and creating files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ext::volume::{NewInode, OpenFlags};
use fuser::{Errno, INodeNo, ReplyCreate, ReplyOpen, Request};

use super::answers::generation;
use super::flags::{open_flags, opened};
use super::{Adapter, FOREVER, inode, reserve};

impl Adapter {
    pub(super) fn open_file(
        &self,
        request: &Request,
        node: INodeNo,
        flags: fuser::OpenFlags,
        reply: ReplyOpen,
    ) {
        if self.is_lazy_open {
            return reply.error(Errno::ENOSYS);
        }
        match self.guard("open", || {
            let (node, flags) = (inode(node)?, open_flags(flags));
            if flags.truncate {
                self.contents_change(request, node)?;
                self.full.take(node);
            }
            let allowed = flags.write && self.may_use_reserve(request);
            Ok((self.fs.open(node, flags)?, allowed))
        }) {
            Ok((made, allowed)) => {
                let handle = reserve::encode(made.handle, allowed, made.writes_through);
                reply.opened(handle, opened(made));
            }
            Err(errno) => reply.error(errno),
        }
    }

    pub(super) fn create_file(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        new: &NewInode,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let flags = OpenFlags {
            truncate: false,
            ..open_flags(fuser::OpenFlags(flags))
        };
        let made = self.guard_for(request, "create", || {
            let allowed = self.may_use_reserve(request);
            let made = self
                .fs
                .create(inode(parent)?, name.as_bytes(), new, flags)?;
            Ok((made, allowed))
        });
        match self.changed(&[(parent, name)], made) {
            Ok(((made, file), allowed)) => reply.created(
                &FOREVER,
                &self.entry(&made),
                generation(&made),
                reserve::encode(file.handle, allowed, file.writes_through),
                opened(file),
            ),
            Err(errno) => reply.error(errno),
        }
    }
}
