//! Writing the nodes of a change.

use std::sync::Arc;

use jbd2::Buffer;
use layout::extent::{ENTRY_SIZE, Extent, Header, Index, MAGIC};
use layout::{Block, BlockNr};
use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, IntoBytes};

use super::Tree;
use super::path::Site;
use super::tree::{Change, Entry, Node, Place};
use crate::alloc::BlockRequest;
use crate::cache::inode::{Found, Inode};
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::disk::inode::table::fits_sectors;
use crate::disk::run::Run;
use crate::disk::words::Words;
use crate::error::{Error, Result};

/// A change with all that it needs, so that writing it cannot fail for lack of space, damage or a
/// block that is read.
pub(super) struct Draft {
    pub(super) change: Change,
    /// The buffers of the nodes on the path.
    pub(super) buffers: Vec<Arc<Buffer>>,
    /// The blocks of the new nodes.
    pub(super) nodes: Vec<BlockNr>,
    /// The bitmaps of the nodes that are freed.
    _held: Vec<Arc<Buffer>>,
}

/// Allocates the blocks of new nodes: all or none.
///
/// # Errors
/// - [`Error::NoSpace`], also if the inode cannot count as many sectors.
pub(in crate::map) fn allocate_nodes(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &InodeState,
    goal: BlockNr,
    count: usize,
) -> Result<Vec<BlockNr>> {
    let sectors = state.sectors + count as u64 * core.sectors_per_cluster();
    if count > 0 && !fits_sectors(&core.superblock, sectors) {
        return Err(Error::NoSpace);
    }
    let mut nodes = Vec::with_capacity(count);
    let mut goal = goal;
    while nodes.len() < count {
        let request = BlockRequest {
            owner: inode.nr,
            goal,
            count_max: 1,
            window: None,
            place: None,
            is_narrow: false,
        };
        match core.allocate_blocks(handle, &request) {
            Ok(run) => {
                nodes.push(run.first);
                goal = run.end();
            }
            Err(error) => {
                free_nodes(core, handle, &nodes)?;
                return Err(error);
            }
        }
    }
    Ok(nodes)
}

/// Frees blocks that this handle has allocated for nodes and not written.
pub(super) fn free_nodes(core: &Core, handle: &mut Handle<'_>, nodes: &[BlockNr]) -> Result<()> {
    nodes.iter().try_for_each(|block| {
        let run = Run {
            first: *block,
            count: 1,
        };
        core.free_blocks(handle, run)
    })
}

/// Checks that nodes can be freed. Returns their bitmaps, which the caller holds until then.
pub(super) fn hold_bitmaps(
    core: &Core,
    nodes: impl IntoIterator<Item = BlockNr>,
) -> Result<Vec<Arc<Buffer>>> {
    let mut held = Vec::new();
    for first in nodes {
        let node = Run { first, count: 1 };
        held.extend(core.check_parts(node)?);
    }
    Ok(held)
}

impl Draft {
    /// Creates the draft of a change of a path. A change that frees nodes has no new ones.
    ///
    /// # Errors
    /// - Damage and read errors of the bitmaps of freed nodes.
    pub(super) fn new(
        core: &Core,
        site: Site,
        change: Change,
        nodes: Vec<BlockNr>,
    ) -> Result<Self> {
        assert_eq!(change.new_count, nodes.len(), "each new node has a block");
        let held = hold_bitmaps(core, change.freed.iter().copied())?;
        Ok(Self {
            change,
            buffers: site.buffers,
            nodes,
            _held: held,
        })
    }

    /// Writes the nodes and frees those that are empty, with a revoke each. Changes `state` (words,
    /// sectors), which the caller stores.
    pub(super) fn write(
        self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
    ) -> Result<()> {
        let label = Tree { core, inode, state }.label();
        // Before the change, which would copy an image that is still referred to.
        inode.map.lock().found = Found::None;
        // Nodes are freed first: without a journal, a block may get another owner at once.
        for block in &self.change.freed {
            let run = Run {
                first: *block,
                count: 1,
            };
            match rt::mutant!("extents/node-not-revoked") {
                true => core.free_blocks(handle, run)?,
                false => core.free_buffered(handle, run)?,
            }
        }
        for (place, node) in &self.change.writes {
            match *place {
                Place::Root => {
                    let mut root = state.words.to_bytes();
                    self.encode(node, &mut root);
                    state.claims(handle).words = Words::from_bytes(&root);
                }
                Place::Block(block) => {
                    let buffer = self.buffers.iter().find(|buffer| buffer.nr() == block);
                    let buffer = buffer.expect("the node is on the path");
                    self.encode(node, &mut handle.write(buffer)?);
                }
                Place::New(number) => {
                    let mut image = Block::zeroed(core.block_bytes());
                    self.encode(node, &mut image);
                    let buffer = core.buffers.get_new(self.nodes[number], label);
                    handle.replace(&buffer, image.into_arc())?;
                }
            }
        }
        let unit = core.sectors_per_cluster();
        let claims = state.claims(handle);
        let freed = self.change.freed.len() as u64 * unit;
        claims.sectors = claims.sectors.saturating_sub(freed);
        if !rt::mutant!("extents/nodes-not-counted") {
            claims.sectors += self.nodes.len() as u64 * unit;
        }
        Ok(())
    }

    /// Encodes a node. Bytes behind the last possible entry stay as they are.
    fn encode(&self, node: &Node, bytes: &mut [u8]) {
        let (header, _) = Header::mut_from_prefix(bytes).expect("a node has a header");
        header.magic = U16::new(MAGIC);
        header.entry_count = U16::new(node.entries.len() as u16);
        header.entry_max = U16::new(node.capacity as u16);
        header.depth = U16::new(node.depth);
        let places = bytes[ENTRY_SIZE..].chunks_exact_mut(ENTRY_SIZE);
        let mut entries = node.entries.iter();
        for place in places.take(node.capacity) {
            match entries.next() {
                None => place.fill(0),
                Some(Entry::Extent(piece)) => {
                    let first = piece.first.get();
                    let unwritten = piece.is_unwritten;
                    let extent =
                        Extent::new(piece.file_block as u32, piece.count, first, unwritten);
                    place.copy_from_slice(extent.as_bytes());
                }
                Some(Entry::Child {
                    file_block,
                    place: below,
                }) => {
                    let index = Index::new(*file_block as u32, self.block_of(*below).get());
                    place.copy_from_slice(index.as_bytes());
                }
            }
        }
    }

    fn block_of(&self, place: Place) -> BlockNr {
        match place {
            Place::Block(block) => block,
            Place::New(number) => self.nodes[number],
            Place::Root => unreachable!("the root is below no node"),
        }
    }
}
