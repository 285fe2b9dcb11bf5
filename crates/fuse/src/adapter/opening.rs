//! Opening, creating and closing files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ext::volume::{NewInode, OpenFlags};
use fuser::{Errno, FileHandle, FopenFlags, INodeNo, ReplyCreate, ReplyOpen, Request};
use layout::InodeNr;

use super::answers::generation;
use super::flags::{open_flags, opened};
use super::uncached::Way;
use super::{Adapter, FOREVER, inode, reserve};
use crate::requests::Opened;

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
            let file = self.fs.open(node, flags)?;
            Ok(self.answer_of(node, file, flags, allowed))
        }) {
            Ok((handle, flags)) => reply.opened(handle, flags),
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
            let (made, file) = made;
            let answer = self.answer_of(made.inode, file, flags, allowed);
            Ok((made, answer))
        });
        match self.changed(&[(parent, name)], made) {
            Ok((made, (handle, flags))) => reply.created(
                &FOREVER,
                &self.entry(&made),
                generation(&made),
                handle,
                flags,
            ),
            Err(errno) => reply.error(errno),
        }
    }

    pub(super) fn release_file(&self, node: INodeNo, handle: FileHandle) -> Result<(), Errno> {
        self.guard("release", || {
            let handle = reserve::decode(handle);
            self.uncached.remove(inode(node)?, handle);
            Ok(self.fs.release(handle)?)
        })
    }

    /// Returns the answer for an open file.
    fn answer_of(
        &self,
        node: InodeNr,
        file: Opened,
        flags: OpenFlags,
        may_use_reserve: bool,
    ) -> (FileHandle, FopenFlags) {
        let way = self.uncached.add(node, file, flags.direct);
        let is_uncached = way != Way::Cached;
        let handle = reserve::encode(file.handle, may_use_reserve, is_uncached);
        (handle, opened(way))
    }
}
