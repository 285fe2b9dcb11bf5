//! The interface between trials and file systems: [`FileSystem`] is one that can be made,
//! [`Instance`] one that was made and is open.
//!
//! Trials, checks before a run, and warnings name these traits only. Two modules implement them:
//!
//! | implementation | file system | devices | time |
//! |---|---|---|---|
//! | [`ext`] | this project's engine, in this process | any, also simulated | virtual or real |
//! | [`mounted`] | mounted by the kernel or a FUSE program | files, block devices, memory | real |
//!
//! Another engine is a module beside [`ext`], and a branch where `setup` reads the key `fs.type`.

mod devices;
pub mod ext;
mod memory;
pub mod mounted;

use std::fmt;
use std::sync::Arc;

use anyhow::Result;
use block::DeviceText;
use workload::Target;

use crate::record::Measured;
use crate::timeline::Counts;

pub(crate) use devices::DeviceMaker;
pub use ext::ExtSetup;
pub(crate) use memory::size_of;
pub use memory::{Ballast, MemorySetup};
pub use mounted::{Driver, MountedFileSystem, MountedSetup};

/// A file system as settings describe it, made anew for each trial.
pub trait FileSystem: fmt::Debug + Send + Sync {
    /// Returns its device.
    fn device(&self) -> &DeviceText;

    /// Returns the place of its journal.
    fn journal(&self) -> &JournalPlace;

    /// Returns the memory that the laboratory divides; `None` if the file system uses the kernel's.
    fn memory(&self) -> Option<&MemorySetup>;

    /// Checks that this system can make and mount it. Changes nothing.
    ///
    /// # Errors
    /// Fails with the first thing that is missing.
    fn check_system(&self) -> Result<()>;

    /// Makes it on its devices and opens it.
    ///
    /// # Errors
    /// Fails if a device cannot be opened, or if mkfs or mount fail.
    fn make(&self) -> Result<Box<dyn Instance>>;

    /// Returns the bytes that are left for its cache.
    fn cache_bytes(&self) -> u64 {
        self.memory()
            .map_or(0, |memory| memory.left(self.journal()))
    }
}

/// Reads the counters that a timeline shows, at any time while the workload runs.
pub type CountsReader = Box<dyn Fn() -> Counts + Send + Sync>;

/// A file system that was made and is open.
pub trait Instance {
    /// Returns the target of the workload.
    fn target(&self) -> Arc<dyn Target>;

    /// Returns a reader of the counters that a timeline shows; they stay 0 if the file system has
    /// none.
    fn counts(&self) -> CountsReader;

    /// Remembers all counters as they are before the workload.
    ///
    /// # Errors
    /// Fails if they cannot be read.
    fn begin(&mut self) -> Result<()>;

    /// Adds the difference of all counters since [`begin`](Self::begin).
    ///
    /// # Errors
    /// Fails if they cannot be read.
    fn measure(&self, measured: &mut Measured) -> Result<()>;

    /// Closes or unmounts it. All targets and readers must have been dropped.
    ///
    /// # Errors
    /// Fails if the file system reports an error, or is still in use.
    fn close(self: Box<Self>) -> Result<()>;
}

/// The place of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalPlace {
    /// There is none.
    None,
    /// In the file system.
    Internal,
    /// On a device of its own.
    External(DeviceText),
}

/// The options of mkfs; `None` means mkfs decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatSetup {
    /// True for the defaults of 2002 rather than today's.
    pub is_classic: bool,
    /// Bytes of a block.
    pub block_bytes: Option<u64>,
    /// Bytes of an inode.
    pub inode_bytes: Option<u64>,
    /// Bytes for each inode.
    pub bytes_per_inode: Option<u64>,
    /// Bytes of an internal journal.
    pub journal_bytes: Option<u64>,
    /// Blocks only for the privileged.
    pub reserved_percent: u8,
}
