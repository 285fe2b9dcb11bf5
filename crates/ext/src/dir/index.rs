//! A dx node of an htree: sorted pairs of hash and block, the first without a hash.
//!
//! The functions work on the bytes of the block, from the offset at which its entries start: 32 in
//! the root (after `.`, `..` and the root's information), 8 in the nodes below it (after an unused
//! entry that covers the block). With `metadata_csum` the block ends with a tail, which takes the
//! place of a pair.

use layout::directory::EntryHeader;
use layout::htree::{
    BLOCK_MASK, CountLimit, Entry, NODE_ENTRIES_OFFSET, ROOT_ENTRIES_OFFSET, limit,
};
use layout::{Block, FileBlock};
use zerocopy::{FromBytes, IntoBytes};

use crate::disk::entry::{self, Bad};

/// The place of the pairs in a dx node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    /// Offset of the first pair.
    offset: usize,
    /// True if the block ends with the tail of a checksum.
    has_tail: bool,
}

impl Form {
    /// Returns the form of the root.
    pub(super) const fn root(has_tail: bool) -> Self {
        Self {
            offset: ROOT_ENTRIES_OFFSET,
            has_tail,
        }
    }

    /// Returns the form of a node below the root.
    pub(super) const fn node(has_tail: bool) -> Self {
        Self {
            offset: NODE_ENTRIES_OFFSET,
            has_tail,
        }
    }

    /// Returns damage of a node.
    pub(super) const fn bad(self, why: &'static str) -> Bad {
        Bad {
            offset: self.offset,
            why,
        }
    }

    /// Returns the number of pairs that fit.
    pub(super) fn limit(self, block_bytes: usize) -> usize {
        limit(block_bytes, self.offset, self.has_tail)
    }
}

const ENTRY_BYTES: usize = size_of::<Entry>();

/// A pair: names from this hash on are in this block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) hash: u32,
    pub(super) block: FileBlock,
}

/// Returns the checked number of pairs in a dx node.
fn count(bytes: &[u8], form: Form) -> Result<usize, Bad> {
    let offset = form.offset;
    let bad = |why| Bad { offset, why };
    let (head, _) = CountLimit::read_from_prefix(&bytes[offset..])
        .map_err(|_| bad("an index block has no room for its count"))?;
    let count = usize::from(head.count.get());
    if usize::from(head.limit.get()) != form.limit(bytes.len()) {
        return Err(bad("an index block's limit is not what its size allows"));
    }
    if count == 0 || count > usize::from(head.limit.get()) {
        return Err(bad("an index block's count is impossible"));
    }
    Ok(count)
}

/// Returns the blocks below the root of an index or another dx node, which is checked.
pub(crate) fn blocks_below(
    bytes: &[u8],
    is_root: bool,
    has_tail: bool,
) -> Result<Vec<FileBlock>, Bad> {
    let form = match is_root {
        true => Form::root(has_tail),
        false => Form::node(has_tail),
    };
    let (header, _) = EntryHeader::ref_from_prefix(bytes).expect("a block has a header");
    let covers_all = usize::from(header.record_length.get()) == bytes.len();
    if !is_root && (header.inode.get() != 0 || !covers_all) {
        return Err(form.bad("the index has a block of names among its own"));
    }
    let count = count(bytes, form)?;
    Ok((0..count)
        .map(|at| pair_at(bytes, form.offset, at).block)
        .collect())
}

/// Returns all pairs of a dx node, checked. The first has hash 0.
pub(super) fn pairs(bytes: &[u8], form: Form) -> Result<Vec<Pair>, Bad> {
    let offset = form.offset;
    let count = count(bytes, form)?;
    let mut all = Vec::with_capacity(count);
    for index in 0..count {
        let pair = pair_at(bytes, offset, index);
        let in_order = all.last().is_none_or(|last: &Pair| last.hash <= pair.hash);
        if !in_order {
            return Err(Bad {
                offset,
                why: "an index block's hashes are not in order",
            });
        }
        all.push(pair);
    }
    Ok(all)
}

