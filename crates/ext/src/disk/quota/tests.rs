//! Random entries against a map, and the lists of blocks.

use std::collections::BTreeMap;

use testkit::Random;

use super::*;

const KIND: QuotaKind = QuotaKind::Group;

fn bytes(tree: &QuotaTree) -> Vec<u8> {
    tree.padded(0, tree.len())
}

fn decoded(tree: &QuotaTree) -> QuotaTree {
    let decoded = QuotaTree::decode(KIND, bytes(tree)).expect("it is sound");
    assert_eq!(decoded.list_fault(), None);
    decoded
}

/// Each identifier is in use for a while; the tree is decoded again and again.
#[test]
fn entries_are_those_of_a_map() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (mut tree, mut model) = (QuotaTree::new(KIND), BTreeMap::new());
        let ids: Vec<u32> = (0..120)
            .map(|index| random.next() as u32 >> (index % 4 * 8))
            .collect();
        for step in 0..600 {
            let id = *random.pick(&ids);
            match random.below(4) {
                0 => {
                    tree.insert(id);
                    model.entry(id).or_default();
                }
                1 => {
                    tree.remove(id);
                    model.remove(&id);
                }
                _ => {
                    tree.insert(id);
                    let count = random.below(9).cast_signed();
                    let change = Change {
                        space: count,
                        inodes: 1,
                    };
                    tree.change(id, change).expect("it has an entry");
                    let (space, inodes) = model.entry(id).or_insert((0, 0));
                    *space += count;
                    *inodes += 1;
                }
            }
            if step % 50 == 0 {
                let unused: Vec<u32> = tree.unused().collect();
                tree = decoded(&tree);
                assert_eq!(tree.unused().collect::<Vec<_>>(), unused);
            }
        }
        let tree = decoded(&tree);
        let found: BTreeMap<u32, (i64, i64)> = tree
            .entries()
            .map(|entry| {
                let counts = (entry.space.get(), entry.inodes.get());
                (
                    entry.id.get(),
                    (counts.0.cast_signed(), counts.1.cast_signed()),
                )
            })
            .collect();
        assert_eq!(found, model, "{seed}");
    }
}

/// Blocks of entries that are gone are used again, and the number of changed blocks is bounded.
#[test]
fn a_file_does_not_grow_with_owners_that_come_and_go() {
    let mut tree = QuotaTree::new(KIND);
    let mut longest = 0;
    for round in 0..5_u32 {
        for number in 0..100_u32 {
            tree.take_changed();
            let length = tree.len_with(number << 13 | round);
            tree.insert(number << 13 | round);
            assert_eq!(tree.len(), length);
            assert!(tree.take_changed().len() <= ENTRY_BLOCKS_MAX as usize);
        }
        if round == 0 {
            longest = tree.len();
        }
        for number in 0..100_u32 {
            tree.remove((number * 37 % 100) << 13 | round);
            assert!(tree.take_changed().len() <= REMOVAL_BLOCKS_MAX as usize);
        }
        decoded(&tree);
    }
    assert_eq!(tree.len(), longest);
}

#[test]
fn unused_entries_have_neither_counts_nor_limits() {
    let mut tree = QuotaTree::new(KIND);
    for id in 0..4 {
        tree.insert(id);
    }
    tree.edit(1, |entry| entry.inode_soft.set(7));
    let change = Change {
        space: 0,
        inodes: 1,
    };
    tree.change(2, change).expect("it has an entry");
    assert_eq!(tree.unused().collect::<Vec<_>>(), [0, 3]);
    let less = Change {
        space: -1,
        inodes: 0,
    };
    assert!(tree.change(2, less).is_err());
    assert!(tree.change(9, change).is_err());
}

/// A list that leads to a block in use, outside or in a circle is given up.
#[test]
fn lists_are_checked() {
    let mut tree = QuotaTree::new(KIND);
    for number in 0..60 {
        tree.insert(number << 16);
    }
    for number in 0..30 {
        tree.remove(number << 16);
    }
    let good = bytes(&tree);
    let blocks = (good.len() / BLOCK_SIZE) as u32;
    let (free, room) = (
        tree.header().free_block.get(),
        tree.header().block_with_room.get(),
    );
    assert!(free != 0 && room != 0);
    let entries: Vec<Entry> = tree.entries().collect();
    let next_of = |block: u32| block as usize * BLOCK_SIZE;
    for at in [0x18, 0x1C, next_of(free), next_of(room)] {
        for block in (0..blocks + 2).chain([u32::MAX]) {
            let mut bytes = good.clone();
            bytes[at..at + 4].copy_from_slice(&block.to_le_bytes());
            let mut tree = QuotaTree::decode(KIND, bytes).expect("the tree is sound");
            for number in 100..160 {
                tree.insert(number << 16);
            }
            let found: Vec<Entry> = tree.entries().take(entries.len()).collect();
            assert_eq!(found, entries, "{at:#x}, {block}");
            assert_eq!(tree.places.len(), entries.len() + 60);
            for number in 100..160 {
                tree.remove(number << 16);
            }
            assert_eq!(decoded(&tree).entries().collect::<Vec<_>>(), entries);
        }
    }
}
