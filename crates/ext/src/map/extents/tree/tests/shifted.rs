//! Extents that move within a file, a leaf at a time: after each the tree is complete.

use super::*;

/// Number of extents of a tree.
const EXTENTS: u64 = 60;

/// Makes a tree of many extents, each with a hole before it.
fn made(root: usize, capacity: usize) -> (Tree, Model) {
    let mut tree = Tree::new(root, capacity);
    for number in 0..EXTENTS {
        let new = piece(10 + number * 10, 1000 + number * 100, 6);
        let blocks = new.file_block..new.end();
        let change = tree.path(new.file_block).rewrite(blocks, Some(new));
        tree.apply(change.expect("the tree is not too deep"));
    }
    let model = blocks_of(&tree.check());
    (tree, model)
}

/// Moves everything from a block on, and checks the tree after each leaf. Returns the number of
/// leaves that changed.
fn shift(tree: &mut Tree, from: u64, to: u64) -> usize {
    let mut at = Some(if to < from { from } else { u64::MAX });
    let mut changed = 0;
    while let Some(place) = at {
        let path = tree.path(place);
        let change = path.shifted(from, to).expect("nothing is added");
        assert_eq!(change.new_count, 0, "a move needs no node");
        at = match to < from {
            true => path.next_leaf(),
            false => {
                let first = path.leaf().first().expect("a leaf has extents");
                let has_more = |first: &u64| *first > from && !path.is_first();
                Some(first).filter(has_more).map(|first| first - 1)
            }
        };
        changed += usize::from(!change.writes.is_empty());
        tree.apply(change);
        tree.check();
    }
    changed
}

/// Returns the model with what lies at a block or behind it moved.
fn moved(model: &Model, from: u64, to: u64) -> Model {
    let place = |at: u64| if at < from { at } else { at - from + to };
    let blocks = model.iter().map(|(at, block)| (place(*at), *block));
    blocks.collect()
}

#[test]
fn extents_move_towards_the_end() {
    for (root, capacity) in [(4, 84), (4, 4), (2, 3), (2, 2)] {
        for from in 0..10 + EXTENTS * 10 {
            let (mut tree, model) = made(root, capacity);
            let Some(cut) = tree.path(from).shifted(from, from) else {
                assert_eq!(capacity, 2, "a tree of full depth takes no more");
                continue;
            };
            tree.apply(cut);
            assert_eq!(blocks_of(&tree.check()), model);
            let changed = shift(&mut tree, from, from + 1000);
            assert_eq!(blocks_of(&tree.check()), moved(&model, from, from + 1000));
            assert!(changed > 0 || from >= 6 + EXTENTS * 10, "{from}");
        }
    }
}

#[test]
fn extents_move_towards_the_start() {
    for (root, capacity) in [(4, 84), (4, 4), (2, 3), (2, 2)] {
        for (from, length) in (0..EXTENTS - 1).map(|number| (10 + number * 10, 4)) {
            let (mut tree, mut model) = made(root, capacity);
            // The hole before an extent goes.
            shift(&mut tree, from, from - length);
            model = moved(&model, from, from - length);
            assert_eq!(blocks_of(&tree.check()), model);
        }
    }
}

/// An extent that is cut is one again once its second part moves back.
#[test]
fn neighbours_are_merged() {
    let mut tree = Tree::new(4, 84);
    let new = piece(0, 100, 20);
    tree.apply(tree.path(0).rewrite(0..20, Some(new)).expect("it fits"));
    tree.apply(tree.path(8).shifted(8, 8).expect("it fits"));
    assert_eq!(tree.check().len(), 2);
    shift(&mut tree, 8, 50);
    assert_eq!(tree.check(), [piece(0, 100, 8), piece(50, 108, 12)]);
    shift(&mut tree, 50, 8);
    assert_eq!(tree.check(), [new]);
}
