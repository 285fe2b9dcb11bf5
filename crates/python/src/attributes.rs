//! Attributes of inodes and times, as tuples of numbers.

use jext::volume::{Attributes, FileKind, InodeTime};

const NANOS: i128 = 1_000_000_000;

/// The numbers of `stat`: mode, inode, links, uid, gid, size, sectors, and the times of access,
/// modification, change and birth in nanoseconds since 1970; then the device, the inode flags, the
/// generation and the project.
pub(crate) type Numbers = (
    (u32, u32, u32, u32, u32, u64, u64),
    (i128, i128, i128, Option<i128>),
    (u32, u32, u32, u32, u32),
);

/// Returns the numbers of an inode.
pub(crate) fn numbers(found: &Attributes) -> Numbers {
    let device = found.device.unwrap_or_default();
    (
        (
            u32::from(found.kind.mode() | found.permissions),
            found.inode.get(),
            found.links,
            found.uid,
            found.gid,
            found.size,
            found.sectors,
        ),
        (
            nanoseconds(found.atime),
            nanoseconds(found.mtime),
            nanoseconds(found.ctime),
            found.crtime.map(nanoseconds),
        ),
        (
            device.major,
            device.minor,
            found.flags.bits(),
            found.generation,
            found.project,
        ),
    )
}

/// Returns the type bits of a mode; 0 if the kind is unknown.
pub(crate) fn kind_bits(kind: Option<FileKind>) -> u32 {
    kind.map_or(0, |kind| u32::from(kind.mode()))
}

fn nanoseconds(time: InodeTime) -> i128 {
    i128::from(time.seconds) * NANOS + i128::from(time.nanos)
}

/// Returns the time of nanoseconds since 1970; times that no inode holds become the nearest.
pub(crate) fn time(nanoseconds: i128) -> InodeTime {
    let seconds = nanoseconds.div_euclid(NANOS);
    let nanos = nanoseconds.rem_euclid(NANOS) as u32;
    let nearest = match seconds < 0 {
        true => i64::MIN,
        false => i64::MAX,
    };
    InodeTime::new(i64::try_from(seconds).unwrap_or(nearest), nanos)
}
