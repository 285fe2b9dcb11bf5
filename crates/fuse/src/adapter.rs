//! The adapter between fuser's callbacks and a [`Served`] volume.
//!
//! | request | answer |
//! |---|---|
//! | opendir, releasedir, flush | "not implemented": the kernel does not send them again |
//! | open, release | an open file, or "not implemented" with `lazy_open` |
//! | locks, poll, access, bmap | "not implemented", by fuser |
//! | lseek for data and holes | by a thread, if the kernel has to write back first: see `seek` |
//! | absent names | node 0 without expiry, so that the kernel caches the absence |

mod answers;
mod caller;
mod capabilities;
mod contents;
mod directories;
mod extended;
mod flags;
mod full;
mod guard;
mod ioctl;
mod opening;
mod privileges;
mod ranges;
mod reserve;
mod seek;
mod stale;
mod uncached;
mod worker;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use ext::volume::{SetAttributes, SetTime};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, Generation, INodeNo,
    IoctlFlags, KernelConfig, LockOwner, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use layout::InodeNr;

use crate::attributes::{decode_device, inode_of, inode_time, kind_of, set_time};
use crate::served::Served;
use crate::settings::Settings;
use crate::turns::Turns;
use answers::{absent, answer, answer_count, answer_usage};
use flags::{new_inode, rename_mode};
use full::Full;
use guard::Failure;
pub(crate) use guard::Guard;
use privileges::NotifierSlot;
pub(crate) use seek::Seeker;
pub(crate) use stale::Stale;
use uncached::Uncached;

/// Validity of the kernel's caches, unlimited: there is no other writer.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);
/// Maximum size of a write or read request in bytes.
const TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// A served volume in the form that fuser requires.
pub(crate) struct Adapter {
    fs: Arc<Served>,
    guard: Guard,
    is_lazy_open: bool,
    uncached: Uncached,
    block_bytes: u32,
    notifier: NotifierSlot,
    seeker: Arc<Seeker>,
    stale: Arc<Stale>,
    full: Full,
    turns: Arc<Turns>,
}

impl Adapter {
    pub(crate) fn new(served: Arc<Served>, settings: &Settings, turns: Arc<Turns>) -> Self {
        let block_bytes = served.usage().block_bytes;
        Self {
            guard: Guard::new(Arc::clone(&served)),
            fs: served,
            is_lazy_open: settings.is_lazy_open,
            uncached: Uncached::new(settings.is_direct_parallel),
            block_bytes,
            notifier: NotifierSlot::default(),
            seeker: Arc::default(),
            stale: Arc::default(),
            full: Full::default(),
            turns,
        }
    }

    /// Returns the flag that is set when an operation has panicked.
    pub(crate) fn panic_mark(&self) -> Arc<AtomicBool> {
        self.guard.panic_mark()
    }

    /// Returns the guarded file system, for threads other than the session's.
    pub(crate) fn guarded(&self) -> Guard {
        self.guard.clone()
    }

    /// Executes a request, unless an operation has panicked.
    fn guard<T>(
        &self,
        name: &'static str,
        operation: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Errno> {
        self.guard.run(name, operation)
    }
}

fn inode(node: INodeNo) -> Result<InodeNr, Errno> {
    inode_of(node).ok_or(Errno::ESTALE)
}

impl Filesystem for Adapter {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let can_bypass = capabilities::ask(config, self.is_lazy_open, self.fs.time_granularity());
        self.uncached.begin(can_bypass);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _turn = self.turns.short();
        let found = self.guard("lookup", || {
            Ok(self.fs.look_up(inode(parent)?, name.as_bytes())?)
        });
        match found {
            Err(errno) if errno.code() == Errno::ENOENT.code() && name != "." => {
                reply.entry(&FOREVER, &absent(), Generation(0));
            }
            found => self.answer_entry(reply, found),
        }
    }

