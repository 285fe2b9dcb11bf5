//! The ioctls of lsattr and chattr.
//!
//! | ioctl | number | function |
//! |---|---|---|
//! | `FS_IOC_GETFLAGS` | `_IOR('f', 1, long)` | returns the flags |
//! | `FS_IOC_SETFLAGS` | `_IOW('f', 2, long)` | sets user-modifiable flags |
//! | `FS_IOC_GETVERSION` | `_IOR('v', 1, long)` | returns the generation |
//! | `FS_IOC_FSGETXATTR` | `_IOR('X', 31, struct fsxattr)` | returns seven flags, renumbered |
//! | `FS_IOC_FSSETXATTR` | `_IOW('X', 32, struct fsxattr)` | sets these seven |
//!
//! The first three are declared with `long`, but all programs pass an `int`: the answer has four
//! bytes. Before the kernel passes new flags on it requests the old ones by `FS_IOC_FSGETXATTR`, so
//! chattr needs that too.

use ext::volume::{Attributes, InodeFlags};
use fuser::{Errno, Request};
use layout::InodeNr;

use super::Adapter;
use super::caller::Caller;
use super::guard::Failure;
use crate::served::Served;

const GET_FLAGS: u32 = 0x8008_6601;
const SET_FLAGS: u32 = 0x4008_6602;
const GET_VERSION: u32 = 0x8008_7601;
/// The same with `int`, as passed by 32-bit programs.
const GET_FLAGS_32: u32 = 0x8004_6601;
const SET_FLAGS_32: u32 = 0x4004_6602;
const GET_VERSION_32: u32 = 0x8004_7601;
const GET_EXTENDED: u32 = 0x801C_581F;
const SET_EXTENDED: u32 = 0x401C_5820;
/// Size of `struct fsxattr`, which starts with the flags.
const EXTENDED_BYTES: usize = 28;

/// Place of the project id in it.
const PROJECT: core::ops::Range<usize> = 12..16;
/// `FS_XFLAG_HASATTR`, which is read-only.
const HAS_ATTRIBUTES: u32 = 0x8000_0000;

/// Numbers of the flags in `struct fsxattr`.
const EXTENDED: [(u32, InodeFlags); 7] = [
    (0x08, InodeFlags::IMMUTABLE),
    (0x10, InodeFlags::APPEND),
    (0x20, InodeFlags::SYNC),
    (0x40, InodeFlags::NO_ATIME),
    (0x80, InodeFlags::NO_DUMP),
    (0x200, InodeFlags::PROJECT_INHERIT),
    (0x8000, InodeFlags::DAX),
];

impl Adapter {
    /// Answers an ioctl. jext keeps the change time of a directory, so the kernel must request it
    /// again after chattr; it keeps that of a file itself.
    pub(super) fn control(
        &self,
        request: &Request,
        node: InodeNr,
        command: u32,
        data: &[u8],
    ) -> Result<Vec<u8>, Failure> {
        let answer = answer(&self.fs, request, node, command, data)?;
        if matches!(command, SET_FLAGS | SET_FLAGS_32 | SET_EXTENDED) {
            self.ask_again(node);
        }
        Ok(answer)
    }
}

/// Executes an ioctl.
fn answer(
    served: &Served,
    request: &Request,
    node: InodeNr,
    command: u32,
    data: &[u8],
) -> Result<Vec<u8>, Failure> {
    match command {
        GET_FLAGS | GET_FLAGS_32 => {
            let flags = served.attributes(node)?.flags;
            Ok(flags.bits().to_ne_bytes().to_vec())
        }
        SET_FLAGS | SET_FLAGS_32 => {
            let flags = InodeFlags::from_bits_retain(word(data)?);
            set(served, request, &served.attributes(node)?, flags, None)
        }
        GET_EXTENDED => {
            let found = served.attributes(node)?;
            let mut answer = vec![0; EXTENDED_BYTES];
            answer[..4].copy_from_slice(&to_extended(found.flags).to_ne_bytes());
            answer[PROJECT].copy_from_slice(&found.project.to_ne_bytes());
            Ok(answer)
        }
        SET_EXTENDED => {
            let old = served.attributes(node)?;
            let (flags, project) = with_extended(old.flags, data)?;
            let project = (project != old.project).then_some(project);
            set(served, request, &old, flags, project)
        }
        GET_VERSION | GET_VERSION_32 => {
            let generation = served.attributes(node)?.generation;
            Ok(generation.to_ne_bytes().to_vec())
        }
        _ => Err(Errno::ENOTTY.into()),
    }
}

