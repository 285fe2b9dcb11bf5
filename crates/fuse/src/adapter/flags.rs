//! What the kernel's flags mean.

use ext::volume::{Durability, NewInode, OpenFlags, RangeChange, RenameMode, WhiteoutOwner};
use fuser::{FopenFlags, OpenAccMode, RenameFlags, Request, WriteFlags};

use crate::vfs::Opened;

pub(super) fn new_inode(request: &Request, mode: u32, umask: u32) -> NewInode {
    NewInode {
        permissions: (mode & 0o7777) as u16,
        uid: request.uid(),
        gid: request.gid(),
        umask: (umask & 0o777) as u16,
    }
}

pub(super) fn has(flags: i32, flag: rustix::fs::OFlags) -> bool {
    rustix::fs::OFlags::from_bits_retain(flags.cast_unsigned()).contains(flag)
}

/// How a file is opened. Offsets of appends are the kernel's, and so is the right to read what it has to fill up before it
/// writes.
pub(super) fn open_flags(flags: fuser::OpenFlags) -> OpenFlags {
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
pub(super) fn durability(write: WriteFlags, flags: i32) -> Durability {
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

/// What becomes of a range, and whether the size is kept; none for what nobody here can.
pub(super) fn range_change(mode: i32) -> Option<(RangeChange, bool)> {
    use rustix::fs::FallocateFlags as Flags;
    let flags = Flags::from_bits_retain(mode.cast_unsigned());
    let what = match flags.difference(Flags::KEEP_SIZE) {
        rest if rest.is_empty() => RangeChange::Allocate,
        Flags::PUNCH_HOLE => RangeChange::PunchHole,
        Flags::ZERO_RANGE => RangeChange::Zero,
        _ => return None,
    };
    Some((what, flags.contains(Flags::KEEP_SIZE)))
}

/// What a rename does with the new name and the old one; none for what nobody here can.
pub(super) fn rename_mode(request: &Request, flags: RenameFlags) -> Option<RenameMode> {
    let whiteout = RenameMode::Whiteout(WhiteoutOwner {
        uid: request.uid(),
        gid: request.gid(),
    });
    match flags {
        none if none.is_empty() => Some(RenameMode::Replace),
        RenameFlags::RENAME_NOREPLACE => Some(RenameMode::NoReplace),
        RenameFlags::RENAME_EXCHANGE => Some(RenameMode::Exchange),
        RenameFlags::RENAME_WHITEOUT => Some(whiteout),
        // That there is no new name yet, the kernel has made sure of, and locked the directory.
        both if both == RenameFlags::RENAME_WHITEOUT | RenameFlags::RENAME_NOREPLACE => {
            Some(whiteout)
        }
        _ => None,
    }
}

/// The kernel keeps what it knows of a file's contents, and passes writes on at once where each is to be durable.
pub(super) fn opened(opened: Opened) -> FopenFlags {
    if opened.writes_through {
        FopenFlags::FOPEN_DIRECT_IO
    } else {
        FopenFlags::FOPEN_KEEP_CACHE
    }
}