    fn forget(&self, _request: &Request, node: INodeNo, count: u64) {
        self.turns.part();
        // Forget has no answer; errors have been logged.
        let _ = self.guard("forget", || {
            let node = inode(node)?;
            self.full.take(node);
            self.fs.forget(node, count);
            Ok(())
        });
    }

    fn getattr(
        &self,
        _request: &Request,
        node: INodeNo,
        handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let _turn = self.turns.short();
        let found = self.guard("getattr", || self.attributes(inode(node)?, handle));
        self.answer_attributes(reply, found);
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let _turn = self.turns.short();
        let change = SetAttributes {
            permissions: mode.map(|mode| (mode & 0o7777) as u16),
            uid,
            gid,
            size,
            atime: atime.map(set_time),
            mtime: mtime.map(set_time),
            ctime: ctime.map(|ctime| SetTime::At(inode_time(ctime))),
            flags: None,
            project: None,
        };
        let changed = self.guard_for(request, "setattr", || {
            let node = inode(node)?;
            if change.size == Some(0) {
                self.full.take(node);
            }
            let permissions = self.permissions_after(request, node, &change)?;
            let change = SetAttributes {
                permissions,
                ..change
            };
            Ok(self.fs.set_attributes(node, &change)?)
        });
        self.answer_attributes(reply, self.changed_node(node, changed));
    }

