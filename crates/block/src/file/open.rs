//! Opening of files and block devices, and creation of images.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use layout::SectorNr;
use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use super::alignment::{Alignment, SECTOR_BYTES_MAX, direct_alignment};
use super::backing::Backing;
use super::guard::{self, SystemFiles};
use super::pool::Pool;
use super::{FileDevice, uncached};
use crate::device::Geometry;
use crate::error::DeviceError;

/// Default number of threads for direct I/O.
const DIRECT_THREADS: u32 = 8;

/// Options for opening a file or a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// True if writes are refused.
    pub is_read_only: bool,
    /// True if I/O bypasses the page cache.
    pub is_direct: bool,
    /// Number of I/O threads beside the waiting one. 0 means none for buffered I/O, which `submit`
    /// then executes itself, and 8 for direct I/O.
    pub threads: u32,
    /// Number of operations that threads may have queued or running before `submit` blocks; without
    /// threads it has no effect.
    pub queue_depth: u32,
    /// True if the file is locked against other programs.
    pub locks: bool,
    /// True if a mounted device or an attached image is opened for writing anyway.
    pub ignores_users: bool,
    /// Size of a sparse file to be created if there is none, in bytes.
    pub create_bytes: Option<u64>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            is_read_only: false,
            is_direct: false,
            threads: 0,
            queue_depth: 64,
            locks: true,
            ignores_users: false,
            create_bytes: None,
        }
    }
}

impl OpenOptions {
    /// Returns the default options, for reading only.
    pub fn read_only() -> Self {
        Self {
            is_read_only: true,
            ..Self::default()
        }
    }

    /// Returns the default options, bypassing the page cache.
    pub fn direct() -> Self {
        Self {
            is_direct: true,
            ..Self::default()
        }
    }
}

/// Creates a sparse file of `size_bytes`.
///
/// # Errors
/// - [`DeviceError::Open`] if the file exists or cannot be created.
pub fn create_sparse(path: impl AsRef<Path>, size_bytes: u64) -> Result<(), DeviceError> {
    let path = path.as_ref();
    let refuse = |errno: Errno| refused(path, errno.into());
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644)).map_err(refuse)?;
    rustix::fs::ftruncate(&file, size_bytes).map_err(|errno| {
        // Do not leave an image of the wrong size behind.
        drop(fs::remove_file(path));
        refuse(errno)
    })
}

