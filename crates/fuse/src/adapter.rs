//! From fuser's callbacks to [`Vfs`] and back.
//!
//! | request | answer |
//! |---|---|
//! | opendir, releasedir, flush | "not implemented": the kernel asks once and then does without; nothing is lost by it |
//! | open, release | an open file, which learns of failed writes; with `lazy_open` "not implemented", too |
//! | locks, poll, access, bmap | "not implemented": the kernel does it itself |
//! | what is absent | a node 0 without expiry, so that the kernel need not ask again |

mod guard;
mod ioctl;

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ext::volume::{
    Attributes, DeviceNumber, Durability, NewInode, OpenFlags, RenameMode, Seek, SetAttributes,
    SetTime,
};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenAccMode,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use layout::InodeNr;

use crate::attributes::{
    decode_device, inode_of, inode_time, kind_of, node_of, set_time, shown, type_of,
};
use crate::vfs::{Allocation, AllocationKind, Copy, Handle, Vfs};

/// How long the kernel may believe what it was told: there is no other writer.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);
/// The longest write or read that the kernel sends at once, in bytes.
const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// Requests of read-ahead and write-back that may be on their way at once.
const BACKGROUND_MAX: u16 = 64;
/// The longest name.
const NAME_BYTES_MAX: u32 = 255;
/// What the kernel is asked for. `HANDLE_KILLPRIV_V2`, `SETXATTR_EXT`, `SECURITY_CTX`, `ALLOW_IDMAP` and `OVER_IO_URING`
/// never are: fuser says yes to them and does not carry them.
const WANTED: [InitFlags; 6] = [
    InitFlags::FUSE_WRITEBACK_CACHE,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_ASYNC_DIO,
];

