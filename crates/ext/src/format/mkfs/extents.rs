//! Extent trees of the first files.

use layout::checksum::metadata::extent_block;
use layout::extent::{self, ENTRY_SIZE, Extent, Header, Index, LENGTH_MAX, MAGIC, Tail};
use layout::inode::MAP_WORDS;
use layout::{Block, BlockNr};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use crate::disk::run::Run;

const ROOT_BYTES: usize = MAP_WORDS * 4;

/// An entry of a node: where it starts in the file, and its bytes.
struct Entry {
    file_block: u32,
    bytes: [u8; ENTRY_SIZE],
}

/// A tree without the places of its nodes.
pub(super) struct Tree {
    extents: Vec<Entry>,
    block_bytes: usize,
}

impl Tree {
    /// Creates the tree of a file whose blocks lie in these extents, in order.
    pub(super) fn new(data: &[Run], block_bytes: u32) -> Self {
        let mut extents = Vec::new();
        let mut file_block = 0;
        for run in data {
            let mut first = run.first.get();
            let mut left = run.count;
            while left > 0 {
                let count = left.min(LENGTH_MAX.into());
                let extent = Extent {
                    file_block: U32::new(file_block),
                    length: U16::new(count as u16),
                    start_high: U16::new((first >> 32) as u16),
                    start_low: U32::new(first as u32),
                };
                extents.push(Entry {
                    file_block,
                    bytes: extent.as_bytes().try_into().expect("an entry's size"),
                });
                file_block += count;
                first += u64::from(count);
                left -= count;
            }
        }
        Self {
            extents,
            block_bytes: block_bytes as usize,
        }
    }

    /// Returns the number of blocks that the nodes below the root take.
    pub(super) fn node_count(&self) -> u64 {
        let mut total = 0;
        let mut entries = self.extents.len();
        while entries > usize::from(extent::ROOT_ENTRIES_MAX) {
            entries = entries.div_ceil(extent::capacity(self.block_bytes).into());
            total += entries as u64;
        }
        total
    }

    /// Returns the root as the words of an inode, and the nodes at the given places. `owner` is the
    /// seed of their checksums.
    pub(super) fn build(
        self,
        places: &[Run],
        owner: Option<u32>,
    ) -> ([u32; MAP_WORDS], Vec<(BlockNr, Block)>) {
        let numbers = |run: &Run| (run.first.get()..run.end().get()).map(BlockNr::new);
        let mut places = places.iter().flat_map(numbers);
        let capacity = extent::capacity(self.block_bytes);
        let mut nodes = Vec::new();
        let mut level = self.extents;
        let mut depth = 0;
        while level.len() > usize::from(extent::ROOT_ENTRIES_MAX) {
            let mut above = Vec::new();
            for entries in level.chunks(capacity.into()) {
                let place = places.next().expect("as many places as nodes");
                let mut block = Block::zeroed(self.block_bytes);
                fill(&mut block, entries, capacity, depth);
                if let Some((_, sum)) = owner.and_then(|owner| extent_block(owner, &block)) {
                    let at = ENTRY_SIZE * (1 + usize::from(capacity));
                    let tail = Tail {
                        checksum: U32::new(sum),
                    };
                    block[at..at + size_of::<Tail>()].copy_from_slice(tail.as_bytes());
                }
                let index = Index {
                    file_block: U32::new(entries[0].file_block),
                    leaf_low: U32::new(place.get() as u32),
                    leaf_high: U16::new((place.get() >> 32) as u16),
                    ..Index::default()
                };
                above.push(Entry {
                    file_block: entries[0].file_block,
                    bytes: index.as_bytes().try_into().expect("an entry's size"),
                });
                nodes.push((place, block));
            }
            level = above;
            depth += 1;
        }
        let mut root = [0; ROOT_BYTES];
        fill(&mut root, &level, extent::ROOT_ENTRIES_MAX, depth);
        let mut words = [0; MAP_WORDS];
        for (word, bytes) in words.iter_mut().zip(root.chunks_exact(4)) {
            *word = u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
        }
        (words, nodes)
    }
}

fn fill(node: &mut [u8], entries: &[Entry], capacity: u16, depth: u16) {
    let header = Header {
        magic: U16::new(MAGIC),
        entry_count: U16::new(entries.len() as u16),
        entry_max: U16::new(capacity),
        depth: U16::new(depth),
        ..Header::default()
    };
    let parts = core::iter::once(header.as_bytes()).chain(entries.iter().map(|own| &own.bytes[..]));
    for (place, bytes) in node.chunks_exact_mut(ENTRY_SIZE).zip(parts) {
        place.copy_from_slice(bytes);
    }
}