impl FileDevice {
    /// Opens a regular file or a block device.
    ///
    /// # Errors
    /// - [`DeviceError::InUse`] if another program holds a lock, or if a device to be written is
    ///   mounted or an image is attached to a loop device.
    /// - [`DeviceError::Open`] if it does not exist, is neither a file nor a block device, is
    ///   empty, or is not accessible.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, DeviceError> {
        let path = path.as_ref();
        if let Some(size_bytes) = options.create_bytes
            && !path.exists()
        {
            create_sparse(path, size_bytes)?;
        }
        let refuse = |kind, cause: &str| open_error(path, kind, cause.to_owned());
        let metadata = fs::metadata(path).map_err(|error| refused(path, error))?;
        let is_block_device = metadata.file_type().is_block_device();
        if !is_block_device && !metadata.is_file() {
            return Err(refuse(
                ErrorKind::InvalidInput,
                "neither a regular file nor a block device",
            ));
        }
        if is_block_device && !options.is_read_only && guard::is_read_only(&metadata) {
            return Err(refuse(
                ErrorKind::ReadOnlyFilesystem,
                "the device is read-only",
            ));
        }
        let guards_users = !options.is_read_only && !options.ignores_users;
        if guards_users {
            guard::refuse_if_used(path, &metadata, &SystemFiles::default())?;
        }
        let file = open_file(path, options, is_block_device && guards_users)?;
        Self::of_file(file, &path.display().to_string(), options)
    }

    /// Wraps an open file, such as one without a name. `name` is for messages; `is_direct` needs a
    /// file that was opened with `O_DIRECT`.
    ///
    /// # Errors
    /// - [`DeviceError::InUse`] if another program holds a lock.
    /// - [`DeviceError::Open`] if it is empty.
    pub fn of_file(file: OwnedFd, name: &str, options: &OpenOptions) -> Result<Self, DeviceError> {
        let path = Path::new(name);
        let stat = rustix::fs::fstat(&file).map_err(|errno| refused(path, errno.into()))?;
        let is_block_device = FileType::from_raw_mode(stat.st_mode).is_block_device();
        let name = name.to_owned();
        let is_guarded = !options.is_read_only && !options.ignores_users;
        if options.locks {
            guard::lock(&file, &name, options.is_read_only)?;
        }
        // Loop devices ignore locks: one may have been attached since the first check.
        if is_guarded && let Some(device) = guard::loop_of_file(&file) {
            return Err(guard::attached(&name, &device));
        }
        let direct = options.is_direct.then(|| direct_alignment(&file));
        let size = if is_block_device {
            rustix::fs::seek(&file, SeekFrom::End(0))
                .map_err(|errno| refused(path, errno.into()))?
        } else {
            stat.st_size as u64
        };
        let geometry = geometry(&file, size, direct, is_block_device, options);
        if geometry.size_bytes == 0 {
            let cause = match size {
                0 => "it is empty".to_owned(),
                bytes => format!(
                    "it has {bytes} bytes, less than a sector of {}",
                    geometry.sector_bytes
                ),
            };
            return Err(open_error(path, ErrorKind::InvalidInput, cause));
        }
        let threads = match options.threads {
            0 if options.is_direct => DIRECT_THREADS,
            threads => threads,
        };
        let pool = (threads > 0).then(|| Pool::new(&name, threads, options.queue_depth));
        let backing = Arc::new(Backing::new(file, name, direct, is_guarded));
        Ok(Self {
            backing,
            geometry,
            uncached: uncached::Opener::new(is_block_device && !options.is_direct),
            pool,
            detached: Arc::default(),
        })
    }
}

fn open_error(path: &Path, kind: ErrorKind, cause: String) -> DeviceError {
    DeviceError::Open {
        device: path.display().to_string(),
        kind,
        cause,
    }
}

/// Converts an error of the system.
fn refused(path: &Path, error: io::Error) -> DeviceError {
    open_error(path, error.kind(), error.to_string())
}

fn open_file(
    path: &Path,
    options: &OpenOptions,
    is_exclusive: bool,
) -> Result<OwnedFd, DeviceError> {
    let access = if options.is_read_only {
        OFlags::RDONLY
    } else {
        OFlags::RDWR
    };
    let mut flags = access | OFlags::CLOEXEC;
    // On a block device this is an exclusive claim: the kernel then neither mounts it nor grants
    // another claim.
    flags.set(OFlags::EXCL, is_exclusive);
    flags.set(OFlags::DIRECT, options.is_direct);
    rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::BUSY => DeviceError::InUse {
            device: path.display().to_string(),
            cause: "the kernel uses it (mounted, or part of another device)".to_owned(),
        },
        Errno::INVAL if options.is_direct => open_error(
            path,
            ErrorKind::Unsupported,
            "direct I/O is not possible here; open it buffered".to_owned(),
        ),
        errno => refused(path, errno.into()),
    })
}

fn geometry(
    file: &impl AsFd,
    size: u64,
    direct: Option<Alignment>,
    is_block_device: bool,
    options: &OpenOptions,
) -> Geometry {
    let smallest = SectorNr::SIZE as u32;
    let physical = is_block_device
        .then(|| rustix::fs::ioctl_blkpbszget(file).ok())
        .flatten();
    let unit = direct.map_or(SectorNr::SIZE, |direct| direct.offset);
    let sector_bytes = physical
        .unwrap_or(smallest)
        .max(unit as u32)
        .clamp(smallest, SECTOR_BYTES_MAX);
    Geometry {
        size_bytes: size - size % unit,
        sector_bytes,
        has_volatile_cache: true,
        has_force_unit_access: true,
        can_flush: true,
        atomic_write_bytes: sector_bytes,
        queue_depth: options.queue_depth.max(1),
        is_read_only: options.is_read_only,
    }
}
