//! The tree against a model, with nodes so small that it gets as deep as it can be.

mod shifted;

use std::collections::BTreeMap;

use testkit::Random;

use super::*;
use crate::file::testing::assert_notices;

/// A tree in memory.
struct Tree {
    root: Node,
    nodes: BTreeMap<BlockNr, Node>,
    capacity: usize,
    next: u64,
}

impl Tree {
    fn new(root: usize, capacity: usize) -> Self {
        Self {
            root: Node {
                depth: 0,
                capacity: root,
                entries: Vec::new(),
            },
            nodes: BTreeMap::new(),
            capacity,
            next: 1 << 40,
        }
    }

    fn path(&self, towards: u64) -> Path {
        let mut levels = Vec::new();
        let (mut place, mut node) = (Place::Root, &self.root);
        loop {
            let at = match node.depth {
                0 => 0,
                _ => node.count_to(towards).max(1) - 1,
            };
            levels.push(Level::new(place, node.clone(), at));
            if node.depth == 0 {
                return Path::new(levels, self.capacity);
            }
            let Entry::Child {
                place: Place::Block(block),
                ..
            } = node.entries[at]
            else {
                panic!("an index entry leads to a block");
            };
            (place, node) = (Place::Block(block), &self.nodes[&block]);
        }
    }

    fn apply(&mut self, change: Change) {
        let first = self.next;
        self.next += change.new_count as u64;
        let block_of = |place| match place {
            Place::New(number) => Place::Block(BlockNr::new(first + number as u64)),
            place => place,
        };
        for (place, mut node) in change.writes {
            for entry in &mut node.entries {
                if let Entry::Child { place, .. } = entry {
                    *place = block_of(*place);
                }
            }
            match block_of(place) {
                Place::Root => self.root = node,
                Place::Block(block) => drop(self.nodes.insert(block, node)),
                Place::New(_) => unreachable!(),
            }
        }
        for block in change.freed {
            assert!(self.nodes.remove(&block).is_some(), "{block} is a node");
        }
    }

    /// Returns all extents after checking every rule of the tree.
    fn check(&self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut nodes = 0;
        self.check_node(&self.root, &mut pieces, &mut nodes);
        assert_eq!(nodes, self.nodes.len(), "every node is part of the tree");
        assert!(self.root.depth <= DEPTH_MAX);
        pieces
    }

    fn check_node(&self, node: &Node, pieces: &mut Vec<Piece>, nodes: &mut usize) {
        assert!(node.entries.len() <= node.capacity, "a node overflows");
        for entry in &node.entries {
            match *entry {
                Entry::Extent(piece) => {
                    assert_eq!(node.depth, 0);
                    assert!((1..=count_max(piece.is_unwritten)).contains(&piece.count));
                    let is_behind = |last: &Piece| last.end() <= piece.file_block;
                    assert!(pieces.last().is_none_or(is_behind), "extents overlap");
                    pieces.push(piece);
                }
                Entry::Child { file_block, place } => {
                    let Place::Block(block) = place else {
                        panic!("a child has a block");
                    };
                    let child = &self.nodes[&block];
                    assert_eq!(child.depth + 1, node.depth);
                    assert_eq!(
                        child.first(),
                        Some(file_block),
                        "the first block of an entry"
                    );
                    *nodes += 1;
                    self.check_node(child, pieces, nodes);
                }
            }
        }
    }

    /// Removes what lies behind a file block as a truncation does: from the end, leaf by leaf.
    fn cut(&mut self, from: u64) {
        loop {
            let path = self.path(u64::MAX);
            let pieces: Vec<Piece> = path.leaf().pieces().collect();
            let kept = pieces.partition_point(|piece| piece.end() <= from);
            if kept == pieces.len() {
                if let Some(change) = path.shortened() {
                    self.apply(change);
                }
                return;
            }
            let rest = pieces[kept].part(0..from);
            let change = path.replace_from(kept, rest).expect("nothing is added");
            assert_eq!(change.new_count, 0, "a truncation needs no node");
            self.apply(change);
        }
    }
}

fn piece(file_block: u64, first: u64, count: u32) -> Piece {
    Piece {
        file_block,
        first: BlockNr::new(first),
        count,
        is_unwritten: false,
    }
}

/// The blocks of the file: the block of the device, and true if it is unwritten.
type Model = BTreeMap<u64, (u64, bool)>;

fn blocks_of(pieces: &[Piece]) -> Model {
    let mut model = Model::new();
    for piece in pieces {
        for step in 0..u64::from(piece.count) {
            let block = piece.first.get() + step;
            model.insert(piece.file_block + step, (block, piece.is_unwritten));
        }
    }
    model
}