fn set(
    served: &Served,
    request: &Request,
    old: &Attributes,
    flags: InodeFlags,
    project: Option<u32>,
) -> Result<Vec<u8>, Failure> {
    check_rights(request, old, flags)?;
    check_settable(old, flags)?;
    served.set_flags(old.inode, flags, project)?;
    Ok(Vec::new())
}

/// Checks that the caller may set flags: those of its own files, and some only with a capability.
/// The kernel checks this only for ioctl numbers that it knows, and not for data journaling. It
/// does not for the 32-bit numbers from a 64-bit program, nor for any number before Linux 5.13.
fn check_rights(request: &Request, old: &Attributes, new: InodeFlags) -> Result<(), Errno> {
    let changes = |flags| (old.flags ^ new).intersects(flags);
    let is_frozen = changes(InodeFlags::IMMUTABLE | InodeFlags::APPEND);
    let is_journaled = changes(InodeFlags::JOURNAL_DATA);
    if request.uid() == 0 || request.uid() == old.uid && !is_frozen && !is_journaled {
        return Ok(());
    }
    let caller = Caller::of(request);
    let is_owner = request.uid() == old.uid || caller.owns_everything();
    let may_freeze = !is_frozen || caller.makes_immutable();
    let may_journal = !is_journaled || caller.journals_data();
    match is_owner && may_freeze && may_journal {
        true => Ok(()),
        false => Err(Errno::EPERM),
    }
}

/// Accepts and refuses the same flags as Linux. Flags that the inode already had are accepted.
fn check_settable(old: &Attributes, new: InodeFlags) -> Result<(), Errno> {
    let added = new.difference(old.flags);
    let known = InodeFlags::USER_VISIBLE.masked_for(old.kind.mode());
    if known.contains(added) {
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

/// Returns the flags combined with those of a `struct fsxattr`, and the project in it. Its other
/// fields are ignored.
fn with_extended(mut flags: InodeFlags, data: &[u8]) -> Result<(InodeFlags, u32), Errno> {
    let numbers = word(data)?;
    let project = word(data.get(PROJECT).unwrap_or_default())?;
    let known: u32 = EXTENDED.iter().map(|(number, _)| number).sum();
    if numbers & !(known | HAS_ATTRIBUTES) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    for (number, flag) in EXTENDED {
        flags.set(flag, numbers & number != 0);
    }
    Ok((flags, project))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extended(numbers: u32, project: u8) -> [u8; EXTENDED_BYTES] {
        let mut data = [0; EXTENDED_BYTES];
        data[..4].copy_from_slice(&numbers.to_ne_bytes());
        data[PROJECT.start] = project;
        data
    }

    #[test]
    fn seven_flags_have_two_numbers() {
        let flags = InodeFlags::IMMUTABLE | InodeFlags::NO_DUMP | InodeFlags::INDEX;
        assert_eq!(to_extended(flags), 0x88);
        let changed = with_extended(flags, &extended(0x40, 7)).ok();
        assert_eq!(changed, Some((InodeFlags::NO_ATIME | InodeFlags::INDEX, 7)));
    }

    #[test]
    fn unknown_numbers_are_refused() {
        assert!(with_extended(InodeFlags::empty(), &extended(0x800, 0)).is_err());
    }
}