thread_local! {
    /// What this thread reads into.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A file system as fuser wants it.
pub(crate) struct Adapter<V> {
    vfs: Arc<V>,
    is_lazy_open: bool,
    block_bytes: u32,
}

impl<V: Vfs> Adapter<V> {
    pub(crate) fn new(vfs: Arc<V>, is_lazy_open: bool) -> Self {
        let block_bytes = vfs.usage().block_bytes;
        Self {
            vfs,
            is_lazy_open,
            block_bytes,
        }
    }

    fn shown(&self, attributes: &Attributes) -> FileAttr {
        shown(attributes, self.block_bytes)
    }

    /// As in the answer to a look-up, where the number is the node's.
    fn entry(&self, attributes: &Attributes) -> FileAttr {
        FileAttr {
            ino: node_of(attributes.inode),
            ..self.shown(attributes)
        }
    }

    fn answer_entry(&self, reply: ReplyEntry, made: Result<Attributes, Errno>) {
        match made {
            Ok(made) => reply.entry(&FOREVER, &self.entry(&made), generation(&made)),
            Err(errno) => reply.error(errno),
        }
    }

    fn answer_attributes(&self, reply: ReplyAttr, found: Result<Attributes, Errno>) {
        match found {
            Ok(found) => reply.attr(&FOREVER, &self.shown(&found)),
            Err(errno) => reply.error(errno),
        }
    }
}

fn generation(attributes: &Attributes) -> Generation {
    Generation(u64::from(attributes.generation))
}

fn answer(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn answer_count(reply: ReplyWrite, done: Result<u64, Errno>) {
    match done {
        Ok(count) => reply.written(u32::try_from(count).unwrap_or(u32::MAX)),
        Err(errno) => reply.error(errno),
    }
}

fn inode(node: INodeNo) -> Result<InodeNr, Errno> {
    inode_of(node).ok_or(Errno::ESTALE)
}

fn new_inode(request: &Request, mode: u32, umask: u32) -> NewInode {
    NewInode {
        permissions: (mode & !umask & 0o7777) as u16,
        uid: request.uid(),
        gid: request.gid(),
    }
}

fn has(flags: i32, flag: rustix::fs::OFlags) -> bool {
    rustix::fs::OFlags::from_bits_retain(flags.cast_unsigned()).contains(flag)
}

/// How a file is opened. Offsets of appends are the kernel's, and so is the right to read what it has to fill up before it
/// writes.
fn open_flags(flags: fuser::OpenFlags) -> OpenFlags {
    OpenFlags {
        read: true,
        write: flags.acc_mode() != OpenAccMode::O_RDONLY,
        append: has(flags.0, rustix::fs::OFlags::APPEND),
        truncate: has(flags.0, rustix::fs::OFlags::TRUNC),
        direct: has(flags.0, rustix::fs::OFlags::DIRECT),
        ..OpenFlags::default()
    }
}

/// How durable a write has to be. What comes from the kernel's cache is synced by the kernel.
fn durability(write: WriteFlags, flags: i32) -> Durability {
    use rustix::fs::OFlags;
    if write.contains(WriteFlags::FUSE_WRITE_CACHE) {
        Durability::Later
    } else if has(flags, OFlags::SYNC) {
        Durability::All
    } else if has(flags, OFlags::DSYNC) {
        Durability::Data
    } else {
        Durability::Later
    }
}

fn allocation(mode: i32) -> Option<Allocation> {
    use rustix::fs::FallocateFlags as Flags;
    let flags = Flags::from_bits_retain(mode.cast_unsigned());
    let what = match flags.difference(Flags::KEEP_SIZE) {
        rest if rest.is_empty() => AllocationKind::Allocate,
        Flags::PUNCH_HOLE => AllocationKind::PunchHole,
        Flags::ZERO_RANGE => AllocationKind::Zero,
        _ => return None,
    };
    let keeps_size = flags.contains(Flags::KEEP_SIZE);
    Some(Allocation { what, keeps_size })
}

impl<V: Vfs> Filesystem for Adapter<V> {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let truncates = (!self.is_lazy_open).then_some(InitFlags::FUSE_ATOMIC_O_TRUNC);
        for flag in WANTED.into_iter().chain(truncates) {
            if config.add_capabilities(flag).is_err() {
                tracing::info!(?flag, "this kernel cannot");
            }
        }
        // The nearest value that is right is taken where these are not.
        let _ = config.set_max_write(TRANSFER_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.guard("lookup", || {
            Ok(self.vfs.look_up(inode(parent)?, name.as_bytes())?)
        });
        match found {
            Err(errno) if errno.code() == Errno::ENOENT.code() => {
                reply.entry(&FOREVER, &guard::absent(), Generation(0));
            }
            found => self.answer_entry(reply, found),
        }
    }

    fn forget(&self, _request: &Request, node: INodeNo, count: u64) {
        let done = self.guard("forget", || {
            self.vfs.forget(inode(node)?, count);
            Ok(())
        });
        // Nobody waits for an answer; what happened has been told.
        drop(done);
    }

    fn getattr(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let found = self.guard("getattr", || Ok(self.vfs.attributes(inode(node)?)?));
        self.answer_attributes(reply, found);
    }

    fn setattr(
        &self,
        _request: &Request,
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
        let change = SetAttributes {
            permissions: mode.map(|mode| (mode & 0o7777) as u16),
            uid,
            gid,
            size,
            atime: atime.map(set_time),
            mtime: mtime.map(set_time),
            ctime: ctime.map(|ctime| SetTime::At(inode_time(ctime))),
            flags: None,
        };
        let changed = self.guard("setattr", || {
            Ok(self.vfs.set_attributes(inode(node)?, &change)?)
        });
        self.answer_attributes(reply, changed);
    }

    fn readlink(&self, _request: &Request, node: INodeNo, reply: ReplyData) {
        match self.guard("readlink", || Ok(self.vfs.read_link(inode(node)?)?)) {
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
        let new = new_inode(request, mode, umask);
        let made = self.guard("mknod", || {
            let kind = kind_of(mode).ok_or(Errno::EINVAL)?;
            let is_device = rdev != 0;
            let device = if is_device {
                decode_device(rdev)
            } else {
                DeviceNumber::default()
            };
            let name = name.as_bytes();
            Ok(self
                .vfs
                .make_node(inode(parent)?, name, kind, device, &new)?)
        });
        self.answer_entry(reply, made);
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
        let new = new_inode(request, mode, umask);
        let made = self.guard("mkdir", || {
            Ok(self
                .vfs
                .make_directory(inode(parent)?, name.as_bytes(), &new)?)
        });
        self.answer_entry(reply, made);
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = self.guard("unlink", || {
            Ok(self.vfs.unlink(inode(parent)?, name.as_bytes())?)
        });
        answer(reply, done);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = self.guard("rmdir", || {
            Ok(self.vfs.remove_directory(inode(parent)?, name.as_bytes())?)
        });
        answer(reply, done);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let new = new_inode(request, 0o777, 0);
        let target = target.as_os_str().as_bytes();
        let made = self.guard("symlink", || {
            Ok(self
                .vfs
                .symlink(inode(parent)?, name.as_bytes(), target, &new)?)
        });
        self.answer_entry(reply, made);
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let done = self.guard("rename", || {
            let mode = match flags {
                none if none.is_empty() => RenameMode::Replace,
                RenameFlags::RENAME_NOREPLACE => RenameMode::NoReplace,
                RenameFlags::RENAME_EXCHANGE => RenameMode::Exchange,
                _ => return Err(Errno::EINVAL.into()),
            };
            let (from, to) = (inode(parent)?, inode(new_parent)?);
            Ok(self
                .vfs
                .rename(from, name.as_bytes(), to, new_name.as_bytes(), mode)?)
        });
        answer(reply, done);
    }

    fn link(
        &self,
        _request: &Request,
        node: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let made = self.guard("link", || {
            let (node, parent) = (inode(node)?, inode(new_parent)?);
            Ok(self.vfs.link(node, parent, new_name.as_bytes())?)
        });
        self.answer_entry(reply, made);
    }

    fn open(&self, _request: &Request, node: INodeNo, flags: fuser::OpenFlags, reply: ReplyOpen) {
        if self.is_lazy_open {
            return reply.error(Errno::ENOSYS);
        }
        match self.guard("open", || {
            Ok(self.vfs.open(inode(node)?, open_flags(flags))?)
        }) {
            Ok(handle) => reply.opened(FileHandle(handle.0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(errno) => reply.error(errno),
        }
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
        let new = new_inode(request, mode, umask);
        let flags = OpenFlags {
            truncate: false,
            ..open_flags(fuser::OpenFlags(flags))
        };
        let made = self.guard("create", || {
            Ok(self
                .vfs
                .create(inode(parent)?, name.as_bytes(), &new, flags)?)
        });
        match made {
            Ok((made, handle)) => reply.created(
                &FOREVER,
                &self.entry(&made),
                generation(&made),
                FileHandle(handle.0),
                FopenFlags::FOPEN_KEEP_CACHE,
            ),
            Err(errno) => reply.error(errno),
        }
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
        let is_direct = has(flags.0, rustix::fs::OFlags::DIRECT);
        BUFFER.with_borrow_mut(|buffer| {
            let size = size.min(TRANSFER_BYTES_MAX) as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            let into = &mut buffer[..size];
            match self.guard("read", || {
                Ok(self.vfs.read(inode(node)?, offset, into, is_direct)?)
            }) {
                Ok(count) => reply.data(&buffer[..count]),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn write(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: fuser::OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let is_cached = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let is_direct = !is_cached && has(flags.0, rustix::fs::OFlags::DIRECT);
        let durability = durability(write_flags, flags.0);
        let done = self.guard("write", || {
            let node = inode(node)?;
            let count = self.vfs.write(node, offset, data, is_direct, durability)?;
            Ok(count as u64)
        });
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
        _node: INodeNo,
        handle: FileHandle,
        _flags: fuser::OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let done = self.guard("release", || Ok(self.vfs.release(Handle(handle.0))?));
        answer(reply, done);
    }

    fn fsync(
        &self,
        _request: &Request,
        node: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let done = self.guard("fsync", || {
            Ok(self.vfs.sync(inode(node)?, Handle(handle.0), data_only)?)
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
        let done = self.guard("readdir", || {
            let mut visit = |next, entry: &ext::volume::Entry| {
                let ino = INodeNo(u64::from(entry.inode.get()));
                // An image whose entries carry no kinds leaves them to whoever asks for the attributes.
                let kind = entry.kind.map_or(fuser::FileType::RegularFile, type_of);
                !reply.add(ino, next, kind, OsStr::from_bytes(&entry.name))
            };
            Ok(self.vfs.read_directory(inode(node)?, offset, &mut visit)?)
        });
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
        let done = self.guard("readdirplus", || {
            let mut visit =
                |next, entry: &ext::volume::Entry, attributes: Option<&Attributes>| {
                    let name = OsStr::from_bytes(&entry.name);
                    let (attr, generation) = match attributes {
                        Some(found) => (self.entry(found), generation(found)),
                        None => (guard::unknown(entry), Generation(0)),
                    };
                    !reply.add(attr.ino, next, name, &FOREVER, &attr, generation)
                };
            Ok(self
                .vfs
                .read_directory_nodes(inode(node)?, offset, &mut visit)?)
        });
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
        let done = self.guard("fsyncdir", || Ok(self.vfs.sync_directory(inode(node)?)?));
        answer(reply, done);
    }

    fn statfs(&self, _request: &Request, _node: INodeNo, reply: ReplyStatfs) {
        match self.guard("statfs", || Ok(self.vfs.usage())) {
            Ok(usage) => reply.statfs(
                usage.blocks,
                usage.blocks_free,
                usage.blocks_available,
                u64::from(usage.inodes),
                u64::from(usage.inodes_free),
                usage.block_bytes,
                NAME_BYTES_MAX,
                usage.block_bytes,
            ),
            Err(errno) => reply.error(errno),
        }
    }

    fn setxattr(
        &self,
        _request: &Request,
        _node: INodeNo,
        _name: &OsStr,
        _value: &[u8],
        _flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn getxattr(
        &self,
        _request: &Request,
        _node: INodeNo,
        _name: &OsStr,
        _size: u32,
        reply: ReplyXattr,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn listxattr(&self, _request: &Request, _node: INodeNo, _size: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn ioctl(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        command: u32,
        data: &[u8],
        out_bytes: u32,
        reply: ReplyIoctl,
    ) {
        match self.guard("ioctl", || {
            ioctl::answer(&*self.vfs, inode(node)?, command, data)
        }) {
            Ok(answer) => reply.ioctl(0, &answer[..answer.len().min(out_bytes as usize)]),
            Err(errno) => reply.error(errno),
        }
    }

    fn fallocate(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let done = self.guard("fallocate", || {
            let allocation = allocation(mode).ok_or(Errno::EOPNOTSUPP)?;
            Ok(self
                .vfs
                .allocate(inode(node)?, offset, length, allocation)?)
        });
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
        let found = self.guard("lseek", || {
            let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
            let what = match whence {
                guard::SEEK_DATA => Seek::Data,
                guard::SEEK_HOLE => Seek::Hole,
                _ => return Err(Errno::EINVAL.into()),
            };
            let found = self.vfs.seek(inode(node)?, offset, what)?;
            Ok(found.ok_or(Errno::ENXIO)?)
        });
        match found {
            Ok(found) => reply.offset(i64::try_from(found).unwrap_or(i64::MAX)),
            Err(errno) => reply.error(errno),
        }
    }

    fn copy_file_range(
        &self,
        _request: &Request,
        source: INodeNo,
        _source_handle: FileHandle,
        source_offset: u64,
        target: INodeNo,
        _target_handle: FileHandle,
        target_offset: u64,
        length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let done = self.guard("copy_file_range", || {
            let copy = Copy {
                source: inode(source)?,
                source_offset,
                target: inode(target)?,
                target_offset,
                length: length.min(guard::COPY_BYTES_MAX),
            };
            Ok(self.vfs.copy(copy)?)
        });
        answer_count(reply, done);
    }
}
