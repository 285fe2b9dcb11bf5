//! Access to the host's files beyond `std::fs`.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::Result;
use ext::volume::{DeviceNumber, FileKind};
use layout::time::InodeTime;
use rustix::fs::{AtFlags, CWD, Mode, Timespec, Timestamps};
use rustix::io::Errno;

use super::end::Facts;
use transfer::host::SET_ID;

/// Returns the facts of a path, if it exists.
pub(super) fn facts(path: &Path, follow: bool) -> Result<Option<Facts>> {
    let metadata = if follow {
        fs::metadata(path)
    } else {
        fs::symlink_metadata(path)
    };
    let metadata = match metadata {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(anyhow::Error::from(error).context(path.display().to_string())),
    };
    let kind = transfer::host::kind(&metadata);
    let time = |seconds, nanos: i64| InodeTime::new(seconds, u32::try_from(nanos).unwrap_or(0));
    Ok(Some(Facts {
        inode: None,
        number: (metadata.dev(), metadata.ino()),
        links: metadata.nlink(),
        kind,
        permissions: (metadata.mode() & 0o7777) as u16,
        uid: metadata.uid(),
        gid: metadata.gid(),
        size: metadata.size(),
        atime: time(metadata.atime(), metadata.atime_nsec()),
        mtime: time(metadata.mtime(), metadata.mtime_nsec()),
        device: DeviceNumber {
            major: rustix::fs::major(metadata.rdev()),
            minor: rustix::fs::minor(metadata.rdev()),
        },
    }))
}

/// Sets owner and group.
pub(super) fn set_owner(path: &Path, facts: &Facts) -> Result<(), Errno> {
    let owner = std::os::unix::fs::lchown(path, Some(facts.uid), Some(facts.gid));
    owner.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Returns the permissions of a copy that does not keep its source's: without set-ID bits, and what
/// the umask leaves.
pub(super) fn unpreserved(permissions: u16) -> u16 {
    // It can only be read by setting it.
    let umask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    rustix::process::umask(umask);
    permissions & !SET_ID & !(umask.as_raw_mode() as u16)
}

/// Sets the mode, which links do not have.
pub(super) fn set_mode(path: &Path, kind: FileKind, permissions: u16) -> Result<()> {
    if kind == FileKind::Symlink {
        return Ok(());
    }
    let permissions = Permissions::from_mode(u32::from(permissions));
    Ok(fs::set_permissions(path, permissions)?)
}

/// Sets the times of what stands at a path, be it a link.
pub(super) fn set_times(path: &Path, facts: &Facts) -> Result<()> {
    let time = |time: InodeTime| Timespec {
        tv_sec: time.seconds,
        tv_nsec: i64::from(time.nanos),
    };
    let times = Timestamps {
        last_access: time(facts.atime),
        last_modification: time(facts.mtime),
    };
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    Ok(rustix::fs::utimensat(CWD, path, &times, flags)?)
}
