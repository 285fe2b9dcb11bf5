//! Conversion of the kernel's flags.

use ext::volume::{Durability, NewInode, OpenFlags, RangeChange, RenameMode, WhiteoutOwner};
use fuser::{FopenFlags, OpenAccMode, RenameFlags, Request, WriteFlags};

use super::uncached::Way;

/// O_DSYNC in Linux (asm-generic/fcntl.h). rustix's `DSYNC` has the value of O_SYNC, which contains
/// it.
const DATA_SYNC: rustix::fs::OFlags = rustix::fs::OFlags::from_bits_retain(0o10_000);

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

/// Returns the flags for opening a file. The kernel computes the offsets of appends, and it may
/// read any opened file, to fill pages before it writes to them.
pub(super) fn open_flags(flags: fuser::OpenFlags) -> OpenFlags {
    OpenFlags {
        read: true,
        write: flags.acc_mode() != OpenAccMode::O_RDONLY,
        append: has(flags.0, rustix::fs::OFlags::APPEND),
        truncate: has(flags.0, rustix::fs::OFlags::TRUNC),
        sync: has(flags.0, rustix::fs::OFlags::SYNC),
        data_sync: has(flags.0, DATA_SYNC),
        direct: has(flags.0, rustix::fs::OFlags::DIRECT),
    }
}

/// Returns the durability that a write requires. The kernel syncs writes from its cache itself.
pub(super) fn durability(write: WriteFlags, flags: i32) -> Durability {
    use rustix::fs::OFlags;
    if write.contains(WriteFlags::FUSE_WRITE_CACHE) {
        Durability::Later
    } else if has(flags, OFlags::SYNC) {
        Durability::All
    } else if has(flags, DATA_SYNC) {
        Durability::Data
    } else {
        Durability::Later
    }
}

/// Returns the change of a range, and true if the size is kept. Returns `None` for an unsupported
/// mode.
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

/// Returns the mode of a rename. Returns `None` for unsupported flags.
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
        // The kernel has checked that the new name does not exist, and holds the lock of the
        // directory.
        both if both == RenameFlags::RENAME_WHITEOUT | RenameFlags::RENAME_NOREPLACE => {
            Some(whiteout)
        }
        _ => None,
    }
}

/// Returns flags that let the kernel cache the contents, unless it has to pass them on at once.
pub(super) fn opened(way: Way) -> FopenFlags {
    match way {
        Way::Cached => FopenFlags::FOPEN_KEEP_CACHE,
        Way::Through => FopenFlags::FOPEN_DIRECT_IO,
        // The cache may have pages that are mapped.
        Way::Parallel => {
            FopenFlags::FOPEN_DIRECT_IO
                | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
                | FopenFlags::FOPEN_KEEP_CACHE
        }
    }
}
