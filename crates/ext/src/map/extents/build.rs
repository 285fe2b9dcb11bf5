//! Building a whole tree from its extents, with full nodes.

use layout::extent::{ENTRY_SIZE, Extent, Header, Index, MAGIC, ROOT_ENTRIES_MAX, capacity};
use layout::inode::MAP_WORDS;
use layout::{Block, InodeNr};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U16;

use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::metadata::Kind;
use crate::disk::words::Words;
use crate::error::Result;
use crate::map::built::MapBlocks;

/// The bytes of an entry.
type Entry = [u8; ENTRY_SIZE];

/// Builds the tree of an inode, given with its generation; see
/// [`build_map`](crate::map::build_map).
pub(in crate::map) fn build(
    core: &Core,
    handle: &mut Handle<'_>,
    (nr, generation): (InodeNr, u32),
    extents: &[Extent],
    blocks: &mut MapBlocks,
) -> Result<Words> {
    let label = Kind::Extents.of_inode(nr, generation);
    let most = usize::from(capacity(core.block_bytes()));
    // The entries of a level, each with the first file block below it.
    let leaf = extents.iter().map(|extent| {
        let mut entry: Entry = [0; ENTRY_SIZE];
        entry.copy_from_slice(extent.as_bytes());
        (extent.file_block.get(), entry)
    });
    let mut level: Vec<(u32, Entry)> = leaf.collect();
    let mut depth = 0;
    while level.len() > usize::from(ROOT_ENTRIES_MAX) {
        let mut above = Vec::new();
        for part in level.chunks(most) {
            let block = blocks.take(core, handle)?;
            let mut image = Block::zeroed(core.block_bytes());
            encode(part, depth, most, &mut image);
            handle.replace(&core.buffers.get_new(block, label), image.into_arc())?;
            let mut entry: Entry = [0; ENTRY_SIZE];
            entry.copy_from_slice(Index::new(part[0].0, block.get()).as_bytes());
            above.push((part[0].0, entry));
        }
        level = above;
        depth += 1;
    }
    let mut root = [0; MAP_WORDS * 4];
    encode(&level, depth, usize::from(ROOT_ENTRIES_MAX), &mut root);
    Ok(Words::from_bytes(&root))
}

/// Encodes a node.
fn encode(entries: &[(u32, Entry)], depth: u16, capacity: usize, bytes: &mut [u8]) {
    let header = Header {
        magic: U16::new(MAGIC),
        entry_count: U16::new(entries.len() as u16),
        entry_max: U16::new(capacity as u16),
        depth: U16::new(depth),
        ..Header::default()
    };
    bytes[..ENTRY_SIZE].copy_from_slice(header.as_bytes());
    for (place, (_, entry)) in bytes[ENTRY_SIZE..]
        .chunks_exact_mut(ENTRY_SIZE)
        .zip(entries)
    {
        place.copy_from_slice(entry);
    }
}
