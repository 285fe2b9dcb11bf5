//! Files that bypass the kernel's cache, with the setting `is_direct_parallel`.
//!
//! The kernel passes on the direct writes to a file one after the other, unless the open file
//! bypasses its cache (`FOPEN_DIRECT_IO`): then those within the file run side by side. Appends and
//! writes beyond the end stay alone, and so do all writes while the file is mapped.
//!
//! # Rules
//!
//! - Either all open files of an inode bypass the cache, or none does. With both kinds, the end of
//!   the file known here could be behind the kernel's, so that a read past the cache would end too
//!   early; and a page that is read into the cache during a direct write could keep the old
//!   contents. The first open file decides for those that are opened while it, or one of them, is
//!   open: they bypass the cache if it was opened with O_DIRECT.
//! - A file that has to be [written through](Opened::writes_through) bypasses the cache in any
//!   case.
//! - Only files opened with O_DIRECT are written side by side: other writes to one file stay whole.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use layout::InodeNr;

use crate::requests::{Handle, Opened};

/// The way of an open file's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Through the kernel's cache.
    Cached,
    /// Past the cache, one write after the other.
    Through,
    /// Past the cache, several writes at once.
    Parallel,
}

/// The open files of all inodes.
#[derive(Debug, Default)]
pub(super) struct Uncached {
    is_wanted: bool,
    is_on: AtomicBool,
    inodes: Mutex<BTreeMap<InodeNr, OpenFiles>>,
}

/// The open files of an inode.
#[derive(Debug)]
struct OpenFiles {
    bypass: bool,
    handles: Vec<Handle>,
}

impl Uncached {
    /// No file bypasses the cache yet.
    pub(super) fn new(is_wanted: bool) -> Self {
        Self {
            is_wanted,
            ..Self::default()
        }
    }

    /// Lets files bypass the cache from now on, if that is wanted and the kernel can map them.
    pub(super) fn begin(&self, can_map: bool) {
        if self.is_wanted && !can_map {
            tracing::warn!("this kernel passes direct writes on one after the other");
        }
        self.is_on
            .store(self.is_wanted && can_map, Ordering::Relaxed);
    }

    /// Adds an open file, and returns its way. `is_direct` is true for O_DIRECT.
    pub(super) fn add(&self, node: InodeNr, opened: Opened, is_direct: bool) -> Way {
        let is_on = self.is_on.load(Ordering::Relaxed);
        let bypass = is_on && self.insert(node, opened, is_direct);
        match bypass {
            true if is_direct => Way::Parallel,
            false if !opened.writes_through => Way::Cached,
            _ => Way::Through,
        }
    }

    /// Adds an open file. Returns true if all those of its inode bypass the cache.
    fn insert(&self, node: InodeNr, opened: Opened, is_direct: bool) -> bool {
        let mut inodes = self.lock();
        let files = inodes.entry(node).or_insert_with(|| OpenFiles {
            bypass: is_direct || opened.writes_through,
            handles: Vec::new(),
        });
        files.handles.push(opened.handle);
        files.bypass
    }

    /// Removes an open file.
    pub(super) fn remove(&self, node: InodeNr, handle: Handle) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let mut inodes = self.lock();
        if let Some(files) = inodes.get_mut(&node) {
            files.handles.retain(|other| *other != handle);
            if files.handles.is_empty() {
                inodes.remove(&node);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<InodeNr, OpenFiles>> {
        self.inodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: InodeNr = InodeNr::ROOT;

    fn opened(handle: u64, writes_through: bool) -> Opened {
        Opened {
            handle: Handle(handle),
            writes_through,
        }
    }

    #[test]
    fn the_first_open_file_of_an_inode_decides() {
        let files = Uncached::new(true);
        files.begin(true);
        for (first, through, way, direct, other) in [
            (true, false, Way::Parallel, Way::Parallel, Way::Through),
            (true, true, Way::Parallel, Way::Parallel, Way::Through),
            (false, true, Way::Through, Way::Parallel, Way::Through),
            (false, false, Way::Cached, Way::Cached, Way::Cached),
        ] {
            assert_eq!(files.add(NODE, opened(1, through), first), way);
            assert_eq!(files.add(NODE, opened(2, false), true), direct);
            files.remove(NODE, Handle(1));
            assert_eq!(files.add(NODE, opened(3, false), false), other);
            assert_eq!(files.add(NODE, opened(4, true), false), Way::Through);
            for handle in 2..=4 {
                files.remove(NODE, Handle(handle));
            }
            assert!(files.lock().is_empty());
        }
    }

    #[test]
    fn only_files_that_are_written_through_bypass_the_cache_if_it_is_off() {
        let files = Uncached::new(true);
        files.begin(false);
        assert_eq!(files.add(NODE, opened(1, false), true), Way::Cached);
        assert_eq!(files.add(NODE, opened(2, true), true), Way::Through);
        files.remove(NODE, Handle(1));
        assert!(files.lock().is_empty());
    }
}
