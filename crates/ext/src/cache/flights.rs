//! Writes of pages in flight that any thread may wait for.
//!
//! Normally the thread that takes pages waits for their writes. With `writers=submit` nothing waits
//! for some of them, and a thread that needs the pages of a file waits for the writes of that file
//! only, and records their results.

use std::sync::Arc;

use rt::Mutex;

use super::inode::Inode;

/// A write in flight. `P` is the state in which its results are recorded.
pub(crate) trait Flight<P>: Send + Sync {
    /// Returns true if pages of the inode are in it.
    fn is_of(&self, inode: &Arc<Inode>) -> bool;

    /// Returns true if `land` would not wait.
    fn is_ready(&self) -> bool;

    /// Waits for the write. Records its results, unless another thread does.
    fn land(&self, pages: &P);
}

/// The writes in flight, oldest first.
pub(crate) struct Flights<P> {
    underway: Mutex<Vec<Arc<dyn Flight<P>>>>, // a leaf
}

impl<P> Default for Flights<P> {
    fn default() -> Self {
        Self {
            underway: Mutex::default(),
        }
    }
}

impl<P> Flights<P> {
    pub(crate) fn add(&self, flight: Arc<dyn Flight<P>>) {
        self.underway.lock().push(flight);
    }

    /// Removes the flights for which `is_over` returns true.
    pub(crate) fn remove(&self, is_over: impl Fn(&Arc<dyn Flight<P>>) -> bool) {
        self.underway.lock().retain(|flight| !is_over(flight));
    }

    /// Returns the oldest flight.
    pub(crate) fn oldest(&self) -> Option<Arc<dyn Flight<P>>> {
        self.underway.lock().first().map(Arc::clone)
    }

    /// Returns the oldest flight with pages of an inode.
    pub(crate) fn of(&self, inode: &Arc<Inode>) -> Option<Arc<dyn Flight<P>>> {
        let underway = self.underway.lock();
        underway.iter().find(|flight| flight.is_of(inode)).cloned()
    }

    /// Returns the flights whose writes have completed.
    pub(crate) fn ready(&self) -> Vec<Arc<dyn Flight<P>>> {
        let underway = self.underway.lock();
        let ready = underway.iter().filter(|flight| flight.is_ready());
        ready.map(Arc::clone).collect()
    }
}
