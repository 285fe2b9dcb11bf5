//! An inode in memory: its decoded state under one lock, its pages, and cached facts.

use layout::{Block, BlockNr, InodeNr};
use rt::atomic::{AtomicU64, Ordering};
use rt::{Mutex, RwLock};

use super::file_pages::FilePages;
use super::kept_nodes::KeptNode;
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
    /// True if the times have been read since a direct write has changed them. It is accessed
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
#[derive(Default)]
pub(crate) struct MapCache {
    /// The places that were found last.
    pub(crate) found: Found,
    /// The goal for the block after the last allocated one: its number in the file, and the goal.
    pub(crate) next: Option<(u64, BlockNr)>,
}

/// Places in a block map that were found last.
#[derive(Default)]
pub(crate) enum Found {
    #[default]
    None,
    /// The first file block that the last used indirect block maps, and that block.
    Leaf(u64, BlockNr),
    /// Nodes of a directory's extent tree, checked against their parents.
    // Invariant: each has the entries of its buffer, because every change of the tree drops them.
    Nodes(Vec<KeptNode>),
}

/// Largest number of nodes that an inode keeps: those below the root of a tree.
const NODES_MAX: usize = layout::extent::ROOT_ENTRIES_MAX as usize;

impl MapCache {
    /// Returns the indirect block that was used last, after the first file block that it maps.
    pub(crate) fn leaf(&self) -> Option<(u64, BlockNr)> {
        match self.found {
            Found::Leaf(first, block) => Some((first, block)),
            _ => None,
        }
    }

    /// Returns the image of a node that was found, if no buffer was removed since then.
    pub(crate) fn node(&self, block: BlockNr, removals: u64) -> Option<&Block> {
        let Found::Nodes(nodes) = &self.found else {
            return None;
        };
        let is_current = |node: &&KeptNode| node.block == block && node.removals == removals;
        nodes.iter().find(is_current).map(|node| &*node.image)
    }

    /// Keeps a node, instead of the others if they are too many.
    pub(crate) fn keep(&mut self, node: KeptNode) {
        let mut nodes = match core::mem::take(&mut self.found) {
            Found::Nodes(nodes) => nodes,
            _ => Vec::new(),
        };
        nodes.retain(|other| other.block != node.block);
        if nodes.len() == NODES_MAX {
            nodes.clear();
        }
        nodes.push(node);
        self.found = Found::Nodes(nodes);
    }
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

    /// Notes that the times are read, or set, under the inode lock.
    pub(crate) fn note_times_seen(&self) {
        if !self.times_seen.load(Ordering::Relaxed) {
            self.times_seen.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that a direct write has changed the times, under the exclusive inode lock.
    pub(crate) fn note_times_changed(&self) {
        self.times_seen.store(false, Ordering::Relaxed);
    }

    /// Returns true if the times have not been read since a direct write has changed them.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::kept_nodes::KeptNodes;

    fn node(block: u64, removals: u64) -> KeptNode {
        let image = Block::zeroed(1024).into_arc();
        let kept = KeptNodes::default().keep(BlockNr::new(block), image, removals);
        kept.expect("there are few")
    }

    #[test]
    fn nodes_are_kept_until_a_buffer_is_removed() {
        let mut map = MapCache::default();
        map.keep(node(7, 1));
        map.keep(node(8, 2));
        let is_found = |map: &MapCache, block, at| map.node(BlockNr::new(block), at).is_some();
        assert!(is_found(&map, 7, 1) && is_found(&map, 8, 2));
        assert!(!is_found(&map, 7, 2) && !is_found(&map, 9, 1));
        map.keep(node(7, 2));
        assert!(is_found(&map, 7, 2) && !is_found(&map, 7, 1));
        map.found = Found::Leaf(12, BlockNr::new(7));
        assert!(!is_found(&map, 7, 2));
        assert_eq!(map.leaf(), Some((12, BlockNr::new(7))));
    }

    #[test]
    fn few_nodes_are_kept() {
        let mut map = MapCache::default();
        for block in 0..100 {
            map.keep(node(block, 0));
            let Found::Nodes(nodes) = &map.found else {
                panic!("nodes were kept");
            };
            assert!(nodes.len() <= NODES_MAX);
        }
        assert!(map.node(BlockNr::new(99), 0).is_some());
    }
}
