//! The interface between trials and file systems: one is [`Described`] by settings, a
//! [`FileSystem`] can be created, an [`Instance`] has been created and is open.
//!
//! Trials, preflight checks and warnings use these traits only. Three modules implement them:
//!
//! | implementation | file system | devices | time |
//! |---|---|---|---|
//! | [`ext`] | this project's engine, in this process | any, also simulated | virtual or real |
//! | [`mounted`] | mounted by the kernel or a FUSE program | files, block devices, memory | real |
//! | [`guest`] | described only; the kernel of a guest mounts it | any | virtual or real |
//!
//! Another engine is a module beside [`ext`], and a branch where `setup` reads the key `fs.type`.

mod devices;
pub mod ext;
mod figures;
pub mod guest;
mod memory;
pub mod mounted;
mod remains;
mod uses;

use std::fmt;
use std::sync::Arc;

use anyhow::Result;
use block::DeviceText;
use rt::Nanos;
use workload::Target;

use crate::record::Measured;
use crate::timeline::Counts;

pub(crate) use devices::{Counted, DeviceMaker};
pub use ext::ExtSetup;
pub(crate) use figures::DevicesReading;
pub use guest::GuestFileSystem;
pub(crate) use memory::size_of;
pub use memory::{Ballast, MemorySetup};
pub use mounted::{Driver, MountedFileSystem, MountedSetup};
pub use remains::Remains;
pub(crate) use remains::Stores;

/// The description of a file system by settings; it is created anew for each trial.
pub trait Described: fmt::Debug + Send + Sync {
    /// Returns its device.
    fn device(&self) -> &DeviceText;

    /// Returns the location of its journal.
    fn journal(&self) -> &JournalPlace;

    /// Returns the memory model of the simulated host; `None` if the file system uses the kernel's.
    fn memory(&self) -> Option<&MemorySetup>;

    /// Checks that this system can create and mount it. Changes nothing.
    ///
    /// # Errors
    /// Fails with the first missing prerequisite.
    fn check_system(&self) -> Result<()>;

    /// Returns the number of bytes that remain for its cache.
    fn cache_bytes(&self) -> u64 {
        self.memory()
            .map_or(0, |memory| memory.left(self.journal()))
    }
}

/// A file system that is created and mounted on this system, or in this process.
pub trait FileSystem: Described {
    /// Creates it on its devices and opens it. An engine of this process starts to allocate
    /// `allocation_start` blocks after its usual start.
    ///
    /// # Errors
    /// Fails if a device cannot be opened, or if mkfs or mount fails.
    fn make(&self, allocation_start: u32) -> Result<Box<dyn Instance>>;

    /// Returns the file system as one whose power can be cut; `None` if it cannot, or must not.
    fn powered(&self) -> Option<&dyn PoweredFileSystem> {
        None
    }
}

/// A file system on simulated devices whose power can be cut.
pub trait PoweredFileSystem: FileSystem {
    /// Creates it as [`FileSystem::make`]; returns also its power switch: a function that returns
    /// what a cut at the instant of the call would leave.
    ///
    /// # Errors
    /// Fails as [`FileSystem::make`].
    fn make_powered(&self, allocation_start: u32) -> Result<(Box<dyn Instance>, PowerSwitch)>;

    /// Opens it again on new devices with what a cut left, which replays its journal.
    ///
    /// # Errors
    /// Fails if a device cannot be opened, or the file system cannot.
    fn reopen(&self, remains: Remains) -> Result<Reopened>;

    /// Checks it in full on new devices with what a cut left.
    ///
    /// # Errors
    /// Fails if a device fails, or if nothing can be checked.
    fn check(&self, remains: Remains) -> Result<Checked>;
}

/// A function that returns what a power cut at the instant of the call would leave.
pub type PowerSwitch = Box<dyn Fn() -> Result<Remains> + Send + Sync>;

/// A file system that was opened again after a power cut.
pub struct Reopened {
    /// The file system.
    pub instance: Box<dyn Instance>,
    /// Its power switch.
    pub switch: PowerSwitch,
    /// Duration of the open.
    pub took: Nanos,
    /// Number of transactions that were replayed.
    pub replayed: u64,
}

/// The result of a full check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checked {
    /// Its duration.
    pub took: Nanos,
    /// Number of regular files that it found.
    pub files: u64,
    /// Number of bytes that it read.
    pub bytes_read: u64,
    /// Number of problems.
    pub problems: u64,
}

/// A function that reads the counters of a timeline, at any time while the workload runs.
pub type CountsReader = Box<dyn Fn() -> Counts + Send + Sync>;

/// A file system that has been created and is open.
pub trait Instance {
    /// Returns the target of the workload.
    fn target(&self) -> Arc<dyn Target>;

    /// Returns a reader of the timeline's counters; they stay 0 if the file system has none.
    fn counts(&self) -> CountsReader;

    /// Saves the values of all counters before the workload.
    ///
    /// # Errors
    /// Fails if they cannot be read.
    fn begin(&mut self) -> Result<()>;

    /// Adds the difference of all counters since [`begin`](Self::begin).
    ///
    /// # Errors
    /// Fails if they cannot be read.
    fn measure(&self, measured: &mut Measured) -> Result<()>;

    /// Closes or unmounts it. All targets and readers must have been dropped before.
    ///
    /// # Errors
    /// Fails if the file system reports an error, or is still in use.
    fn close(self: Box<Self>) -> Result<Closed>;
}

/// The device of a closed file system.
#[derive(Default)]
pub struct Closed(Option<Counted>);

impl Closed {
    /// Adds the figures that only a closed file system has.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    pub fn measure(&self, measured: &mut Measured) -> Result<()> {
        let device = self.0.as_ref();
        device.map_or(Ok(()), |device| device.measure_uses(measured))
    }
}

/// The location of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalPlace {
    /// No journal.
    None,
    /// Inside the file system.
    Internal,
    /// On a separate device.
    External(DeviceText),
}

/// Options of mkfs; with `None`, mkfs decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatSetup {
    /// True for the mkfs defaults of 2002, false for today's.
    pub is_classic: bool,
    /// Block size in bytes.
    pub block_bytes: Option<u64>,
    /// Inode size in bytes.
    pub inode_bytes: Option<u64>,
    /// Bytes for each inode.
    pub bytes_per_inode: Option<u64>,
    /// Size of an internal journal in bytes.
    pub journal_bytes: Option<u64>,
    /// Percentage of blocks reserved for privileged users.
    pub reserved_percent: u8,
    /// Changes of the features, as for `-O`; empty for none.
    pub features: String,
    /// True if inode tables are initialised after the mount.
    pub is_lazy: bool,
}

impl FormatSetup {
    /// Returns the extended options of mke2fs that decide when structures are initialised.
    const fn initialisation(&self) -> &'static str {
        match self.is_lazy {
            true => "lazy_itable_init=1,lazy_journal_init=0,nodiscard",
            false => "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
        }
    }
}
