//! Building a whole tree from its extents: with full nodes, or with those of the tree before it.
//!
//! A tree that keeps its nodes changes only those whose entries change: entries stay in their node
//! as long as it has room, and those that do not fit get nodes of their own. Such a tree is built
//! unless full nodes change less, so that their number is the most that a tree changes.

use std::collections::BTreeSet;

use layout::extent::{
    DEPTH_MAX, ENTRY_SIZE, Extent, Header, Index, MAGIC, ROOT_ENTRIES_MAX, capacity,
};
use layout::inode::MAP_WORDS;
use layout::{Block, BlockNr, InodeNr};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U16;

use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::extents::Node;
use crate::disk::metadata::Kind;
use crate::disk::words::Words;
use crate::error::Result;
use crate::map::built::{MapBlocks, OldNode, OldTree};

/// The first file block below an entry, and its bytes.
type Entry = (u32, [u8; ENTRY_SIZE]);

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
    let old = blocks.old.take().unwrap_or_default();
    let (old, extents) = match keep(&old, extents, most, blocks)? {
        true => (&old.nodes[..], &old.extents[..]),
        false => (&[][..], extents),
    };
    let (entries, depth) = arrange(extents, old, most, &mut |old, depth, entries| {
        let block = match old {
            Some(old) if holds(old, entries) => return Ok(old.block),
            Some(old) => old.block,
            None => blocks.take(core, handle)?,
        };
        let mut image = Block::zeroed(core.block_bytes());
        encode(entries, depth, most, &mut image);
        handle.replace(&core.buffers.get_new(block, label), image.into_arc())?;
        Ok(block)
    })?;
    let mut root = [0; MAP_WORDS * 4];
    encode(&entries, depth, usize::from(ROOT_ENTRIES_MAX), &mut root);
    Ok(Words::from_bytes(&root))
}

/// Decides if a tree keeps the nodes of the one before it, and takes them.
fn keep(old: &OldTree, extents: &[Extent], most: usize, blocks: &mut MapBlocks) -> Result<bool> {
    if old.nodes.is_empty() {
        return Ok(false);
    }
    let Some(cost) = Cost::of(&old.extents, old, most)? else {
        return Ok(false);
    };
    let Some(full) = Cost::of(extents, &OldTree::default(), most)? else {
        return Ok(false);
    };
    let more = |cost: &Cost| cost.node_count.saturating_sub(blocks.spare_count());
    let extra = more(&cost).saturating_sub(more(&full)) as u64;
    let is_kept = cost.changed_count <= full.node_count && extra <= old.extra_blocks;
    if is_kept {
        blocks.keep(cost.kept, extra);
    }
    Ok(is_kept)
}

/// The nodes of a tree that is to be built.
#[derive(Debug, Default)]
struct Cost {
    node_count: usize,
    /// Number of nodes that are new, or get other entries.
    changed_count: usize,
    /// The nodes of the tree before that it keeps.
    kept: BTreeSet<BlockNr>,
}

impl Cost {
    /// Returns the cost of a tree that keeps the nodes of another; none if it would be too deep.
    fn of(extents: &[Extent], old: &OldTree, most: usize) -> Result<Option<Self>> {
        let mut cost = Self::default();
        let (_, depth) = arrange(extents, &old.nodes, most, &mut |old, _, entries| {
            let is_same = old.is_some_and(|old| holds(old, entries));
            cost.node_count += 1;
            cost.changed_count += usize::from(!is_same);
            cost.kept.extend(old.map(|old| old.block));
            // No node lies in block 0: the node above a new one is another one, too.
            Ok(old.map_or(BlockNr::new(0), |old| old.block))
        })?;
        Ok((depth <= DEPTH_MAX).then_some(cost))
    }
}

/// Returns true if these are the entries of a node.
fn holds(node: &OldNode, entries: &[Entry]) -> bool {
    let own = node.image[ENTRY_SIZE..].chunks_exact(ENTRY_SIZE);
    let mut pairs = own.zip(entries);
    Node::of_checked(&node.image).count() == entries.len()
        && pairs.all(|(own, (_, entry))| own == entry.as_slice())
}

/// Returns the block of a node of a new tree, given with the node that it was before, its depth and
/// its entries.
type Place<'p> = &'p mut dyn FnMut(Option<&OldNode>, u16, &[Entry]) -> Result<BlockNr>;

/// Arranges extents as a tree, from the leaves upwards. Returns the entries and the depth of the
/// root.
fn arrange(
    extents: &[Extent],
    old: &[Vec<OldNode>],
    most: usize,
    place: Place<'_>,
) -> Result<(Vec<Entry>, u16)> {
    let leaf = extents.iter().map(|extent| {
        let mut entry = [0; ENTRY_SIZE];
        entry.copy_from_slice(extent.as_bytes());
        (extent.file_block.get(), entry)
    });
    let mut level: Vec<Entry> = leaf.collect();
    let mut depth = 0;
    while level.len() > usize::from(ROOT_ENTRIES_MAX) {
        let nodes = old.get(usize::from(depth)).map_or(&[][..], Vec::as_slice);
        let mut above = Vec::new();
        for (node, part) in parts(&level, nodes, most) {
            let block = place(node, depth, part)?;
            let mut entry = [0; ENTRY_SIZE];
            entry.copy_from_slice(Index::new(part[0].0, block.get()).as_bytes());
            above.push((part[0].0, entry));
        }
        level = above;
        depth += 1;
    }
    Ok((level, depth))
}

/// Cuts the entries of a level into nodes, each with the node that it was before, if there is one.
fn parts<'e>(
    entries: &'e [Entry],
    old: &'e [OldNode],
    most: usize,
) -> Vec<(Option<&'e OldNode>, &'e [Entry])> {
    let (mut parts, mut rest) = (Vec::new(), entries);
    for (at, node) in old.iter().enumerate() {
        let count = old.get(at + 1).map_or(rest.len(), |next| {
            rest.partition_point(|(first, _)| *first < next.file_block)
        });
        let (own, behind) = rest.split_at(count);
        let own = own.chunks(most).enumerate();
        parts.extend(own.map(|(index, part)| ((index == 0).then_some(node), part)));
        rest = behind;
    }
    parts.extend(rest.chunks(most).map(|part| (None, part)));
    parts
}

/// Encodes a node.
fn encode(entries: &[Entry], depth: u16, capacity: usize, bytes: &mut [u8]) {
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
