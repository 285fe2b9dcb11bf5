//! A full volume stops a writer.
//!
//! The kernel takes what is written into its cache and asks nobody whether it fits. When it passes that on later and there is no space,
//! `fsync` and `close` learn of it, but `write` does not. So the file is marked then, and the kernel's attributes of it are made stale. Before
//! the next write it asks for them with the handle of the writer, which is answered with ENOSPC, once for each mark.
//!
//! Files that are opened for writing when little space is left are not cached at all: see [`crate::served`].

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use ext::volume::Attributes;
use fuser::{Errno, FileHandle};
use layout::InodeNr;

use super::guard::Failure;
use super::{Adapter, reserve};
use crate::vfs::Vfs;

/// Files with data that found no space.
#[derive(Default)]
pub(super) struct Full {
    nodes: Mutex<BTreeSet<InodeNr>>,
    /// The number of them.
    count: AtomicUsize,
}

impl Full {
    /// Marks a file.
    pub(super) fn mark(&self, node: InodeNr) {
        self.change(|nodes| nodes.insert(node));
    }

    /// Removes a file's mark. Returns true if there was one.
    pub(super) fn take(&self, node: InodeNr) -> bool {
        // Without any mark nothing is locked.
        self.count.load(Ordering::Acquire) > 0 && self.change(|nodes| nodes.remove(&node))
    }

    fn change(&self, change: impl FnOnce(&mut BTreeSet<InodeNr>) -> bool) -> bool {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_changed = change(&mut nodes);
        self.count.store(nodes.len(), Ordering::Release);
        is_changed
    }
}

impl<V: Vfs> Adapter<V> {
    /// The attributes of a node, or ENOSPC to a writer whose data found no space. Reading at the end of a file asks with a handle, too.
    pub(super) fn attributes(
        &self,
        node: InodeNr,
        handle: Option<FileHandle>,
    ) -> Result<Attributes, Failure> {
        let is_writer = |handle| self.vfs.is_writable(reserve::decode(handle));
        if handle.is_some_and(is_writer) && self.full.take(node) {
            return Err(Errno::ENOSPC.into());
        }
        Ok(self.vfs.attributes(node)?)
    }
}
