//! ext2 and ext3 in user space with the whole ext3 journal, on real devices and in a deterministic
//! simulation.
//!
//! [`Volume`] is the file system: it opens a device, replays the journal if that is needed, offers
//! operations by path and by inode to any number of threads, and is closed. The guide,
//! `docs/library.md`, goes through it task by task.
//!
//! | you want to | see |
//! |---|---|
//! | make a file system | [`mkfs`] |
//! | change a closed one: label, features, journal | [`tune`] |
//! | check one | [`fsck`] |
//! | mount one | [`fuse`], a feature that is on by default |
//! | use files as streams | [`File`], which has the traits of [`std::io`] |
//! | say how it is opened, also as text | [`options`], [`mount_options`] |
//! | know its sizes and features | [`superblock`], [`geometry`], [`feature`] |
//! | know what its blocks are | [`census`] |
//! | choose a policy of the journal, or look at a log | [`journal`] |
//! | open an image, memory, part of a disk, an array | [`open_image`], [`memory`], [`device`] |
//! | write a device of your own | [`device`] |
//! | simulate disks and time | [`sim`], a feature that is on by default |
//! | hand errors to C or Python | [`errno`] |
//!
//! [`Error`] becomes a [`std::io::Error`] with the kind of the system, so that both kinds of
//! functions mix; [`errno`] has the number of any error.
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
//! A file that was synced survives a crash at any instant. Here the image is copied while the
//! volume is open, which is what a crash would leave behind; opening the copy replays the journal.
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
//! The same code on a simulated disk takes virtual time, and the same seed gives the same run. An
//! external journal goes with it here, in simulated NVRAM.
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
//! Names are bytes, and need not be UTF-8. Paths may be text, bytes or paths of the standard
//! library.
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

/// Returns the time since the world began: virtual in a simulated one, since the start of the
/// process in the real one.
#[must_use]
pub fn now() -> Nanos {
    rt::monotonic()
}

/// Returns a device of `size_bytes` in memory, all zeroes. Space that was never written takes no
/// memory.
#[must_use]
pub fn memory(size_bytes: u64) -> Arc<dyn BlockDevice> {
    Arc::new(MemoryDevice::new(size_bytes))
}

/// Makes a sparse image file of `size_bytes`, which must not exist.
///
/// # Errors
/// [`DeviceError::Open`] if it exists or cannot be made.
pub fn create_image(path: impl AsRef<Path>, size_bytes: u64) -> Result<(), DeviceError> {
    block::file::create_sparse(path, size_bytes)
}

/// Opens an image file or a block device for reading and writing. [`FileDevice::open`] does it with
/// options, read-only for one.
///
/// # Errors
/// - [`DeviceError::Open`] if it does not exist, is empty, neither a file nor a block device, or
///   not accessible.
/// - [`DeviceError::InUse`] if another process has it open, or the kernel uses it.
pub fn open_image(path: impl AsRef<Path>) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    Ok(Arc::new(FileDevice::open(path, &OpenOptions::default())?))
}
