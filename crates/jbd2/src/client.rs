//! The interface of the file system that its journal calls.

use std::sync::Arc;

use block::DeviceError;
use layout::{Block, BlockNr, Tid};
use rt::Nanos;

use crate::buffer::Label;
use crate::error::Error;

/// The file system, as the committer sees it.
///
/// The calls come from the committing thread: a daemon of the journal, or a thread that waits for a
/// commit. None of them may start a handle, or take a lock under which handles are started.
pub trait Client: Send + Sync {
    /// The transaction is closed (no handle is open, none may start): note what belongs to it.
    /// Memory work only.
    fn commit_begins(&self, tid: Tid);

    /// Completes the image of a buffer right before the transaction freezes it, under the buffer's
    /// lock. Memory work only; a client that does not change the image does not copy it.
    fn seal(&self, _label: Label, _block: BlockNr, _image: &mut Arc<Block>) {}

    /// Writes the ordered data of a transaction to the home device and waits. Returns whether any
    /// data write has completed on the home device since its last flush, so that a flush is needed
    /// before the commit record.
    ///
    /// # Errors
    /// An error aborts the journal.
    fn write_ordered_data(&self, tid: Tid) -> Result<bool, DeviceError>;

    /// The commit record is durable, and nothing will write the blocks that the transaction freed
    /// any more: they may be released.
    fn committed(&self, tid: Tid);

    /// A flush of the home device that the journal did has completed. It covers all writes that had
    /// completed before `submitted`.
    fn home_flushed(&self, submitted: Nanos);

    /// Reports that the journal has aborted, permanently. Called before any other thread learns of
    /// it, and under a lock: it must not wait, nor call the journal.
    fn aborted(&self, error: &Error);
}
