//! The interface of the file system that its journal calls.

use std::sync::Arc;

use block::DeviceError;
use layout::{Block, BlockNr, Tid};

use crate::buffer::Label;
use crate::error::Error;

/// The file system, as the committer sees it.
///
/// The calls come from the committing thread: a daemon of the journal, or a thread that waits for a
/// commit. They must not start a handle, or take a lock under which handles are started.
pub trait Client: Send + Sync {
    /// Notes the contents of a closed transaction: no handle is open, and none may start. Memory
    /// work only.
    fn commit_begins(&self, tid: Tid);

    /// Completes the image of a buffer right before the transaction freezes it, under the buffer's
    /// lock. Memory work only; a client that does not change the image does not copy it.
    fn seal(&self, _label: Label, _block: BlockNr, _image: &mut Arc<Block>) {}

    /// Writes the ordered data of a transaction to the file-system device and waits. Returns true
    /// if any data write has completed on the device since its last flush, so that a flush is
    /// needed before the commit block.
    ///
    /// # Errors
    /// An error aborts the journal.
    fn write_ordered_data(&self, tid: Tid) -> Result<bool, DeviceError>;

    /// Writes the ordered data that the running transaction has so far, and waits. Returns true as
    /// [`write_ordered_data`](Self::write_ordered_data) does.
    ///
    /// # Errors
    /// After an error the transaction is committed as a whole.
    fn write_data_so_far(&self, _tid: Tid) -> Result<bool, DeviceError> {
        Ok(true)
    }

    /// Returns the changes of the running transaction since its last fast commit, as tags, or none
    /// if tags cannot describe them. No handle is open, and none starts meanwhile.
    fn collect_changes(&self, _tid: Tid) -> Option<Vec<u8>> {
        None
    }

    /// Releases the blocks that a transaction freed: its commit block is durable, and nothing will
    /// write these blocks any more.
    fn committed(&self, tid: Tid);

    /// Returns a number for the moment at which a flush of the file-system device starts.
    fn home_flush_starts(&self) -> u64 {
        0
    }

    /// Notes that the journal has flushed the file-system device. The flush covers all writes that
    /// had completed before [`home_flush_starts`](Self::home_flush_starts) returned `started`.
    fn home_flushed(&self, started: u64);

    /// Reports that the journal has aborted, permanently. Called before any other thread is
    /// notified, and under a lock: it must neither wait nor call the journal.
    fn aborted(&self, error: &Error);
}
