//! Changes of an extent tree, as functions over the nodes of one path.
//!
//! A change replaces entries of a leaf. What follows from that is computed here, without access to
//! a device, and all at once: the nodes to write, the nodes to free, and the number of new nodes.
//! So a caller can do all that may fail before it writes the first node.
//!
//! # Rules
//!
//! - A node that overflows is split. If entries were added at its end it stays full, so that a file
//!   that is appended to has full nodes; otherwise it is halved.
//! - A root that overflows moves its entries to a new node, and the tree gets a level more.
//! - A node that loses its last entry is freed. The first block of an index entry is always that of
//!   the node below it.
//! - Extents are merged with neighbours in the same leaf only.

use core::ops::Range;

use layout::BlockNr;
use layout::extent::{DEPTH_MAX, count_max};

/// An extent of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// The first block within the file.
    pub(super) file_block: u64,
    /// The first block on the device.
    pub(super) first: BlockNr,
    /// Number of blocks.
    pub(super) count: u32,
    /// True if the blocks read as zeroes.
    pub(super) is_unwritten: bool,
}

impl Piece {
    /// Returns the file block after the last.
    pub(super) fn end(self) -> u64 {
        self.file_block + u64::from(self.count)
    }

    /// Returns the part within a range of file blocks.
    pub(super) fn part(self, blocks: Range<u64>) -> Option<Self> {
        let from = blocks.start.max(self.file_block);
        let to = blocks.end.min(self.end());
        (from < to).then(|| Self {
            file_block: from,
            first: self.first + (from - self.file_block),
            count: (to - from) as u32,
            ..self
        })
    }

    /// Returns the extent that both are together, if they are one.
    fn joined(self, next: Self) -> Option<Self> {
        let is_next = self.end() == next.file_block
            && self.first + u64::from(self.count) == next.first
            && (self.is_unwritten == next.is_unwritten
                || rt::mutant!("unwritten/joined-with-data"));
        let count = self.count + next.count;
        (is_next && count <= count_max(self.is_unwritten)).then_some(Self { count, ..self })
    }
}

/// The place of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The inode.
    Root,
    /// A block of the device.
    Block(BlockNr),
    /// The block allocated for the new node of this number.
    New(usize),
}

/// An entry of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// Of a leaf.
    Extent(Piece),
    /// Of a node above others.
    Child { file_block: u64, place: Place },
}

impl Entry {
    /// Returns the first file block below the entry.
    pub(super) fn file_block(self) -> u64 {
        match self {
            Self::Extent(piece) => piece.file_block,
            Self::Child { file_block, .. } => file_block,
        }
    }
}

/// The contents of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    /// Number of levels below the node.
    pub(super) depth: u16,
    /// Largest number of entries.
    pub(super) capacity: usize,
    /// The entries, ascending.
    pub(super) entries: Vec<Entry>,
}

impl Node {
    fn first(&self) -> Option<u64> {
        self.entries.first().map(|entry| entry.file_block())
    }

    /// Returns the number of entries that start at a file block or before it.
    pub(super) fn count_to(&self, file_block: u64) -> usize {
        self.entries
            .partition_point(|entry| entry.file_block() <= file_block)
    }

    /// Returns the extents of a leaf.
    pub(super) fn pieces(&self) -> impl DoubleEndedIterator<Item = Piece> + '_ {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Extent(piece) => Some(*piece),
            Entry::Child { .. } => None,
        })
    }

    /// Takes the entries that do not fit. `at_end` is true if entries were added at the end.
    fn split(&mut self, at_end: bool, capacity: usize) -> Option<Self> {
        let count = self.entries.len();
        if count <= self.capacity {
            return None;
        }
        let kept = match at_end {
            true => self.capacity,
            false => self.capacity.min(count / 2),
        };
        Some(Self {
            depth: self.depth,
            capacity,
            entries: self.entries.split_off(kept),
        })
    }
}

/// A node of a path.
#[derive(Debug, Clone)]
pub(super) struct Level {
    pub(super) place: Place,
    pub(super) node: Node,
    /// Index of the entry to the next level; 0 in a leaf.
    pub(super) at: usize,
    is_changed: bool,
}

impl Level {
    pub(super) fn new(place: Place, node: Node, at: usize) -> Self {
        Self {
            place,
            node,
            at,
            is_changed: false,
        }
    }
}

/// A path from the root to a leaf.
#[derive(Debug, Clone)]
pub(super) struct Path {
    levels: Vec<Level>,
    /// Capacity of new nodes.
    capacity: usize,
}

/// The consequences of a change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// The nodes to write, new ones included.
    pub(super) writes: Vec<(Place, Node)>,
    /// The nodes that are not part of the tree any more.
    pub(super) freed: Vec<BlockNr>,
    /// Number of new nodes.
    pub(super) new_count: usize,
}