struct Run {
    tree: Tree,
    model: Model,
    random: Random,
    depth_max: u16,
}

impl Run {
    /// Returns the extent at a file block; none in a hole.
    fn found(&self, at: u64) -> Option<Piece> {
        let path = self.tree.path(at);
        let found = path
            .leaf()
            .pieces()
            .find_map(|piece| piece.part(at..at + 1));
        assert_eq!(found.is_some(), self.model.contains_key(&at));
        let leaf = path.leaf();
        leaf.pieces().find(|piece| piece.part(at..at + 1).is_some())
    }

    fn rewrite(&mut self, blocks: Range<u64>, new: Option<Piece>) {
        let path = self.tree.path(blocks.start);
        let Some(change) = path.rewrite(blocks.clone(), new) else {
            assert_eq!(self.tree.root.depth, DEPTH_MAX, "too deep");
            return;
        };
        // A new node has room for all entries of the root, unless nodes are as small as here.
        let depth = usize::from(self.tree.root.depth);
        let is_tiny = self.tree.capacity < self.tree.root.capacity + 2;
        let most = (depth + 1).min(DEPTH_MAX.into()) + usize::from(is_tiny);
        assert!(change.new_count <= most, "{depth}: {}", change.new_count);
        self.tree.apply(change);
        self.depth_max = self.depth_max.max(self.tree.root.depth);
        for block in blocks {
            self.model.remove(&block);
        }
        self.model.extend(blocks_of(new.as_slice()));
    }

    fn step(&mut self, span: u64) {
        let at = self.random.below(span);
        match (self.random.below(10), self.found(at)) {
            (0..6, None) => {
                // Now and then the block follows the one before, on the device too.
                let before = self
                    .model
                    .get(&at.wrapping_sub(1))
                    .map(|(block, _)| block + 1);
                let first = before.filter(|_| self.random.below(2) == 0);
                let first = first.unwrap_or(1 + self.random.below(1 << 33) * 8);
                let mut count = 1 + self.random.below(3);
                while self.model.range(at..at + count).next().is_some() {
                    count -= 1;
                }
                let mut new = piece(at, first, count as u32);
                new.is_unwritten = self.random.below(3) == 0;
                self.rewrite(at..at + count, Some(new));
            }
            (kind @ 0..9, Some(found)) => {
                let end = at + 1 + self.random.below(found.end() - at);
                let part = found.part(at..end);
                let converted = part.map(|part| Piece {
                    is_unwritten: !part.is_unwritten,
                    ..part
                });
                self.rewrite(at..end, converted.filter(|_| kind < 6));
            }
            (9, _) if self.random.below(60) == 0 => {
                self.tree.cut(at);
                self.model.retain(|block, _| *block < at);
            }
            _ => {}
        }
    }
}

/// Nodes of every level are split, also below a full root.
#[test]
fn random_changes_agree_with_a_model() {
    assert_notices("extents/full-index-kept", change_at_random);
}

fn change_at_random() {
    let mut deepest = 0;
    for (seed, (root, capacity, span)) in [
        (4, 4, 300),
        (2, 2, 120),
        (3, 5, 2000),
        (4, 3, 900),
        (2, 3, 60),
        (4, 340, 3000),
    ]
    .into_iter()
    .enumerate()
    {
        let mut run = Run {
            tree: Tree::new(root, capacity),
            model: Model::new(),
            random: Random::new(seed as u64),
            depth_max: 0,
        };
        for number in 0..6000 {
            run.step(span);
            if number % 7 == 0 {
                assert_eq!(
                    blocks_of(&run.tree.check()),
                    run.model,
                    "{root}, {capacity}"
                );
            }
        }
        deepest = deepest.max(run.depth_max);
        run.tree.cut(0);
        assert!(run.tree.check().is_empty());
        assert_eq!(run.tree.root.depth, 0, "an empty tree is its root");
        assert!(run.tree.nodes.is_empty());
    }
    assert_eq!(deepest, DEPTH_MAX);
}

#[test]
fn appends_fill_their_nodes() {
    let mut tree = Tree::new(4, 5);
    for number in 0..100 {
        let new = piece(number * 2, 10 + number * 8, 1);
        let path = tree.path(new.file_block);
        let change = path.rewrite(new.file_block..new.end(), Some(new));
        tree.apply(change.expect("it is not deep"));
    }
    assert_eq!(tree.check().len(), 100);
    let leaves = tree.nodes.values().filter(|node| node.depth == 0);
    assert_eq!(leaves.count(), 20);
}

