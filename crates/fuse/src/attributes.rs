//! Attributes, times, kinds and device numbers in the form of fuser and the kernel.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ext::volume::{Attributes, DeviceNumber, FileKind, SetTime};
use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use layout::InodeNr;
use layout::time::InodeTime;

/// Returns the node of an inode.
pub(crate) fn node_of(inode: InodeNr) -> INodeNo {
    if inode == InodeNr::ROOT {
        INodeNo::ROOT
    } else {
        INodeNo(u64::from(inode.get()))
    }
}

/// Returns the inode of a node; `None` for a number that no volume has.
pub(crate) fn inode_of(node: INodeNo) -> Option<InodeNr> {
    if node == INodeNo::ROOT {
        return Some(InodeNr::ROOT);
    }
    u32::try_from(node.0).ok().map(InodeNr::new)
}

/// Returns the attributes shown by stat, with the inode's own number.
pub(crate) fn shown(attributes: &Attributes, block_bytes: u32) -> FileAttr {
    FileAttr {
        ino: INodeNo(u64::from(attributes.inode.get())),
        size: attributes.size,
        blocks: attributes.sectors,
        atime: system_time(attributes.atime),
        mtime: system_time(attributes.mtime),
        ctime: system_time(attributes.ctime),
        crtime: UNIX_EPOCH,
        kind: type_of(attributes.kind),
        perm: attributes.permissions,
        nlink: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: attributes.device.map_or(0, encode_device),
        blksize: block_bytes,
        flags: 0,
    }
}

/// Converts a file kind.
pub(crate) fn type_of(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::CharacterDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
    }
}

/// Returns the kind in a mode of mknod; a mode without a type means a regular file.
pub(crate) fn kind_of(mode: u32) -> Option<FileKind> {
    match mode & u32::from(layout::mode::TYPE_MASK) {
        0 => Some(FileKind::Regular),
        raw => {
            let is_raw = |kind: &FileKind| u32::from(kind.mode()) == raw;
            [
                FileKind::Regular,
                FileKind::CharacterDevice,
                FileKind::BlockDevice,
                FileKind::Fifo,
                FileKind::Socket,
            ]
            .into_iter()
            .find(is_raw)
        }
    }
}

/// Decodes a device number as the kernel passes it: `minor & 0xFF | major << 8 | (minor & 0xFFF00)
/// << 12`.
pub(crate) fn decode_device(raw: u32) -> DeviceNumber {
    DeviceNumber::decode(0, raw)
}

fn encode_device(device: DeviceNumber) -> u32 {
    (device.minor & 0xFF) | (device.major << 8) | ((device.minor & 0xF_FF00) << 12)
}

/// Converts a time so that fuser splits it into seconds rounded down and nanoseconds.
fn system_time(time: InodeTime) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = if time.seconds >= 0 {
        UNIX_EPOCH + seconds
    } else {
        UNIX_EPOCH - seconds
    };
    whole + Duration::from_nanos(u64::from(time.nanos))
}

/// Converts a time that fuser has composed. Before 1970 fuser subtracts the nanoseconds instead of
/// adding them; this is undone here.
pub(crate) fn inode_time(time: SystemTime) -> InodeTime {
    let (seconds, nanos) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (
            i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            after.subsec_nanos(),
        ),
        Err(before) => {
            let before = before.duration();
            let seconds = i64::try_from(before.as_secs()).map_or(i64::MIN, |seconds| -seconds);
            (seconds, before.subsec_nanos())
        }
    };
    InodeTime::new(seconds, nanos)
}

/// Converts a time to be set.
pub(crate) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::At(inode_time(time)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_has_two_numbers() {
        assert_eq!(node_of(InodeNr::new(2)), INodeNo(1));
        assert_eq!(inode_of(INodeNo(1)), Some(InodeNr::new(2)));
        assert_eq!(node_of(InodeNr::new(12)), INodeNo(12));
        assert_eq!(inode_of(INodeNo(12)), Some(InodeNr::new(12)));
        assert_eq!(inode_of(INodeNo(1 << 32)), None);
    }

    #[test]
    fn times_before_1970_are_shown_rounded_down() {
        let shown = system_time(InodeTime::new(-2, 800_000_000));
        assert_eq!(shown, UNIX_EPOCH - Duration::from_millis(1200));
        assert_eq!(
            system_time(InodeTime::new(5, 7)),
            UNIX_EPOCH + Duration::new(5, 7)
        );
    }

    /// fuser turns -2 s and 800 ms into the time 2.8 s before 1970.
    #[test]
    fn times_before_1970_come_as_fuser_makes_them() {
        let from_fuser = UNIX_EPOCH - Duration::from_millis(2800);
        assert_eq!(inode_time(from_fuser), InodeTime::new(-2, 800_000_000));
        let after = UNIX_EPOCH + Duration::new(9, 1);
        assert_eq!(inode_time(after), InodeTime::new(9, 1));
    }

    #[test]
    fn device_numbers_go_both_ways() {
        for (major, minor) in [(1, 3), (8, 300), (4095, 0xF_FFFF), (0, 0)] {
            let device = DeviceNumber { major, minor };
            assert_eq!(decode_device(encode_device(device)), device);
        }
    }
}