impl Change {
    fn add(&mut self, node: Node) -> Entry {
        let place = Place::New(self.new_count);
        self.new_count += 1;
        let file_block = node.first().expect("a new node has entries");
        self.writes.push((place, node));
        Entry::Child { file_block, place }
    }
}

impl Path {
    /// Creates a path. The first level is the root, and the last one a leaf.
    pub(super) fn new(levels: Vec<Level>, capacity: usize) -> Self {
        assert!(
            levels
                .first()
                .is_some_and(|level| level.place == Place::Root)
        );
        assert!(levels.last().is_some_and(|level| level.node.depth == 0));
        Self { levels, capacity }
    }

    /// Returns the leaf.
    pub(super) fn leaf(&self) -> &Node {
        &self.levels.last().expect("there is a root").node
    }

    /// Returns the place of the leaf.
    pub(super) fn leaf_place(&self) -> Place {
        self.levels.last().expect("there is a root").place
    }

    /// Returns the first file block of the next leaf, if there is one.
    pub(super) fn next_leaf(&self) -> Option<u64> {
        let above = self.levels[..self.levels.len() - 1].iter().rev();
        let mut next = above.filter_map(|level| level.node.entries.get(level.at + 1));
        next.next().map(|entry| entry.file_block())
    }

    /// Returns true if the path leads to the first leaf.
    pub(super) fn is_first(&self) -> bool {
        let above = &self.levels[..self.levels.len() - 1];
        above.iter().all(|level| level.at == 0)
    }

