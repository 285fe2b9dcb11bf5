//! The controls that lsattr and chattr use.
//!
//! | control | number | what |
//! |---|---|---|
//! | `FS_IOC_GETFLAGS` | `_IOR('f', 1, long)` | the flags |
//! | `FS_IOC_SETFLAGS` | `_IOW('f', 2, long)` | sets those that a user may set, and refuses others |
//! | `FS_IOC_GETVERSION` | `_IOR('v', 1, long)` | the generation |
//! | `FS_IOC_FSGETXATTR` | `_IOR('X', 31, struct fsxattr)` | five of the flags, with numbers of their own |
//! | `FS_IOC_FSSETXATTR` | `_IOW('X', 32, struct fsxattr)` | sets these five |
//!
//! The first three say `long`, and all programs pass an `int`: four bytes are answered. Before the kernel passes new flags on it
//! asks for the old ones by `FS_IOC_FSGETXATTR`, so chattr needs that, too.

use ext::volume::InodeFlags;
use fuser::Errno;
use layout::InodeNr;

use super::guard::Failure;
use crate::vfs::Vfs;

const GET_FLAGS: u32 = 0x8008_6601;
const SET_FLAGS: u32 = 0x4008_6602;
const GET_VERSION: u32 = 0x8008_7601;
/// The same with `int`, as programs of 32 bits pass them.
const GET_FLAGS_32: u32 = 0x8004_6601;
const SET_FLAGS_32: u32 = 0x4004_6602;
const GET_VERSION_32: u32 = 0x8004_7601;
const GET_EXTENDED: u32 = 0x801C_581F;
const SET_EXTENDED: u32 = 0x401C_5820;
/// The size of `struct fsxattr`, which begins with the flags.
const EXTENDED_BYTES: usize = 28;

/// The numbers that flags have in `struct fsxattr`.
const EXTENDED: [(u32, InodeFlags); 5] = [
    (0x08, InodeFlags::IMMUTABLE),
    (0x10, InodeFlags::APPEND),
    (0x20, InodeFlags::SYNC),
    (0x40, InodeFlags::NO_ATIME),
    (0x80, InodeFlags::NO_DUMP),
];

/// Answers a control.
pub(super) fn answer(
    vfs: &impl Vfs,
    node: InodeNr,
    command: u32,
    data: &[u8],
) -> Result<Vec<u8>, Failure> {
    match command {
        GET_FLAGS | GET_FLAGS_32 => {
            let flags = vfs.attributes(node)?.flags;
            Ok(flags.bits().to_ne_bytes().to_vec())
        }
        SET_FLAGS | SET_FLAGS_32 => {
            let flags = InodeFlags::from_bits_retain(word(data)?);
            check_settable(vfs.attributes(node)?.flags, flags)?;
            vfs.set_flags(node, flags)?;
            Ok(Vec::new())
        }
        GET_EXTENDED => {
            let flags = vfs.attributes(node)?.flags;
            let mut answer = vec![0; EXTENDED_BYTES];
            answer[..4].copy_from_slice(&to_extended(flags).to_ne_bytes());
            Ok(answer)
        }
        SET_EXTENDED => {
            let old = vfs.attributes(node)?.flags;
            vfs.set_flags(node, with_extended(old, word(data)?))?;
            Ok(Vec::new())
        }
        GET_VERSION | GET_VERSION_32 => {
            let generation = vfs.attributes(node)?.generation;
            Ok(generation.to_ne_bytes().to_vec())
        }
        _ => Err(Errno::ENOTTY.into()),
    }
}

/// Who sets a flag that means nothing here is to know. The others come back as they were read.
fn check_settable(old: InodeFlags, new: InodeFlags) -> Result<(), Errno> {
    let added = new.difference(old);
    if InodeFlags::USER_MODIFIABLE.contains(added) {
        Ok(())
    } else {
        Err(Errno::EOPNOTSUPP)
    }
}

fn word(data: &[u8]) -> Result<u32, Errno> {
    let word = data.first_chunk().ok_or(Errno::EINVAL)?;
    Ok(u32::from_ne_bytes(*word))
}

fn to_extended(flags: InodeFlags) -> u32 {
    let present = EXTENDED.iter().filter(|(_, flag)| flags.contains(*flag));
    present.map(|(number, _)| number).sum()
}

fn with_extended(mut flags: InodeFlags, numbers: u32) -> InodeFlags {
    for (number, flag) in EXTENDED {
        flags.set(flag, numbers & number != 0);
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_flags_have_two_numbers() {
        let flags = InodeFlags::IMMUTABLE | InodeFlags::NO_DUMP | InodeFlags::INDEX;
        assert_eq!(to_extended(flags), 0x88);
        let changed = with_extended(flags, 0x40);
        assert_eq!(changed, InodeFlags::NO_ATIME | InodeFlags::INDEX);
    }
}
