//! What a copy needs of the host's files beyond `std::fs`.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use ext::volume::{DeviceNumber, FileKind};
use layout::time::InodeTime;

use super::end::Facts;

/// What stands at a path, if anything does.
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
    let kind = crate::transfer::host::kind(&metadata);
    let time = |seconds, nanos: i64| InodeTime::new(seconds, u32::try_from(nanos).unwrap_or(0));
    Ok(Some(Facts {
        inode: None,
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

/// Sets the mode, and with `all` owner and times.
pub(super) fn adopt(path: &Path, facts: &Facts, all: bool) -> Result<()> {
    if all {
        std::os::unix::fs::lchown(path, Some(facts.uid), Some(facts.gid))?;
    }
    if facts.kind == FileKind::Symlink {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(u32::from(facts.permissions)))?;
    if all && matches!(facts.kind, FileKind::Regular | FileKind::Directory) {
        let times = FileTimes::new()
            .set_accessed(system_time(facts.atime))
            .set_modified(system_time(facts.mtime));
        File::open(path)?.set_times(times)?;
    }
    Ok(())
}

fn system_time(time: InodeTime) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = if time.seconds < 0 {
        SystemTime::UNIX_EPOCH - seconds
    } else {
        SystemTime::UNIX_EPOCH + seconds
    };
    whole + Duration::from_nanos(u64::from(time.nanos))
}
