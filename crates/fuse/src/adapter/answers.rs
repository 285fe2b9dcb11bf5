//! Answers in fuser's form.

use std::time::UNIX_EPOCH;

use ext::volume::{Attributes, Entry, Usage};
use fuser::{
    Errno, FileAttr, FileType, Generation, INodeNo, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyStatfs,
    ReplyWrite,
};

use super::{Adapter, FOREVER};
use crate::attributes::{node_of, shown, type_of};

/// Maximum length of a name in bytes.
const NAME_BYTES_MAX: u32 = 255;

impl Adapter {
    pub(super) fn shown(&self, attributes: &Attributes) -> FileAttr {
        shown(attributes, self.block_bytes)
    }

    /// Returns attributes as in the answer to a look-up, where the number is the node's.
    pub(super) fn entry(&self, attributes: &Attributes) -> FileAttr {
        FileAttr {
            ino: node_of(attributes.inode),
            ..self.shown(attributes)
        }
    }

    pub(super) fn answer_entry(&self, reply: ReplyEntry, made: Result<Attributes, Errno>) {
        match made {
            Ok(made) => reply.entry(&FOREVER, &self.entry(&made), generation(&made)),
            Err(errno) => reply.error(errno),
        }
    }

    pub(super) fn answer_attributes(&self, reply: ReplyAttr, found: Result<Attributes, Errno>) {
        match found {
            Ok(found) => reply.attr(&FOREVER, &self.shown(&found)),
            Err(errno) => reply.error(errno),
        }
    }
}

pub(super) fn generation(attributes: &Attributes) -> Generation {
    Generation(u64::from(attributes.generation))
}

pub(super) fn answer(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

pub(super) fn answer_count(reply: ReplyWrite, done: Result<u64, Errno>) {
    match done {
        Ok(count) => reply.written(u32::try_from(count).unwrap_or(u32::MAX)),
        Err(errno) => reply.error(errno),
    }
}

pub(super) fn answer_usage(reply: ReplyStatfs, usage: Result<Usage, Errno>) {
    match usage {
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

/// Returns the answer for an absent name.
pub(super) fn absent() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// Returns the attributes of `.`, `..`, and an entry whose inode is unreadable. The kernel creates
/// no node for them, but it uses the numbers of the first two.
pub(super) fn unknown(entry: &Entry) -> FileAttr {
    let is_dots = entry.name == b"." || entry.name == b"..";
    FileAttr {
        ino: INodeNo(if is_dots {
            u64::from(entry.inode.get())
        } else {
            0
        }),
        kind: entry.kind.map_or(FileType::RegularFile, type_of),
        ..absent()
    }
}
