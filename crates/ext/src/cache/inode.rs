//! An inode in memory: its decoded state under one lock, its pages, and cached facts.

use layout::{BlockNr, InodeNr};
use rt::atomic::{AtomicU64, Ordering};
use rt::{Mutex, RwLock};

use super::file_pages::FilePages;

use super::names_index::NamesIndex;
use super::space::Window;
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;

/// An inode in memory.
pub(crate) struct Inode {
    /// Its number.
    pub(crate) nr: InodeNr,
    /// Its kind, which never changes, so that the lock order can depend on it ([`crate::namei`]).
    pub(crate) kind: FileKind,
    /// The decoded inode. Readers of contents hold it shared, writers exclusively. // [inode]
    pub(crate) state: RwLock<InodeState>,
    /// The pages of a regular file. // [folio] leaf
    pub(crate) pages: FilePages,
    /// The reservation window. // leaf
    pub(crate) window: Mutex<Window>,
    /// Result of the last look-up in the block map. // leaf
    pub(crate) map: Mutex<MapCache>,
    /// The largest end of a write since the start of the last allocation that may grow the file;
    /// changes under the inode lock.
    pub(crate) written_end: AtomicU64,
    /// True if somebody has seen the times since a direct write has changed them. It is accessed
    /// under the inode lock, so that its accesses are not scheduling points.
    times_seen: core::sync::atomic::AtomicBool,
    /// Number of pins: open files, and look-ups that have not been forgotten.
    pub(crate) pins: AtomicU64,
    /// Names of a linear directory in memory. // leaf
    pub(crate) names_index: Mutex<NamesIndex>,
}

/// Returns the rank of an inode's lock in the order that [`crate::namei`] describes: directories
/// first, ordered among themselves by the tree, then all others by number.
fn rank(kind: FileKind, nr: InodeNr) -> u64 {
    if kind == FileKind::Directory {
        1
    } else {
        2 + u64::from(nr.get())
    }
}

/// Cached facts of an inode's block map.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MapCache {
    /// The first file block that the last used leaf maps, and the leaf.
    pub(crate) leaf: Option<(u64, BlockNr)>,
    /// The goal for the block after the last allocated one: its number in the file, and the goal.
    pub(crate) next: Option<(u64, BlockNr)>,
}

impl Inode {
    /// Returns the name of the inode's cached contents from an offset on, for [`rt::charge`].
    pub(crate) fn memory(&self, state: &InodeState, offset: u64) -> rt::Memory {
        rt::Memory {
            owner: u64::from(state.generation) << 32 | u64::from(self.nr.get()),
            offset,
        }
    }

    /// Notes the end of a write, under the inode lock.
    pub(crate) fn note_written(&self, end: u64) {
        if end > self.written_end.load(Ordering::Relaxed) {
            self.written_end.fetch_max(end, Ordering::Relaxed);
        }
    }

    /// Notes that somebody sees the times, under the inode lock.
    pub(crate) fn note_times_seen(&self) {
        if !self.times_seen.load(Ordering::Relaxed) {
            self.times_seen.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that a direct write has changed the times, under the exclusive inode lock.
    pub(crate) fn note_times_changed(&self) {
        self.times_seen.store(false, Ordering::Relaxed);
    }

    /// Returns true if nobody has seen the times since a direct write has changed them.
    pub(crate) fn are_times_unseen(&self) -> bool {
        !self.times_seen.load(Ordering::Relaxed)
    }

    /// Creates an inode that is not yet stored.
    pub(crate) fn new(nr: InodeNr, state: InodeState) -> Self {
        let kind = state.kind;
        let state = RwLock::new(state);
        rt::sync::set_rank(&state, rank(kind, nr));
        Self {
            nr,
            kind,
            state,
            pages: FilePages::new(nr),
            window: Mutex::new(Window::default()),
            map: Mutex::new(MapCache::default()),
            written_end: AtomicU64::new(0),
            times_seen: core::sync::atomic::AtomicBool::new(true),
            pins: AtomicU64::new(0),
            names_index: Mutex::default(),
        }
    }
}
