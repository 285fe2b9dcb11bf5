//! The growth of an htree's index when a leaf is split.
//!
//! The pair of the new leaf goes into the dx node above it. A full node is split at half of its
//! pairs: the upper half becomes a new node, whose pair goes one level up. A full root becomes a
//! node of a new root, if the tree may have one more level. All of this is decided before anything
//! changes.

use super::index::Pair;

/// A dx node on the path to a leaf.
pub(super) struct Level {
    pub(super) pairs: Vec<Pair>,
    /// The number of pairs that fit.
    pub(super) limit: usize,
    /// The pair that leads to the leaf.
    pub(super) at: usize,
}

/// The changes of an index.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Growth {
    /// New pairs of dx nodes on the path, by level from the root, the lowest first.
    pub(super) changed: Vec<(usize, Vec<Pair>)>,
    /// The pairs of new nodes. They follow the new leaf in the directory.
    pub(super) nodes: Vec<Vec<Pair>>,
    /// True if the tree gets one more level.
    pub(super) is_deeper: bool,
}

/// Plans how the index takes the pair of a new leaf, which is the block at the directory's end.
/// `level_of` returns the levels of the path, and is called only for those that change. Returns
/// `None` if the root is full and must not become a node.
///
/// # Errors
/// Returns the first error of `level_of`.
pub(super) fn plan<E>(
    level_count: usize,
    leaf: Pair,
    may_deepen: bool,
    mut level_of: impl FnMut(usize) -> Result<Level, E>,
) -> Result<Option<Growth>, E> {
    let mut growth = Growth {
        changed: Vec::new(),
        nodes: Vec::new(),
        is_deeper: false,
    };
    let (mut new, mut end) = (leaf, leaf.block + 1);
    for number in (0..level_count).rev() {
        let Level {
            mut pairs,
            limit,
            at,
        } = level_of(number)?;
        let is_full = pairs.len() >= limit;
        pairs.insert(at + 1, new);
        if !is_full {
            growth.changed.push((number, pairs));
            return Ok(Some(growth));
        }
        if number == 0 {
            let below = Pair {
                hash: 0,
                block: end,
            };
            growth.nodes.push(pairs);
            growth.changed.push((0, vec![below]));
            growth.is_deeper = true;
            break;
        }
        let upper = pairs.split_off(pairs.len() / 2);
        let hash = match rt::mutant!("directory/new-node-from-leaf") {
            true => leaf.hash,
            false => upper[0].hash,
        };
        new = Pair { hash, block: end };
        end = end + 1;
        growth.nodes.push(upper);
        growth.changed.push((number, pairs));
    }
    Ok((growth.is_deeper && may_deepen).then_some(growth))
}

#[cfg(test)]
mod tests {
    use core::convert::Infallible;

    use layout::FileBlock;

    use super::*;

    /// Number of pairs of a full dx node.
    const LIMIT: u32 = 4;

    fn pair(hash: u32, block: u64) -> Pair {
        Pair {
            hash,
            block: FileBlock::new(block),
        }
    }

    /// Returns the hashes of pairs.
    fn hashes(pairs: &[Pair]) -> Vec<u32> {
        pairs.iter().map(|pair| pair.hash).collect()
    }

    /// Plans for a path whose levels have these numbers of pairs, and leads to the first of each.
    fn grow(counts: &[u32], may_deepen: bool) -> Option<Growth> {
        let level_of = |number: usize| {
            let pairs = (0..counts[number]).map(|index| pair(index * 10, index.into()));
            Ok::<_, Infallible>(Level {
                pairs: pairs.collect(),
                limit: LIMIT as usize,
                at: 0,
            })
        };
        plan(counts.len(), pair(5, 100), may_deepen, level_of).expect("no level fails")
    }

    #[test]
    fn a_node_with_room_takes_the_pair() {
        for above in [&[][..], &[LIMIT][..], &[LIMIT, LIMIT][..]] {
            let counts = [above, &[2]].concat();
            let growth = grow(&counts, false).expect("there is room");
            assert_eq!(growth.nodes, Vec::<Vec<Pair>>::new());
            assert!(!growth.is_deeper);
            let [(level, pairs)] = &growth.changed[..] else {
                panic!("{growth:?}");
            };
            assert_eq!((*level, hashes(pairs)), (above.len(), vec![0, 5, 10]));
            assert_eq!(pairs[1].block.get(), 100);
        }
    }

    #[test]
    fn full_nodes_are_split_up_to_the_one_with_room() {
        let growth = grow(&[2, LIMIT, LIMIT], false).expect("the root has room");
        assert!(!growth.is_deeper);
        let changed: Vec<_> = growth.changed.iter().map(|(level, _)| *level).collect();
        assert_eq!(changed, [2, 1, 0]);
        assert_eq!(hashes(&growth.changed[0].1), [0, 5]);
        assert_eq!(hashes(&growth.nodes[0]), [10, 20, 30]);
        // The node above takes the pair of the first new node, and is split, too.
        assert_eq!(growth.changed[1].1, [pair(0, 0), pair(10, 101)]);
        assert_eq!(hashes(&growth.nodes[1]), [10, 20, 30]);
        assert_eq!(
            growth.changed[2].1,
            [pair(0, 0), pair(10, 102), pair(10, 1)]
        );
    }

    #[test]
    fn a_full_root_becomes_a_node_if_it_may() {
        for counts in [
            &[LIMIT][..],
            &[LIMIT, LIMIT][..],
            &[LIMIT, LIMIT, LIMIT][..],
        ] {
            assert_eq!(grow(counts, false), None);
            let growth = grow(counts, true).expect("one more level");
            assert!(growth.is_deeper);
            let node_count = counts.len() as u64;
            assert_eq!(growth.nodes.len() as u64, node_count);
            assert_eq!(growth.nodes[counts.len() - 1].len() as u32, LIMIT + 1);
            let root = growth.changed.last().expect("the root changes");
            assert_eq!(*root, (0, vec![pair(0, 100 + node_count)]));
        }
    }

    #[test]
    fn an_error_is_returned() {
        let failed = plan(2, pair(5, 100), true, |_| Err("damaged"));
        assert_eq!(failed, Err("damaged"));
    }
}
