//! ext2 and ext3 in user space with the whole ext3 journal, on real devices and in a deterministic simulation.
//!
//! [`Volume`] is the file system: it opens a device, replays the journal if that is needed, offers operations by path and by
//! inode to any number of threads, and is closed. [`mkfs`] makes an image. [`device`] opens devices from their texts. What
//! is here is what the command `jext` is made of.
//!
//! # In memory
//!
//! ```
//! use std::sync::Arc;
//! use jext::{BlockDevice, MemoryDevice, MountOptions, Volume, mkfs};
//!
//! # fn main() -> jext::Result<()> {
//! let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(64 << 20));
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
//! A file that was synced survives a crash at any instant. Here the image is copied while the volume is open, which is
//! what a crash would leave behind; opening the copy replays the journal.
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//! use jext::volume::NewInode;
//! use jext::{BlockDevice, FileDevice, MountOptions, Volume, mkfs};
//!
//! fn open(path: &Path) -> jext::Result<Arc<dyn BlockDevice>> {
//!     Ok(Arc::new(FileDevice::open(path, &Default::default())?))
//! }
//!
//! # fn main() -> jext::Result<()> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! # let (path, crashed) = (folder.path().join("disk.img"), folder.path().join("crashed.img"));
//! jext::create_image(&path, 64 << 20)?;
//! let device = open(&path)?;
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
//!     Volume::open_with_report(open(&crashed)?, None, MountOptions::default())?;
//! assert!(report.replayed_transactions > 0);
//! assert_eq!(volume.read_file("/ledger")?, b"42 crowns\n");
//! volume.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # In a simulated world
//!
//! The same code on a simulated disk takes virtual time, and the same seed gives the same run. An external journal goes
//! with it here, in simulated NVRAM.
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
//! ```
//! # use std::sync::Arc;
//! use jext::volume::FileKind;
//! use jext::Volume;
//!
//! fn walk(volume: &Volume, path: &str, found: &mut Vec<String>) -> jext::Result<()> {
//!     for entry in volume.list(path)? {
//!         let name = String::from_utf8_lossy(&entry.name).into_owned();
//!         let inner = format!("{}/{name}", path.trim_end_matches('/'));
//!         found.push(inner.clone());
//!         if volume.attributes(entry.inode)?.kind == FileKind::Directory {
//!             walk(volume, &inner, found)?;
//!         }
//!     }
//!     Ok(())
//! }
//! # fn main() -> jext::Result<()> {
//! # let device: Arc<dyn jext::BlockDevice> = Arc::new(jext::MemoryDevice::new(16 << 20));
//! # jext::mkfs::format(&device, &jext::mkfs::Options::default())?;
//! # let volume = Volume::open(device, None, jext::MountOptions::default())?;
//! # volume.create_directory_all("/a/b")?;
//! # let mut found = Vec::new();
//! # walk(&volume, "/", &mut found)?;
//! # assert_eq!(found, ["/lost+found", "/a", "/a/b"]);
//! # volume.close()
//! # }
//! ```

pub mod device;
pub mod mount_options;

use std::path::Path;

pub use block::{BlockDevice, DeviceError, DeviceText, FileDevice, MemoryDevice, OpenOptions};
pub use ext::{Corrupt, Error, MountOptions, Result, Volume, mkfs, options, volume};
pub use jbd2 as journal;
pub use rt::Nanos;
pub use sim;
pub use workload;

/// The time since the world began: virtual in a simulated one, since the start of the process in the real one.
#[must_use]
pub fn now() -> Nanos {
    rt::monotonic()
}

/// Makes a sparse image file of `size_bytes`, which must not be there yet.
///
/// # Errors
/// [`DeviceError::Open`] if it is there or cannot be made.
pub fn create_image(path: impl AsRef<Path>, size_bytes: u64) -> Result<(), DeviceError> {
    block::file::create_sparse(path, size_bytes)
}
