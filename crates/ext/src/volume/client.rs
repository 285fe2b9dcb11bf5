//! Callbacks of the journal: ordered data, the release of freed blocks, and turning read-only on
//! abort.

use std::sync::{Arc, Weak};

use block::DeviceError;
use jbd2::Label;
use layout::{Block, BlockNr, Tid};
use rt::Mutex;
use rt::atomic::Ordering;

use super::describe::describe;
use crate::core::Core;
use crate::disk::metadata::Checks;
use crate::writeback::{write_data_so_far, write_ordered};

/// The journal's client. It gets the core after the journal has been opened, because each needs the
/// other.
pub(super) struct Client {
    checks: Checks,
    core: Mutex<Weak<Core>>,
}

impl Client {
    /// Creates a client without a core.
    pub(super) fn new(checks: Checks) -> Self {
        Self {
            checks,
            core: Mutex::default(),
        }
    }

    /// Sets the core that the client serves.
    pub(super) fn attach(&self, core: &Arc<Core>) {
        *self.core.lock() = Arc::downgrade(core);
    }

    fn core(&self) -> Option<Arc<Core>> {
        self.core.lock().upgrade()
    }
}

impl jbd2::Client for Client {
    fn commit_begins(&self, _tid: Tid) {}

    fn seal(&self, label: Label, block: BlockNr, image: &mut Arc<Block>) {
        self.checks.seal(label, block, image);
    }

    fn write_ordered_data(&self, tid: Tid) -> Result<bool, DeviceError> {
        match self.core() {
            Some(core) => write_ordered(&core, tid),
            None => Ok(false),
        }
    }

    fn write_data_so_far(&self, tid: Tid) -> Result<bool, DeviceError> {
        match self.core() {
            Some(core) if !rt::mutant!("fast-commit/data-not-written") => {
                write_data_so_far(&core, tid)
            }
            _ => Ok(true),
        }
    }

    fn collect_changes(&self, tid: Tid) -> Option<Vec<u8>> {
        self.core().and_then(|core| describe(&core, tid))
    }

    fn committed(&self, tid: Tid) {
        if let Some(core) = self.core() {
            core.release_freed(tid);
        }
    }

    fn home_flush_starts(&self) -> u64 {
        self.core().map_or(0, |core| core.pages.flushes.moment())
    }

    fn home_flushed(&self, started: u64) {
        if let Some(core) = self.core() {
            core.pages.flushes.note_flushed(started);
        }
    }

    fn aborted(&self, error: &jbd2::Error) {
        tracing::error!(%error, "the journal has aborted; the volume is read-only");
        if let Some(core) = self.core() {
            core.is_read_only.store(true, Ordering::Release);
        }
    }
}
