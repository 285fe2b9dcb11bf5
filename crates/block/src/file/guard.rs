//! Detection of other users of a file or device, so that two programs never write to it.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, FlockOperation};
use rustix::io::Errno;

use super::ranges;
use crate::error::DeviceError;

/// The system files that list users.
pub(super) struct SystemFiles {
    /// Folder with one folder for each block device.
    pub(super) block_devices: PathBuf,
    /// Table of mounts.
    pub(super) mounts: PathBuf,
}

impl Default for SystemFiles {
    fn default() -> Self {
        Self {
            block_devices: "/sys/block".into(),
            mounts: "/proc/self/mounts".into(),
        }
    }
}

/// True if a block device is read-only according to the kernel.
pub(super) fn is_read_only(metadata: &fs::Metadata) -> bool {
    let device = metadata.rdev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let said = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/ro"));
    said.is_ok_and(|said| said.trim() == "1")
}

/// Refuses a file attached to a loop device, and a mounted block device.
pub(super) fn refuse_if_used(
    path: &Path,
    metadata: &fs::Metadata,
    system: &SystemFiles,
) -> Result<(), DeviceError> {
    let cause = if metadata.file_type().is_block_device() {
        mount_of(metadata, system)
            .map(|folder| format!("it is mounted on {folder}; unmount it first"))
    } else {
        if let Some(device) = loop_of(metadata, system) {
            return Err(attached(&path.display().to_string(), &device));
        }
        None
    };
    match cause {
        None => Ok(()),
        Some(cause) => Err(DeviceError::InUse {
            device: path.display().to_string(),
            cause,
        }),
    }
}

/// Returns the error for an image behind a loop device.
pub(super) fn attached(name: &str, device: &str) -> DeviceError {
    DeviceError::InUse {
        device: name.to_owned(),
        cause: format!("it is attached to /dev/{device}; detach it first (losetup -d)"),
    }
}

/// Returns the loop device attached to an open file, if any.
pub(super) fn loop_of_file(file: &OwnedFd) -> Option<String> {
    let metadata = fs::File::from(file.try_clone().ok()?).metadata().ok()?;
    if !metadata.is_file() {
        return None;
    }
    loop_of(&metadata, &SystemFiles::default())
}

/// Returns the loop device attached to a file, if any. The inodes of the files are compared, not
/// their names.
fn loop_of(metadata: &fs::Metadata, system: &SystemFiles) -> Option<String> {
    let folders = fs::read_dir(&system.block_devices).ok()?;
    folders.flatten().find_map(|folder| {
        let name = folder.file_name().into_string().ok()?;
        if !name.starts_with("loop") {
            return None;
        }
        let backing = fs::read_to_string(folder.path().join("loop/backing_file")).ok()?;
        let backing = fs::metadata(backing.trim_end_matches('\n')).ok()?;
        let is_same = (backing.dev(), backing.ino()) == (metadata.dev(), metadata.ino());
        is_same.then_some(name)
    })
}

/// Returns the mount point of a block device, if it is mounted.
fn mount_of(metadata: &fs::Metadata, system: &SystemFiles) -> Option<String> {
    let mounts = fs::read_to_string(&system.mounts).ok()?;
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (source, folder) = (fields.next()?, fields.next()?);
        if !source.starts_with('/') {
            return None;
        }
        let source = fs::metadata(unescape(source)).ok()?;
        let is_same = source.file_type().is_block_device() && source.rdev() == metadata.rdev();
        is_same.then(|| unescape(folder))
    })
}

/// Undoes the escapes of the table of mounts: `\040` is a space.
fn unescape(field: &str) -> String {
    let mut plain = String::new();
    let mut rest = field;
    while let Some(place) = rest.find('\\') {
        plain.push_str(&rest[..place]);
        let code = rest
            .get(place + 1..place + 4)
            .and_then(|code| u8::from_str_radix(code, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                rest = &rest[place + 4..];
            }
            None => {
                plain.push('\\');
                rest = &rest[place + 1..];
            }
        }
    }
    plain + rest
}

/// Locks an open file until [`unlock`].
pub(super) fn lock(file: &OwnedFd, name: &str, is_read_only: bool) -> Result<(), DeviceError> {
    let (operation, holder) = if is_read_only {
        (
            FlockOperation::NonBlockingLockShared,
            "another process has it open for writing",
        )
    } else {
        (
            FlockOperation::NonBlockingLockExclusive,
            "another process has it open",
        )
    };
    match rustix::fs::flock(file, operation) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(DeviceError::InUse {
                device: name.to_owned(),
                cause: holder.to_owned(),
            });
        }
        Err(errno) => {
            return Err(DeviceError::Open {
                device: name.to_owned(),
                kind: std::io::Error::from(errno).kind(),
                cause: format!("it cannot be locked: {errno}"),
            });
        }
    }
    ranges::lock(file, name, is_read_only).inspect_err(|_| unlock(file))
}

/// Releases all locks of an open file.
pub(super) fn unlock(file: &OwnedFd) {
    ranges::unlock(file);
    let _ = rustix::fs::flock(file, FlockOperation::Unlock);
}

/// Returns true for a block device. A direct write with `RWF_DSYNC` on one is a write with forced
/// unit access, which most devices do by a flush of their own, and a flush of the kernel.
pub(super) fn is_block_device(file: &OwnedFd) -> bool {
    let stat = rustix::fs::fstat(file);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_block_device())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone() {
        for (field, plain) in [
            ("/mnt", "/mnt"),
            ("/a\\040b", "/a b"),
            ("/x\\134y\\", "/x\\y\\"),
        ] {
            assert_eq!(unescape(field), plain);
        }
    }

    #[test]
    fn a_loop_attached_image_is_found_by_identity_and_not_by_name() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let image = folder.path().join("image");
        fs::write(&image, [0; 512]).expect("the folder is writable");
        let other_name = folder.path().join("other name");
        fs::hard_link(&image, &other_name).expect("the file system has links");
        let loops = folder.path().join("loop3/loop");
        fs::create_dir_all(&loops).expect("the folder is writable");
        let system = SystemFiles {
            block_devices: folder.path().into(),
            mounts: "/nonexistent".into(),
        };
        let metadata = fs::metadata(&image).expect("it was made");
        assert_eq!(refuse_if_used(&image, &metadata, &system), Ok(()));
        fs::write(
            loops.join("backing_file"),
            format!("{}\n", other_name.display()),
        )
        .expect("the folder is writable");
        let refused = refuse_if_used(&image, &metadata, &system);
        assert!(
            matches!(&refused, Err(DeviceError::InUse { cause, .. }) if cause.contains("/dev/loop3")),
            "{refused:?}"
        );
    }
}
