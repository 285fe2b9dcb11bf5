//! The interface between the explorer and the file system under test.
//!
//! The model, the explorer and the oracle name these traits and the types of this crate. A file
//! system that implements [`Subject`] can be compared with the model; one that implements
//! [`Engine`] can also be recovered from the devices of a crash. [`tested`](crate::tested) has the
//! implementations for the engine of this project.
//!
//! A kernel mount can implement both: [`Engine::recover`] copies the devices to loop devices and
//! mounts them, and [`Subject`] is `stat`, `readdir`, `read` and `listxattr` by inode number.

use std::sync::Arc;

use block::BlockDevice;
use layout::Tid;

use crate::mode::DataMode;
use crate::observe::Subject;
use crate::rule::Broken;

/// A file system that recovers from a crash.
pub trait Engine: Subject + Sized {
    /// Opens a volume on these devices, which recovers it. Nothing happens by itself afterwards: no
    /// commit after an interval and no writeback.
    ///
    /// # Errors
    /// Fails if recovery does.
    fn recover(
        home: Arc<dyn BlockDevice>,
        log: Option<Arc<dyn BlockDevice>>,
        data: DataMode,
    ) -> Result<(Self, Recovery), Self::Error>;

    /// Creates files everywhere, deletes everything, and verifies that nothing is left.
    ///
    /// # Errors
    /// Fails with rule U7.
    fn exercise(&self) -> Result<(), Broken>;

    /// Closes the volume.
    ///
    /// # Errors
    /// Fails if the volume reports an error.
    fn close(self) -> Result<(), Self::Error>;

    /// Checks a closed volume with an independent checker.
    ///
    /// # Errors
    /// Fails with rule U2 if it cannot be checked.
    fn check(home: &dyn BlockDevice, log: Option<&dyn BlockDevice>) -> Result<Soundness, Broken>;
}

/// The report of a recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// The last committed transaction; `None` if the journal was not read.
    pub last_committed: Option<Tid>,
    /// True if a truncation was finished.
    pub has_truncated: bool,
    /// True if a committed transaction was dropped because its log was damaged.
    pub has_lost: bool,
    /// The reason why the volume is read-only, if it is.
    pub read_only_because: Option<String>,
}

/// The report of a checker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Soundness {
    /// True if nothing is wrong.
    pub is_sound: bool,
    /// The findings, one sentence each.
    pub problems: Vec<String>,
    /// Number of inodes on the orphan list.
    pub orphans: u64,
    /// True if the volume needs recovery.
    pub needs_recovery: bool,
}
