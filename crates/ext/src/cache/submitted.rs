//! Writes of pages in flight that any thread may wait for.
//!
//! Normally the thread that takes pages waits for their writes. With `writers=submit` nothing waits
//! for some of them, and a thread that needs the pages of a file waits for the writes of that file
//! only, and records their results.

use std::sync::Arc;

use block::DeviceError;
use rt::Mutex;

use super::inode::Inode;

/// A write in flight. `P` is the state in which its results are recorded.
pub(crate) trait SubmittedWrite<P>: Send + Sync {
    /// Returns true if it has a batch of the inode's pages with a number below a limit.
    fn has_batch_of(&self, inode: &Arc<Inode>, limit: u64) -> bool;

    /// Returns true if `complete` would not wait.
    fn is_ready(&self) -> bool;

    /// Waits for the write. Records its results, unless another thread does. Returns its first
    /// error.
    fn complete(&self, pages: &P) -> Result<(), DeviceError>;
}

/// The writes in flight, oldest first.
pub(crate) struct SubmittedWrites<P> {
    underway: Mutex<Vec<Arc<dyn SubmittedWrite<P>>>>, // a leaf
}

impl<P> Default for SubmittedWrites<P> {
    fn default() -> Self {
        Self {
            underway: Mutex::default(),
        }
    }
}

impl<P> SubmittedWrites<P> {
    pub(crate) fn add(&self, write: Arc<dyn SubmittedWrite<P>>) {
        self.underway.lock().push(write);
    }

    /// Removes the writes for which `is_over` returns true.
    pub(crate) fn remove(&self, is_over: impl Fn(&Arc<dyn SubmittedWrite<P>>) -> bool) {
        self.underway.lock().retain(|write| !is_over(write));
    }

    /// Returns the oldest write.
    pub(crate) fn oldest(&self) -> Option<Arc<dyn SubmittedWrite<P>>> {
        self.underway.lock().first().map(Arc::clone)
    }

    /// Returns the oldest write with a batch of an inode's pages whose number is below a limit.
    pub(crate) fn of(&self, inode: &Arc<Inode>, limit: u64) -> Option<Arc<dyn SubmittedWrite<P>>> {
        let underway = self.underway.lock();
        let mut of_inode = underway.iter();
        of_inode
            .find(|write| write.has_batch_of(inode, limit))
            .cloned()
    }

    /// Returns the writes that have completed.
    pub(crate) fn ready(&self) -> Vec<Arc<dyn SubmittedWrite<P>>> {
        let underway = self.underway.lock();
        let ready = underway.iter().filter(|write| write.is_ready());
        ready.map(Arc::clone).collect()
    }
}