#[test]
fn a_root_of_full_depth_takes_no_more() {
    let mut tree = Tree::new(2, 2);
    let mut number = 0;
    loop {
        let new = piece(number * 2, 10 + number * 8, 1);
        let path = tree.path(new.file_block);
        let Some(change) = path.rewrite(new.file_block..new.end(), Some(new)) else {
            break;
        };
        tree.apply(change);
        number += 1;
    }
    assert_eq!((number, tree.root.depth), (64, DEPTH_MAX));
    assert_eq!(tree.check().len(), 64);
    // An extent that continues the last one needs no node.
    let last = piece(127, 10 + 63 * 8 + 1, 1);
    let change = tree.path(127).rewrite(127..128, Some(last));
    tree.apply(change.expect("it is merged"));
    assert_eq!(tree.check().len(), 64);
}

#[test]
fn the_first_block_of_entries_follows_the_leftmost_extent() {
    let mut tree = Tree::new(2, 2);
    for number in (10..20).chain([3]) {
        let new = piece(number * 2, number * 8, 1);
        let path = tree.path(new.file_block);
        tree.apply(
            path.rewrite(new.file_block..new.end(), Some(new))
                .expect("room"),
        );
    }
    assert_eq!(tree.root.first(), Some(6));
    for number in [3, 10, 11, 12] {
        let blocks = number * 2..number * 2 + 1;
        let change = tree.path(blocks.start).rewrite(blocks, None);
        tree.apply(change.expect("nothing is added"));
        assert_eq!(
            tree.root.first(),
            tree.check().first().map(|piece| piece.file_block)
        );
    }
}

#[test]
fn a_tree_collapses_into_its_root() {
    let mut tree = Tree::new(4, 4);
    for number in 0..60 {
        let new = piece(number * 2, 10 + number * 8, 1);
        let path = tree.path(new.file_block);
        tree.apply(
            path.rewrite(new.file_block..new.end(), Some(new))
                .expect("room"),
        );
    }
    assert_eq!(tree.root.depth, 2);
    tree.cut(7);
    assert_eq!((tree.root.depth, tree.nodes.len()), (0, 0));
    assert_eq!(tree.check().len(), 4);
}

#[test]
fn extents_are_cut_and_merged() {
    let unwritten = |piece: Piece| Piece {
        is_unwritten: true,
        ..piece
    };
    let long = piece(10, 100, 20);
    let full = unwritten(piece(0, 1000, 32_767));
    for (old, blocks, new, range, pieces) in [
        // A hole, an end, a front, and the whole.
        (
            vec![long],
            15..20,
            None,
            0..1,
            vec![piece(10, 100, 5), piece(20, 110, 10)],
        ),
        (vec![long], 15..30, None, 0..1, vec![piece(10, 100, 5)]),
        (vec![long], 10..15, None, 0..1, vec![piece(15, 105, 15)]),
        (vec![long], 0..40, None, 0..1, vec![]),
        // Appended, put before, between, and apart from neighbours.
        (
            vec![long],
            30..31,
            Some(piece(30, 120, 1)),
            0..1,
            vec![piece(10, 100, 21)],
        ),
        (
            vec![long],
            9..10,
            Some(piece(9, 99, 1)),
            0..1,
            vec![piece(9, 99, 21)],
        ),
        (
            vec![piece(5, 94, 5), piece(11, 100, 4)],
            10..11,
            Some(piece(10, 99, 1)),
            0..2,
            vec![piece(5, 94, 10)],
        ),
        (
            vec![long],
            30..31,
            Some(piece(30, 500, 1)),
            0..1,
            vec![long, piece(30, 500, 1)],
        ),
        (
            vec![long],
            30..31,
            Some(unwritten(piece(30, 120, 1))),
            0..1,
            vec![long, unwritten(piece(30, 120, 1))],
        ),
        // Converted in the middle, and up to a written neighbour.
        (
            vec![unwritten(long)],
            15..16,
            Some(piece(15, 105, 1)),
            0..1,
            vec![
                unwritten(piece(10, 100, 5)),
                piece(15, 105, 1),
                unwritten(piece(16, 106, 14)),
            ],
        ),
        (
            vec![piece(9, 99, 1), unwritten(long)],
            10..12,
            Some(piece(10, 100, 2)),
            0..2,
            vec![piece(9, 99, 3), unwritten(piece(12, 102, 18))],
        ),
        // An unwritten extent is a block shorter than a written one.
        (
            vec![full],
            32_767..32_768,
            Some(unwritten(piece(32_767, 33_767, 1))),
            0..1,
            vec![full, unwritten(piece(32_767, 33_767, 1))],
        ),
        (
            vec![piece(0, 1000, 32_767)],
            32_767..32_768,
            Some(piece(32_767, 33_767, 1)),
            0..1,
            vec![piece(0, 1000, 32_768)],
        ),
    ] {
        assert_eq!(rewritten(&old, blocks, new), (range, pieces), "{old:?}");
    }
}