/// Returns the pair at an index, if there is one.
pub(super) fn pair(bytes: &[u8], form: Form, index: usize) -> Result<Option<Pair>, Bad> {
    Ok((index < count(bytes, form)?).then(|| pair_at(bytes, form.offset, index)))
}

/// Returns the pair that a hash belongs to, and its index: the last whose hash is not greater.
pub(super) fn lookup(bytes: &[u8], form: Form, hash: u32) -> Result<(usize, Pair), Bad> {
    let offset = form.offset;
    let (mut low, mut high) = (0, count(bytes, form)?);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if pair_at(bytes, offset, middle).hash <= hash {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok((low, pair_at(bytes, offset, low)))
}

fn pair_at(bytes: &[u8], offset: usize, index: usize) -> Pair {
    let at = offset + index * ENTRY_BYTES;
    let (raw, _) = Entry::read_from_prefix(&bytes[at..]).expect("the count was checked");
    let hash = if index == 0 { 0 } else { raw.hash.get() };
    Pair {
        hash,
        block: FileBlock::new(u64::from(raw.block.get() & BLOCK_MASK)),
    }
}

/// Writes pairs, count and limit into a dx node.
pub(super) fn write(bytes: &mut [u8], form: Form, pairs: &[Pair]) {
    let (offset, most) = (form.offset, form.limit(bytes.len()));
    assert!(
        !pairs.is_empty() && pairs.len() <= most,
        "the pairs fit the block"
    );
    for (index, pair) in pairs.iter().enumerate() {
        let at = offset + index * ENTRY_BYTES;
        let mut raw = Entry::default();
        raw.hash.set(pair.hash);
        raw.block
            .set(u32::try_from(pair.block.get()).expect("directories are below 2^28 blocks"));
        bytes[at..at + ENTRY_BYTES].copy_from_slice(raw.as_bytes());
    }
    let mut head = CountLimit::default();
    head.limit
        .set(u16::try_from(most).expect("a block of at most 32 KiB"));
    head.count
        .set(u16::try_from(pairs.len()).expect("at most the limit"));
    bytes[offset..offset + size_of::<CountLimit>()].copy_from_slice(head.as_bytes());
}

/// Returns a new node below the root.
pub(super) fn node(block_bytes: usize, has_tail: bool, pairs: &[Pair]) -> Block {
    let mut block = Block::zeroed(block_bytes);
    entry::set_length(&mut block, 0, block_bytes);
    write(&mut block, Form::node(has_tail), pairs);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hash: u32, block: u64) -> Pair {
        Pair {
            hash,
            block: FileBlock::new(block),
        }
    }

    #[test]
    fn pairs_survive_a_block() {
        let all = [at(0, 1), at(100, 2), at(201, 7)];
        for has_tail in [false, true] {
            let block = node(1024, has_tail, &all);
            let form = Form::node(has_tail);
            assert_eq!(pairs(&block, form).expect("sound"), all);
            assert!(pairs(&block, Form::node(!has_tail)).is_err());
        }
    }

    #[test]
    fn a_hash_belongs_to_the_last_pair_not_greater() {
        let block = node(1024, false, &[at(0, 1), at(100, 2), at(200, 3)]);
        for (hash, index) in [(0, 0), (98, 0), (100, 1), (198, 1), (200, 2), (u32::MAX, 2)] {
            let (found, _) = lookup(&block, Form::node(false), hash).expect("sound");
            assert_eq!(found, index, "hash {hash}");
        }
    }

    #[test]
    fn damage_is_named() {
        let mut block = node(1024, false, &[at(0, 1), at(50, 2)]);
        block[NODE_ENTRIES_OFFSET + 2] = 0;
        let bad = pairs(&block, Form::node(false)).expect_err("count 0");
        assert_eq!(bad.why, "an index block's count is impossible");
        block[NODE_ENTRIES_OFFSET] = 0;
        let bad = pairs(&block, Form::node(false)).expect_err("limit");
        assert_eq!(
            bad.why,
            "an index block's limit is not what its size allows"
        );
    }
}
