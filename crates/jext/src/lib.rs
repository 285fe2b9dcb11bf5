//! ext2, ext3 and ext4 in user space with the whole journal, on real devices and in a deterministic
//! simulation.
//!
//! [`Volume`] is the file system: it opens a device, replays the journal if necessary, and offers
//! operations by path and by inode to any number of threads. The guide, `docs/library.md`,
//! describes each task.
//!
//! | task | see |
//! |---|---|
//! | make a file system | [`mkfs`] |
//! | change the label, features or journal of a closed one | [`tune`] |
//! | check one | [`fsck`] |
//! | mount one | [`fuse`], a default feature |
//! | use files as streams | [`File`], which implements the traits of [`std::io`] |
//! | set mount options, also as text | [`options`], [`mount_options`] |
//! | read its sizes and features | [`superblock`], [`geometry`], [`feature`] |
//! | classify its blocks | [`census`] |
//! | choose a journal policy, or read a log | [`journal`] |
//! | open an image, memory, part of a disk, an array | [`open_image`], [`memory`], [`device`] |
//! | implement a device | [`device`] |
//! | simulate disks and time | [`sim`], a default feature |
//! | return errors to C or Python | [`errno`] |
//!
//! [`Error`] converts to a [`std::io::Error`] with the matching kind; [`errno`] returns the number
//! of any error.
//!
//! # In memory
//!
//! ```
//! use jext::{MountOptions, Volume, mkfs};
//!
//! # fn main() -> jext::Result<()> {
//! let device = jext::memory(64 << 20);
//! mkfs::format(&device, &mkfs::Options::default())?;
//!
//! let volume = Volume::open(device, None, MountOptions::default())?;
//! volume.create_directory_all("/var/mail")?;
//! volume.write_file("/var/mail/tytso", b"From: sct\n\nIt journals.\n")?;
//!
//! let names: Vec<_> = volume.list("/var/mail")?.into_iter().map(|entry| entry.name).collect();
//! assert_eq!(names, [b"tytso"]);
//! volume.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # In a file
//!
//! A synced file survives a crash at any instant. This example copies the image while the volume is
//! open, which gives the state after a crash; opening the copy replays the journal.
//!
//! ```
//! use jext::volume::NewInode;
//! use jext::{MountOptions, Volume, mkfs};
//!
//! # fn main() -> jext::Result<()> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! # let (path, crashed) = (folder.path().join("disk.img"), folder.path().join("crashed.img"));
//! jext::create_image(&path, 64 << 20)?;
//! let device = jext::open_image(&path)?;
//! mkfs::format(&device, &mkfs::Options::default())?;
//!
//! let volume = Volume::open(device, None, MountOptions::default())?;
//! let mut file = volume.create_file("/ledger", &NewInode::default())?;
//! file.write_all(b"42 crowns\n")?;
//! file.sync_all()?;
//! std::fs::copy(&path, &crashed).expect("there is space");
//! file.close()?;
//! volume.close()?;
//!
//! let (volume, report) =
//!     Volume::open_with_report(jext::open_image(&crashed)?, None, MountOptions::default())?;
//! assert!(report.replayed_transactions > 0);
//! assert_eq!(volume.read_file("/ledger")?, b"42 crowns\n");
//! volume.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # In a simulated world
//!
//! The same code on a simulated disk takes virtual time, and the same seed gives the same run. This
//! example adds an external journal in simulated NVRAM.
//!
//! ```
//! use jext::{MountOptions, Volume, device, mkfs, sim};
//!
//! let report = sim::run(sim::Config::fair(7), || -> jext::Result<_> {
//!     let disk = device::open("slice(sim:atlas-v-18,0..64MiB)")?;
//!     let log = device::open("nvram:8MiB")?;
//!     mkfs::format_journal_device(&log, 1024, [7; 16])?;
//!     mkfs::format_with_journal(&disk, &log, &mkfs::Options::default())?;
//!
//!     let volume = Volume::open(disk, Some(log), MountOptions::default())?;
//!     volume.write_file("/hello", b"world")?;
//!     volume.sync()?;
//!     let synced = jext::now();
//!     volume.close()?;
//!     Ok(synced)
//! })
//! .expect("the world ends well");
//! assert!(report.value.expect("the file system works") > jext::Nanos::from_millis(1));
//! ```
//!
//! # Walking a tree
//!
//! Names are bytes and need not be UTF-8. Paths can be strings, bytes or [`std::path::Path`]s.
//!
//! ```
//! use std::path::{Path, PathBuf};
//! use jext::Volume;
//! use jext::volume::FileKind;
//!
//! fn walk(volume: &Volume, path: &Path, found: &mut Vec<PathBuf>) -> jext::Result<()> {
//!     for entry in volume.list(path)? {
//!         let inner = path.join(entry.file_name());
//!         let is_directory = volume.metadata(&inner, false)?.kind == FileKind::Directory;
//!         found.push(inner.clone());
//!         if is_directory {
//!             walk(volume, &inner, found)?;
//!         }
//!     }
//!     Ok(())
//! }
//! # fn main() -> jext::Result<()> {
//! # use std::ffi::OsStr;
//! # use std::os::unix::ffi::OsStrExt;
//! # let device = jext::memory(16 << 20);
//! # jext::mkfs::format(&device, &jext::mkfs::Options::default())?;
//! # let volume = Volume::open(device, None, jext::MountOptions::default())?;
//! # volume.create_directory_all("/a/b")?;
//! # volume.write_file(b"/a/b/\xFF", b"")?;
//! # let mut found = Vec::new();
//! # walk(&volume, Path::new("/"), &mut found)?;
//! # found.sort();
//! # let odd = Path::new("/a/b").join(OsStr::from_bytes(b"\xFF"));
//! # let expected = ["/a", "/a/b"].map(PathBuf::from);
//! # assert_eq!(found, [&expected[..], &[odd, "/lost+found".into()]].concat());
//! # volume.close()
//! # }
//! ```

