//! Reads and writes of file contents.

use std::cell::RefCell;

use ext::volume::Durability;
use fuser::{Errno, FileHandle, INodeNo, OpenFlags, ReplyData, Request, WriteFlags};
use rustix::fs::OFlags;

use super::flags::{durability, has};
use super::{Adapter, TRANSFER_BYTES_MAX, inode, reserve};
use crate::arrivals;

thread_local! {
    /// Read buffer of this thread.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Adapter {
    pub(super) fn read_contents(
        &self,
        node: INodeNo,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        reply: ReplyData,
    ) {
        let is_direct = has(flags.0, OFlags::DIRECT);
        BUFFER.with_borrow_mut(|buffer| {
            let size = size.min(TRANSFER_BYTES_MAX) as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            let into = &mut buffer[..size];
            match self.guard("read", || {
                Ok(self.fs.read(inode(node)?, offset, into, is_direct)?)
            }) {
                Ok(count) => reply.data(&buffer[..count]),
                Err(errno) => reply.error(errno),
            }
        });
    }

    /// Writes to a file. Returns the number of bytes written.
    pub(super) fn write_contents(
        &self,
        request: &Request,
        (node, handle): (INodeNo, FileHandle),
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
    ) -> Result<u64, Errno> {
        let is_cached = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let is_direct = !is_cached && has(flags.0, OFlags::DIRECT);
        let durability = durability(write_flags, flags.0);
        let writer = match is_cached {
            true => self.fs.cache(),
            false => self.fs.writer(reserve::decode(handle)),
        };
        let write = || {
            let node = inode(node)?;
            if write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
                self.take_privileges(request, node)?;
            }
            if !is_cached && reserve::is_uncached(handle) {
                self.take_capabilities(node)?;
            }
            let mut done = 0;
            loop {
                let (at, rest) = (offset + done as u64, &data[done..]);
                let written = self.fs.write(node, at, rest, is_direct, durability, writer);
                if is_cached && matches!(written, Err(ext::Error::NotPermitted)) {
                    self.stale.add_contents(node);
                }
                if is_cached && matches!(written, Err(ext::Error::NoSpace)) {
                    self.full.mark(node);
                    self.ask_again(node);
                }
                done += written?;
                // The kernel takes a short write from its cache for a complete one: write the rest,
                // or fail.
                if !is_cached || done == data.len() {
                    return Ok(done as u64);
                }
            }
        };
        arrivals::write(|| {
            if is_direct || !matches!(durability, Durability::Later) {
                self.turns.give();
            }
            if is_cached {
                let allowed = reserve::opener_may(handle);
                self.guard("write", || self.fs.with_reserve(allowed, write))
            } else {
                self.guard_for(request, "write", write)
            }
        })
    }
}
