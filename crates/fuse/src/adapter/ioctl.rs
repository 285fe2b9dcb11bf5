//! The controls that lsattr and chattr use.
//!
//! | control | number | what |
//! |---|---|---|
//! | `FS_IOC_GETFLAGS` | `_IOR('f', 1, long)` | the flags |
//! | `FS_IOC_SETFLAGS` | `_IOW('f', 2, long)` | sets those that a user may set |
//! | `FS_IOC_GETVERSION` | `_IOR('v', 1, long)` | the generation |
//!
//! The numbers say `long`, and all programs pass an `int`: four bytes are answered.

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
            let word = data.first_chunk().ok_or(Errno::EINVAL)?;
            let flags = InodeFlags::from_bits_retain(u32::from_ne_bytes(*word));
            vfs.set_flags(node, flags)?;
            Ok(Vec::new())
        }
        GET_VERSION | GET_VERSION_32 => {
            let generation = vfs.attributes(node)?.generation;
            Ok(generation.to_ne_bytes().to_vec())
        }
        _ => Err(Errno::ENOTTY.into()),
    }
}