    fn readlink(&self, _request: &Request, node: INodeNo, reply: ReplyData) {
        let _turn = self.turns.short();
        match self.guard("readlink", || Ok(self.fs.read_link(inode(node)?)?)) {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(errno),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let _turn = self.turns.short();
        let new = new_inode(request, mode, umask);
        let made = self.guard_for(request, "mknod", || {
            let kind = kind_of(mode).ok_or(Errno::EINVAL)?;
            let device = decode_device(rdev);
            let name = name.as_bytes();
            Ok(self
                .fs
                .make_node(inode(parent)?, name, kind, device, &new)?)
        });
        self.answer_entry(reply, self.changed(&[(parent, name)], made));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let _turn = self.turns.short();
        let new = new_inode(request, mode, umask);
        let made = self.guard_for(request, "mkdir", || {
            Ok(self
                .fs
                .make_directory(inode(parent)?, name.as_bytes(), &new)?)
        });
        self.answer_entry(reply, self.changed(&[(parent, name)], made));
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.turns.short();
        let done = self.guard("unlink", || {
            Ok(self.fs.unlink(inode(parent)?, name.as_bytes())?)
        });
        answer(reply, self.changed(&[(parent, name)], done));
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.turns.short();
        let done = self.guard("rmdir", || {
            Ok(self.fs.remove_directory(inode(parent)?, name.as_bytes())?)
        });
        answer(reply, self.changed(&[(parent, name)], done));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let _turn = self.turns.short();
        let new = new_inode(request, 0o777, 0);
        let target = target.as_os_str().as_bytes();
        let made = self.guard_for(request, "symlink", || {
            Ok(self
                .fs
                .symlink(inode(parent)?, name.as_bytes(), target, &new)?)
        });
        self.answer_entry(reply, self.changed(&[(parent, name)], made));
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.short();
        let done = self.guard_for(request, "rename", || {
            let mode = rename_mode(request, flags).ok_or(Errno::EINVAL)?;
            let (from, to) = (inode(parent)?, inode(new_parent)?);
            Ok(self
                .fs
                .rename(from, name.as_bytes(), to, new_name.as_bytes(), mode)?)
        });
        answer(
            reply,
            self.changed(&[(parent, name), (new_parent, new_name)], done),
        );
    }

    fn link(
        &self,
        request: &Request,
        node: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let _turn = self.turns.short();
        let made = self.guard_for(request, "link", || {
            let (node, parent) = (inode(node)?, inode(new_parent)?);
            Ok(self.fs.link(node, parent, new_name.as_bytes())?)
        });
        let made = self.changed_node(node, made);
        self.answer_entry(reply, self.changed(&[(new_parent, new_name)], made));
    }

    fn open(&self, request: &Request, node: INodeNo, flags: fuser::OpenFlags, reply: ReplyOpen) {
        let _turn = self.turns.short();
        self.open_file(request, node, flags, reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let _turn = self.turns.short();
        let new = new_inode(request, mode, umask);
        self.create_file(request, (parent, name), &new, flags, reply);
    }

    fn read(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        flags: fuser::OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let _turn = self.turns.long();
        self.read_contents(node, offset, size, flags, reply);
    }

    fn write(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: fuser::OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let _turn = self.turns.short();
        let file = (node, handle);
        let done = self.write_contents(request, file, offset, data, write_flags, flags);
        answer_count(reply, done);
    }

    fn flush(
        &self,
        _request: &Request,
        _node: INodeNo,
        _handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _request: &Request,
        node: INodeNo,
        handle: FileHandle,
        _flags: fuser::OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.short();
        answer(reply, self.release_file(node, handle));
    }

    fn fsync(
        &self,
        _request: &Request,
        node: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.long();
        let done = self.guard("fsync", || {
            let node = inode(node)?;
            // The kernel reports failed write-back here too.
            self.full.take(node);
            Ok(self.fs.sync(node, reserve::decode(handle), data_only)?)
        });
        answer(reply, done);
    }

    fn opendir(
        &self,
        _request: &Request,
        _node: INodeNo,
        _flags: fuser::OpenFlags,
        reply: ReplyOpen,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn readdir(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let _turn = self.turns.short();
        let done = self.guard("readdir", || self.list(node, offset, &mut reply));
        match done {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdirplus(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let _turn = self.turns.short();
        let done = self.guard("readdirplus", || self.list_nodes(node, offset, &mut reply));
        match done {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.long();
        let done = self.guard("fsyncdir", || Ok(self.fs.sync_directory(inode(node)?)?));
        answer(reply, done);
    }

    fn statfs(&self, _request: &Request, _node: INodeNo, reply: ReplyStatfs) {
        let _turn = self.turns.short();
        let usage = self.guard("statfs", || Ok(self.fs.usage()));
        answer_usage(reply, usage);
    }

    fn ioctl(
        &self,
        request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        command: u32,
        data: &[u8],
        out_bytes: u32,
        reply: ReplyIoctl,
    ) {
        let _turn = self.turns.long();
        match self.guard("ioctl", || {
            self.control(request, inode(node)?, command, data)
        }) {
            Ok(answer) => reply.ioctl(0, &answer[..answer.len().min(out_bytes as usize)]),
            Err(errno) => reply.error(errno),
        }
    }

    fn fallocate(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.long();
        let done = self.change_range(request, (node, handle), offset, length, mode);
        answer(reply, done);
    }

    fn lseek(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let _turn = self.turns.short();
        self.seek(node, offset, whence, reply);
    }

    fn copy_file_range(
        &self,
        request: &Request,
        source: INodeNo,
        _source_handle: FileHandle,
        source_offset: u64,
        target: INodeNo,
        target_handle: FileHandle,
        target_offset: u64,
        length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let _turn = self.turns.long();
        let done = self.copy_range(
            request,
            (source, source_offset),
            (target, target_handle),
            target_offset,
            length,
        );
        answer_count(reply, done);
    }

    fn setxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.short();
        self.set_attribute(request, node, name, value, flags, reply);
    }

    fn getxattr(
        &self,
        _request: &Request,
        node: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let _turn = self.turns.short();
        self.get_attribute(node, name, size, reply);
    }

    fn listxattr(&self, request: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        let _turn = self.turns.short();
        self.list_attributes(request, node, size, reply);
    }

    fn removexattr(&self, request: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.turns.short();
        self.remove_attribute(request, node, name, reply);
    }
}