    /// Returns the blocks of the nodes on the path.
    pub(super) fn blocks(&self) -> impl Iterator<Item = BlockNr> + '_ {
        self.levels.iter().filter_map(|level| match level.place {
            Place::Block(block) => Some(block),
            Place::Root | Place::New(_) => None,
        })
    }

    /// Replaces the extents of a range of file blocks in the leaf by `new`, or by a hole. The
    /// range lies within the part of the file that the leaf covers. Returns none if the tree would
    /// be too deep.
    pub(super) fn rewrite(&self, blocks: Range<u64>, new: Option<Piece>) -> Option<Change> {
        let old: Vec<Piece> = self.leaf().pieces().collect();
        let (range, pieces) = rewritten(&old, blocks, new);
        let entries = pieces.into_iter().map(Entry::Extent).collect();
        self.clone().splice(range, entries, new.is_none())
    }

    /// Replaces the extents of the leaf from an index on. Returns none if the tree would be too
    /// deep.
    pub(super) fn replace_from(&self, index: usize, new: Option<Piece>) -> Option<Change> {
        let range = index..self.leaf().entries.len();
        let entries = new.into_iter().map(Entry::Extent).collect();
        self.clone().splice(range, entries, true)
    }

    /// Moves the extents of the leaf within the file: what lies at file block `from` or behind it,
    /// so that `from` becomes `to`. An extent over `from` is cut there. Moved towards the start,
    /// the first extent is merged with the one before it. Returns none if the tree would be too
    /// deep, and an empty change if the leaf has nothing to move.
    ///
    /// The file blocks between `from` and `to` are a hole.
    pub(super) fn shifted(&self, from: u64, to: u64) -> Option<Change> {
        let old: Vec<Piece> = self.leaf().pieces().collect();
        let start = old.partition_point(|piece| piece.end() <= from);
        let is_cut_only = from == to && old.get(start).is_none_or(|next| next.file_block >= from);
        if start == old.len() || is_cut_only {
            return Some(Change::default());
        }
        let is_towards_start = to < from;
        let low = match is_towards_start {
            true => start.saturating_sub(1),
            false => start,
        };
        let mut pieces: Vec<Piece> = old[low..start].to_vec();
        for piece in &old[start..] {
            pieces.extend(piece.part(0..from));
            let moved = piece.part(from..u64::MAX).map(|part| Piece {
                file_block: part.file_block - from + to,
                ..part
            });
            let moved = moved.expect("it ends behind the block");
            let last = pieces.last().filter(|_| is_towards_start);
            match last.and_then(|last| last.joined(moved)) {
                Some(joined) => *pieces.last_mut().expect("there is a last one") = joined,
                None => pieces.push(moved),
            }
        }
        let entries = pieces.into_iter().map(Entry::Extent).collect();
        self.clone()
            .splice(low..old.len(), entries, is_towards_start)
    }

    /// Returns the change that makes the tree less deep, if the path shows that it can be.
    pub(super) fn shortened(&self) -> Option<Change> {
        let mut path = self.clone();
        let mut change = Change::default();
        path.collapse(&mut change);
        if change.freed.is_empty() {
            return None;
        }
        path.finish(&mut change);
        Some(change)
    }

    /// Replaces entries of the leaf, and then what follows from that in the nodes above.
    fn splice(
        mut self,
        mut range: Range<usize>,
        mut entries: Vec<Entry>,
        collapses: bool,
    ) -> Option<Change> {
        let mut change = Change::default();
        for index in (0..self.levels.len()).rev() {
            let level = &mut self.levels[index];
            let at_end = range.end == level.node.entries.len();
            let first = level.node.first();
            level.node.entries.splice(range, entries);
            level.is_changed = true;
            if index == 0 {
                self.settle_root(&mut change, at_end)?;
                break;
            }
            let at = self.levels[index - 1].at;
            range = at..at + 1;
            let level = &mut self.levels[index];
            let Some(new_first) = level.node.first() else {
                let Place::Block(block) = level.place else {
                    unreachable!("a node below the root has a block");
                };
                if !rt::mutant!("extents/empty-node-kept") {
                    change.freed.push(block);
                }
                self.levels.truncate(index);
                entries = Vec::new();
                continue;
            };
            let stays_whole = level.node.depth > 0 && rt::mutant!("extents/full-index-kept");
            let rest = match stays_whole {
                true => None,
                false => level.node.split(at_end, self.capacity),
            };
            let is_first_kept = first == Some(new_first);
            if rest.is_none() && (is_first_kept || rt::mutant!("extents/first-block-not-raised")) {
                break;
            }
            entries = vec![Entry::Child {
                file_block: new_first,
                place: level.place,
            }];
            let rest = rest.map(|rest| change.add(rest));
            entries.extend(rest.filter(|_| !rt::mutant!("extents/split-half-not-linked")));
        }
        if collapses && change.new_count == 0 {
            self.collapse(&mut change);
        }
        self.finish(&mut change);
        Some(change)
    }

    /// Gives the tree a level more if the root overflows, and none below an empty root.
    fn settle_root(&mut self, change: &mut Change, at_end: bool) -> Option<()> {
        let root = &mut self.levels[0].node;
        if root.entries.is_empty() {
            root.depth = 0;
        }
        if root.entries.len() <= root.capacity {
            return Some(());
        }
        if root.depth == DEPTH_MAX {
            return None;
        }
        let mut below = Node {
            depth: root.depth,
            capacity: self.capacity,
            entries: core::mem::take(&mut root.entries),
        };
        if !rt::mutant!("extents/full-root-keeps-depth") {
            root.depth += 1;
        }
        let rest = below.split(at_end, self.capacity);
        root.entries.push(change.add(below));
        root.entries.extend(rest.map(|rest| change.add(rest)));
        Some(())
    }

    /// Moves the entries of the root's only child into the root, as long as they fit.
    fn collapse(&mut self, change: &mut Change) {
        while let [root, child, ..] = &mut self.levels[..]
            && root.node.entries.len() == 1
            && child.node.entries.len() <= root.node.capacity
            && let Place::Block(block) = child.place
        {
            root.node.depth = child.node.depth;
            root.node.entries = core::mem::take(&mut child.node.entries);
            root.at = child.at;
            root.is_changed = true;
            if !rt::mutant!("extents/root-node-kept") {
                change.freed.push(block);
            }
            self.levels.remove(1);
        }
    }

    fn finish(self, change: &mut Change) {
        let changed = self.levels.into_iter().filter(|level| level.is_changed);
        change
            .writes
            .extend(changed.map(|level| (level.place, level.node)));
    }
}

/// Returns the extents that replace a range of a leaf's extents: those that overlap with `blocks`,
/// which are replaced by `new` there, and the neighbours, which may be merged with it.
fn rewritten(old: &[Piece], blocks: Range<u64>, new: Option<Piece>) -> (Range<usize>, Vec<Piece>) {
    let start = old.partition_point(|piece| piece.end() <= blocks.start);
    let end = old.partition_point(|piece| piece.file_block < blocks.end);
    let low = start.saturating_sub(1);
    let mut high = (end + 1).min(old.len());
    let overlapping = &old[start..end];
    let head = overlapping.first();
    let head = head.and_then(|piece| piece.part(0..blocks.start));
    let tail = overlapping.last();
    let tail = tail.and_then(|piece| piece.part(blocks.end..u64::MAX));
    let mut pieces: Vec<Piece> = Vec::with_capacity(5);
    let parts = old[low..start].iter().copied();
    let parts = parts.chain(head).chain(new).chain(tail);
    for piece in parts.chain(old[end..high].iter().copied()) {
        match pieces.last().and_then(|last| last.joined(piece)) {
            Some(joined) => *pieces.last_mut().expect("there is a last one") = joined,
            None => pieces.push(piece),
        }
    }
    // An unchanged neighbour behind would hide that the change is at the end.
    if high > end && pieces.last() == old.get(end) {
        pieces.pop();
        high = end;
    }
    (low..high, pieces)
}

#[cfg(test)]
mod tests;
