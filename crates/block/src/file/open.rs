//! Opening a file or block device, and making an image.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use layout::SectorNr;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;

use super::FileDevice;
use super::backing::{Alignment, Backing};
use super::guard::{self, SystemFiles};
use super::pool::Pool;
use crate::device::Geometry;
use crate::error::DeviceError;

/// How many threads do direct I/O unless told.
const DIRECT_THREADS: u32 = 8;

/// The physical sectors that a geometry can have, in bytes.
const SECTOR_BYTES_MAX: u32 = 4096;

/// How to open a file or a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// Refuse writes.
    pub is_read_only: bool,
    /// Go around the page cache.
    pub is_direct: bool,
    /// How many threads do the I/O; 0 is the caller's own for buffered I/O, and 8 for direct I/O.
    pub threads: u32,
    /// How many operations may wait or be under way before `submit` blocks; without threads it means nothing.
    pub queue_depth: u32,
    /// Lock the file against others who lock it.
    pub locks: bool,
    /// Open for writing even what is mounted or attached to a loop device.
    pub ignores_users: bool,
    /// Make a sparse file of this size if there is none, in bytes.
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
    /// The default, for reading only.
    pub fn read_only() -> Self {
        Self {
            is_read_only: true,
            ..Self::default()
        }
    }

    /// The default, around the page cache.
    pub fn direct() -> Self {
        Self {
            is_direct: true,
            ..Self::default()
        }
    }
}

/// Makes a sparse file of `size_bytes`.
///
/// - [`DeviceError::Open`] if there is such a file already, or it cannot be made.
pub fn create_sparse(path: impl AsRef<Path>, size_bytes: u64) -> Result<(), DeviceError> {
    let path = path.as_ref();
    let refuse = |errno: Errno| refused(path, errno.into());
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644)).map_err(refuse)?;
    rustix::fs::ftruncate(&file, size_bytes).map_err(|errno| {
        // An image of the wrong size must not be left behind.
        drop(fs::remove_file(path));
        refuse(errno)
    })
}

impl FileDevice {
    /// Opens a regular file or a block device.
    ///
    /// - [`DeviceError::InUse`] if somebody else has it locked, or if it is to be written and is mounted or attached to a
    ///   loop device.
    /// - [`DeviceError::Open`] if it is not there, not a file or block device, empty, or not accessible.
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

    /// Wraps a file that is open already, such as one without a name. `name` is for messages; `is_direct` needs a file that was
    /// opened with `O_DIRECT`.
    ///
    /// - [`DeviceError::InUse`] if somebody else has it locked.
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
        // A loop device does not look at locks: one may have come since the first look.
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

/// An error of the system.
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
    // On a block device, this claims it: the kernel then neither mounts it nor lets others claim it.
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

/// What direct I/O needs here: what `statx` says (Linux 6.1), else the logical sector of a block device, else a page.
fn direct_alignment(file: &impl AsFd) -> Alignment {
    let told = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
    if let Some(told) = told
        && told.stx_mask & StatxFlags::DIOALIGN.bits() != 0
        && told.stx_dio_offset_align.is_power_of_two()
        && told.stx_dio_mem_align.is_power_of_two()
    {
        return Alignment {
            memory: told.stx_dio_mem_align as usize,
            offset: u64::from(told.stx_dio_offset_align).max(SectorNr::SIZE),
        };
    }
    let unit = rustix::fs::ioctl_blksszget(file).unwrap_or(SECTOR_BYTES_MAX);
    Alignment {
        memory: unit as usize,
        offset: u64::from(unit),
    }
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