pub mod device;
mod documents;
pub mod mount_options;
mod overlay;

use std::path::Path;
use std::sync::Arc;

#[doc(inline)]
pub use block::{BlockDevice, DeviceError, DeviceText, FileDevice, MemoryDevice, OpenOptions};
#[cfg(feature = "sim")]
pub use diskmodel;
pub use errno;
#[doc(inline)]
pub use ext::volume::{AsPath, File, FileId};
#[doc(inline)]
pub use ext::{
    CacheStalls, Corrupt, Error, MountOptions, Result, Volume, census, geometry, mkfs, options,
    superblock, tune, volume,
};
pub use fsck;
#[cfg(feature = "fuse")]
pub use fuse;
pub use jbd2 as journal;
#[doc(inline)]
pub use layout::{BlockNr, FileBlock, GroupNr, InodeNr, Tid, feature};
#[doc(inline)]
pub use rt::{Nanos, WallTime};
#[cfg(feature = "sim")]
pub use sim;

/// Returns the current time: virtual in a simulated world, since the start of the process in the
/// real one.
#[must_use]
pub fn now() -> Nanos {
    rt::monotonic()
}

/// Returns a device of `size_bytes` in memory, filled with zeros. Unwritten space takes no memory.
#[must_use]
pub fn memory(size_bytes: u64) -> Arc<dyn BlockDevice> {
    Arc::new(MemoryDevice::new(size_bytes))
}

/// Creates a sparse image file of `size_bytes`, which must not exist.
///
/// # Errors
/// [`DeviceError::Open`] if it exists or cannot be created.
pub fn create_image(path: impl AsRef<Path>, size_bytes: u64) -> Result<(), DeviceError> {
    block::file::create_sparse(path, size_bytes)
}

/// Opens an image file or a block device for reading and writing. [`FileDevice::open`] accepts
/// options, such as read-only.
///
/// # Errors
/// - [`DeviceError::Open`] if it does not exist, is empty, is neither a file nor a block device, or
///   is not accessible.
/// - [`DeviceError::InUse`] if another process has it open, or the kernel uses it.
pub fn open_image(path: impl AsRef<Path>) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    Ok(Arc::new(FileDevice::open(path, &OpenOptions::default())?))
}
