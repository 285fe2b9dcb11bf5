//! ENOSPC for writers to a full volume.
//!
//! The kernel accepts writes into its cache without checking for space. If a later write-back finds
//! none, `fsync` and `close` report it, but `write` does not. So the file is marked then, and the
//! kernel's cached attributes of it are invalidated. Before the next write the kernel requests them
//! with the handle of the writer; the answer is ENOSPC, once for each mark.
//!
//! Files opened for writing while little space is left are not cached at all: see
//! [`crate::served`].

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use ext::volume::Attributes;
use fuser::{Errno, FileHandle};
use layout::InodeNr;

use super::guard::Failure;
use super::{Adapter, reserve};

/// Files with cached data that found no space.
#[derive(Default)]
pub(super) struct Full {
    nodes: Mutex<BTreeSet<InodeNr>>,
    /// Number of such files.
    count: AtomicUsize,
}

impl Full {
    /// Marks a file.
    pub(super) fn mark(&self, node: InodeNr) {
        self.change(|nodes| nodes.insert(node));
    }

    /// Removes a file's mark. Returns true if there was one.
    pub(super) fn take(&self, node: InodeNr) -> bool {
        // Without any mark no lock is taken.
        self.count.load(Ordering::Acquire) > 0 && self.change(|nodes| nodes.remove(&node))
    }

    fn change(&self, change: impl FnOnce(&mut BTreeSet<InodeNr>) -> bool) -> bool {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_changed = change(&mut nodes);
        self.count.store(nodes.len(), Ordering::Release);
        is_changed
    }
}

impl Adapter {
    /// Returns the attributes of a node, or ENOSPC to a writer whose data found no space. A read at
    /// the end of a file passes a handle too.
    pub(super) fn attributes(
        &self,
        node: InodeNr,
        handle: Option<FileHandle>,
    ) -> Result<Attributes, Failure> {
        let is_writer = |handle| self.fs.is_writable(reserve::decode(handle));
        if handle.is_some_and(is_writer) && self.full.take(node) {
            return Err(Errno::ENOSPC.into());
        }
        Ok(self.fs.attributes(node)?)
    }
}
