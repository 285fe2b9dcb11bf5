//! Allocation of blocks for holes, and conversion of unwritten extents.
//!
//! Steps that can fail come first: the path is read, data and new nodes are allocated, and only
//! then nodes are written. When space runs out meanwhile, the allocated blocks are freed in the
//! same handle, and the tree is as it was.
//!
//! # Unwritten extents
//!
//! A write to an unwritten extent converts the written part in the handle of the write, before its
//! data is in the cache. So the conversion commits with the handle. It commits after the data, as
//! new blocks do in ordered mode, but in writeback mode too: zeroes that were promised must not
//! become what was on the device before.
//!
//! Preallocated blocks can be written however full the volume is. If the part cannot be split off
//! for lack of a node, zeroes are written to the rest of the extent, or to one side of it, and the
//! part is converted together with it.

use core::ops::Range;
use std::sync::Arc;

use jbd2::Buffer;
use layout::{Block, BlockNr, FileBlock};
use rt::atomic::Ordering;

use super::Tree;
use super::apply::{Draft, allocate_nodes};
use super::clusters::NONE;
use super::path::{Found, Site};
use super::tree::{Change, Piece, Place};
use super::unmap::{free_data, zero_blocks};
use crate::alloc::{BlockRequest, FilePlace};
use crate::cache::inode::{Inode, MapCache};
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::extents::FILE_BLOCKS;
use crate::disk::inode::InodeState;
use crate::disk::inode::table::fits_sectors;
use crate::disk::kind::FileKind;
use crate::disk::run::Run;
use crate::disk::words::Words;
use crate::error::{Corrupt, Error, Result};
use crate::map::{Before, check_extent};
use crate::tuning::Allocator;

/// Maps up to `count_max` blocks from `from` on, allocates holes and converts unwritten extents.
/// Returns one extent, and its state before. Changes `state` (words, sectors), which the caller
/// stores. After an error no change remains.
///
/// # Errors
/// - [`Error::FileTooLarge`] for blocks beyond the reach of extents.
/// - [`Error::NoSpace`].
pub(in crate::map) fn find_or_allocate(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    from: FileBlock,
    count_max: u32,
) -> Result<(Run, Before)> {
    let (site, found) = look(core, inode, state, from)?;
    match found {
        Found::Piece(piece) => {
            let end = from.get() + u64::from(count_max.max(1));
            let part = piece.part(from.get()..end).expect("the block is in it");
            if !part.is_unwritten {
                return Ok((part.run(), Before::Mapped));
            }
            write_into(core, handle, inode, state, site, piece, part)?;
            Ok((part.run(), Before::Unwritten))
        }
        Found::Hole(hole) => {
            let hole = Hole::new(from, hole, count_max, false);
            let taken = allocate(core, handle, inode, state, site, hole)?;
            Ok((taken.data, Before::Hole))
        }
    }
}

/// Allocates up to `count_max` unwritten blocks from `from` on. Returns the number of blocks from
/// there on that are allocated now, or were before. After an error no change remains.
///
/// # Errors
/// Fails as [`find_or_allocate`].
pub(in crate::map) fn allocate_unwritten(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    from: FileBlock,
    count_max: u32,
) -> Result<u32> {
    let (site, found) = look(core, inode, state, from)?;
    match found {
        Found::Piece(piece) => Ok((piece.end() - from.get()).min(count_max.into()) as u32),
        Found::Hole(hole) => {
            let hole = Hole::new(from, hole, count_max, true);
            let taken = allocate(core, handle, inode, state, site, hole)?;
            Ok(taken.data.count)
        }
    }
}

/// Converts written blocks, which [`find`](super::find) has just found, to unwritten ones. The
/// caller has dropped their pages. After an error no change remains.
///
/// # Errors
/// - [`Error::NoSpace`].
pub(in crate::map) fn mark_unwritten(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    from: FileBlock,
    run: Run,
) -> Result<()> {
    let (site, found) = look(core, inode, state, from)?;
    let end = from.get() + u64::from(run.count);
    let Found::Piece(piece) = found else {
        return Ok(());
    };
    let part = piece.part(from.get()..end).expect("the block is in it");
    let change = site.rewrite(Piece {
        is_unwritten: true,
        ..part
    });
    let change = change.ok_or(Error::FileTooLarge)?;
    let nodes = allocate_nodes(
        core,
        handle,
        inode,
        state,
        site.node_goal(run),
        change.new_count,
    )?;
    let draft = Draft::new(core, site, change, nodes)?;
    if state.has_buffered_blocks(core) {
        // An image in the log must not come back over data that is written later.
        for step in 0..u64::from(part.count) {
            handle.forget(part.first + step)?;
        }
    }
    draft.write(core, handle, inode, state)
}

/// Maps `count` blocks from `from` on, which is beyond the end of a directory: one by one, all or
/// none. Undoing the allocations before an error never restarts the handle, because the caller is
/// in the middle of an operation.
///
/// # Errors
/// Fails as [`find_or_allocate`]; nothing has changed then.
pub(in crate::map) fn allocate_each(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    from: FileBlock,
    count: u64,
) -> Result<Vec<BlockNr>> {
    let was_stored = state.is_stored();
    let mut done: Vec<Undo> = Vec::new();
    let mut blocks = Vec::new();
    for index in 0..count {
        match allocate_one(core, handle, inode, state, from + index) {
            Ok((block, undo)) => {
                blocks.push(block);
                done.extend(undo);
            }
            Err(error) => {
                for undo in done.into_iter().rev() {
                    undo.run(core, handle, inode, state)?;
                }
                if was_stored {
                    // The claims equal those of the table again.
                    state.discard(handle);
                }
                return Err(error);
            }
        }
    }
    Ok(blocks)
}

/// Maps one block of a directory.
fn allocate_one(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    from: FileBlock,
) -> Result<(BlockNr, Option<Undo>)> {
    let (site, found) = look(core, inode, state, from)?;
    let hole = match found {
        Found::Piece(piece) if piece.is_unwritten => {
            return Err(core.damaged(Corrupt::Mapping {
                inode: inode.nr,
                file_block: from,
                block: piece.first,
            }));
        }
        Found::Piece(piece) => {
            let block = piece.first + (from.get() - piece.file_block);
            return Ok((block, None));
        }
        Found::Hole(hole) => Hole::new(from, hole, 1, false),
    };
    let mut undo = Undo::of(&site, state);
    undo.taken = allocate(core, handle, inode, state, site, hole)?;
    Ok((undo.taken.data.first, Some(undo)))
}

/// Frees the blocks of a new inode's first contents, in the transaction that allocated them.
pub(in crate::map) fn free_first(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
) -> Result<()> {
    let site = Tree { core, inode, state }.locate(0)?;
    if site.path.leaf_place() != Place::Root {
        return Ok(());
    }
    let pieces: Vec<Piece> = site.path.leaf().pieces().collect();
    for piece in pieces.into_iter().rev() {
        let freed = Tree { core, inode, state }.freed(piece, true)?;
        let has_buffers = state.has_buffered_blocks(core);
        free_data(core, handle, (piece.run(), freed), has_buffers)?;
        let sectors = u64::from(freed.count) * core.sectors_per_block();
        let claims = state.claims(handle);
        claims.sectors = claims.sectors.saturating_sub(sectors);
    }
    let change = site.path.replace_from(0, None);
    let change = change.expect("a leaf without extents fits");
    Draft::new(core, site, change, Vec::new())?.write(core, handle, inode, state)
}

/// Returns the path to a block of the file, and what the tree has there.
pub(super) fn look(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    from: FileBlock,
) -> Result<(Site, Found)> {
    if from.get() >= FILE_BLOCKS {
        return Err(Error::FileTooLarge);
    }
    let site = Tree { core, inode, state }.locate(from.get())?;
    let found = site.look(from.get());
    if let Found::Piece(piece) = found {
        check_extent(core, inode, FileBlock::new(piece.file_block), piece.run())?;
    }
    Ok((site, found))
}

/// A hole to be filled.
#[derive(Clone, Copy)]
struct Hole {
    from: u64,
    /// Number of blocks that are wanted.
    wanted: u32,
    is_unwritten: bool,
}

impl Hole {
    fn new(from: FileBlock, hole: u64, count_max: u32, is_unwritten: bool) -> Self {
        let most = layout::extent::count_max(is_unwritten).min(count_max.max(1));
        Self {
            from: from.get(),
            wanted: hole.min(most.into()) as u32,
            is_unwritten,
        }
    }

    /// Returns the extent that fills the hole with these blocks.
    fn piece(self, data: Run) -> Piece {
        Piece {
            file_block: self.from,
            first: data.first,
            count: data.count,
            is_unwritten: self.is_unwritten,
        }
    }
}

/// The blocks allocated for a hole.
struct Taken {
    data: Run,
    /// The blocks of the new clusters that have them.
    new: Run,
    nodes: Vec<BlockNr>,
}

/// Allocates blocks for a hole and inserts their extent.
fn allocate(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    site: Site,
    hole: Hole,
) -> Result<Taken> {
    let takes_runs = core.tuning.allocator != Allocator::Forward;
    let wanted = if takes_runs { hole.wanted } else { 1 };
    let geometry = core.geometry();
    let clusters = geometry.clusters_of_range(FileBlock::new(hole.from), wanted.into());
    let most = clusters + u64::from(layout::extent::DEPTH_MAX) + 1;
    let sectors = state.sectors + most * core.sectors_per_cluster();
    if !fits_sectors(&core.superblock, sectors) {
        return Err(Error::FileTooLarge);
    }
    let (data, new) = blocks_for(core, handle, inode, state, &site, (hole, wanted))?;
    let (draft, data, new) = match insertion(core, handle, inode, state, site, hole, (data, new)) {
        Ok(planned) => planned,
        Err(error) => {
            if new.count > 0 {
                core.free_blocks(handle, new)?;
            }
            return Err(error);
        }
    };
    let nodes = draft.nodes.clone();
    draft.write(core, handle, inode, state)?;
    state.claims(handle).sectors += u64::from(new.count) * core.sectors_per_block();
    let next = hole.from + u64::from(data.count);
    inode.map.lock().next = Some((next, data.end()));
    Ok(Taken { data, new, nodes })
}

/// Returns blocks for the start of a hole: the place that it has in a cluster of the file, or new
/// clusters, whose blocks are returned, too.
fn blocks_for(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &InodeState,
    site: &Site,
    (hole, wanted): (Hole, u32),
) -> Result<(Run, Run)> {
    let tree = Tree { core, inode, state };
    let size = core.geometry().cluster_blocks();
    let before = (hole.from % u64::from(size)) as u32;
    let mut end = hole.from + u64::from(wanted);
    if size > 1 {
        if let Some(first) = tree.place_in_cluster(hole.from)? {
            let count = wanted.min(size - before);
            return Ok((Run { first, count }, NONE));
        }
        end = tree.end_of_new(hole.from..end)?;
    }
    let has_window = core.has_window(state.kind, hole.from);
    let may_grow = state.kind == FileKind::Directory || inode.pins.load(Ordering::Relaxed) > 0;
    let place = FilePlace {
        from: hole.from - u64::from(before),
        size_blocks: state.size.div_ceil(core.geometry().block_bytes.into()),
        // A file that is not open does not grow.
        is_final: hole.is_unwritten || !may_grow,
        is_delayed: handle.has_lent(),
    };
    let request = BlockRequest {
        owner: inode.nr,
        goal: site.goal(core, &tree, hole.from),
        count_max: (end - hole.from) as u32 + before,
        window: has_window.then_some(&inode.window),
        place: has_window.then_some(place),
        is_narrow: false,
    };
    let run = core.allocate_blocks(handle, &request)?;
    let data = Run {
        first: run.first + u64::from(before),
        count: run.count - before,
    };
    let geometry = core.geometry();
    Ok((data, geometry.blocks_of(geometry.clusters_of(run))))
}

/// Returns the insertion of an extent, and the parts of its blocks and of the new clusters that are
/// for data. If there is no other block for the new nodes, they take the last new clusters. After
/// an error the caller frees these.
fn insertion(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &InodeState,
    site: Site,
    hole: Hole,
    (data, new): (Run, Run),
) -> Result<(Draft, Run, Run)> {
    let change = site.rewrite(hole.piece(data)).ok_or(Error::FileTooLarge)?;
    let count = change.new_count;
    let geometry = core.geometry();
    let mut clusters = geometry.clusters_of(new);
    match allocate_nodes(core, handle, inode, state, site.node_goal(data), count) {
        Ok(nodes) => return Ok((Draft::new(core, site, change, nodes)?, data, new)),
        Err(Error::NoSpace) if clusters.count as usize > count => {}
        Err(error) => return Err(error),
    }
    clusters.count -= count as u32;
    let kept = geometry.blocks_of(clusters);
    let room = (kept.end().get() - data.first.get()) as u32;
    let less = Run {
        count: data.count.min(room),
        ..data
    };
    let change = site.rewrite(hole.piece(less));
    let change = change.filter(|change| change.new_count == count);
    let change = change.ok_or(Error::NoSpace)?;
    let nodes = (0..count as u64).map(|nth| geometry.first_block_in(clusters.end() + nth));
    Ok((Draft::new(core, site, change, nodes.collect())?, less, kept))
}

/// Converts a part of an unwritten extent that will be written.
fn write_into(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    site: Site,
    whole: Piece,
    part: Piece,
) -> Result<()> {
    let written = |piece: Piece| Piece {
        is_unwritten: rt::mutant!("unwritten/not-converted"),
        ..piece
    };
    let goal = site.node_goal(part.run());
    let nodes = match site.rewrite(written(part)) {
        None => Err(Error::NoSpace),
        Some(change) => allocate_nodes(core, handle, inode, state, goal, change.new_count)
            .map(|nodes| (change, nodes)),
    };
    let (change, nodes) = match nodes {
        Err(Error::NoSpace) => {
            // The blocks may have been journaled data before, in the log or on its way home, if a
            // range became unwritten or their cluster stayed: zeroes written past the log would
            // not last.
            let is_past_log = !rt::mutant!("unwritten/journaled-zeroed-past-log");
            if is_past_log && state.has_buffered_blocks(core) {
                return Err(Error::NoSpace);
            }
            let size = state.size;
            let (change, blocks) = without_split(core, inode, size, &site, whole, part)?;
            if !rt::mutant!("fast-commit/converted-sides-not-noted") {
                let from = FileBlock::new(blocks.start);
                handle.note_blocks(inode.nr, from, blocks.end - blocks.start);
            }
            (change, Vec::new())
        }
        nodes => nodes?,
    };
    Draft::new(core, site, change, nodes)?.write(core, handle, inode, state)
}

/// Returns a conversion that includes the part and needs no node, and the blocks that it converts,
/// after writing zeroes to those without the part. Blocks behind the part and the end of the file
/// stay unwritten: e2fsck takes others for contents.
fn without_split(
    core: &Core,
    inode: &Inode,
    size: u64,
    site: &Site,
    whole: Piece,
    part: Piece,
) -> Result<(Change, Range<u64>)> {
    let (first, last) = (whole.file_block, whole.end());
    let mut choices = [first..part.end(), part.file_block..last, first..last];
    choices.sort_by_key(|blocks| blocks.end - blocks.start);
    let size_blocks = size.div_ceil(u64::from(core.geometry().block_bytes));
    let end_max = size_blocks.max(part.end());
    for blocks in choices.into_iter().filter(|blocks| blocks.end <= end_max) {
        let piece = whole.part(blocks.clone()).expect("it has the part");
        let change = site.rewrite(Piece {
            is_unwritten: false,
            ..piece
        });
        let Some(change) = change.filter(|change| change.new_count == 0) else {
            continue;
        };
        let sides = [blocks.start..part.file_block, part.end()..blocks.end];
        for side in sides.into_iter().filter_map(|side| whole.part(side)) {
            if !rt::mutant!("extents/rest-not-zeroed") {
                zero_blocks(core, inode, side.run())?;
            }
        }
        return Ok((change, blocks));
    }
    Err(Error::NoSpace)
}

impl Site {
    /// Returns the change that puts an extent into its place. Returns none if the tree would be too
    /// deep.
    fn rewrite(&self, piece: Piece) -> Option<Change> {
        let blocks = piece.file_block..piece.end();
        self.path.rewrite(blocks, Some(piece))
    }

    /// Returns the goal of new nodes: behind the leaf, or behind the data of a root.
    pub(super) fn node_goal(&self, data: Run) -> BlockNr {
        match self.path.leaf_place() {
            Place::Block(block) => block + 1,
            Place::Root | Place::New(_) => data.end(),
        }
    }
}

/// The state before an allocation, to return to in the handle that allocated.
struct Undo {
    words: Words,
    sectors: u64,
    /// The nodes of the path, with their images.
    nodes: Vec<(Arc<Buffer>, Arc<Block>)>,
    taken: Taken,
}

impl Undo {
    fn of(site: &Site, state: &InodeState) -> Self {
        let buffers = site.buffers.iter();
        Self {
            words: state.words,
            sectors: state.sectors,
            nodes: buffers
                .map(|buffer| (Arc::clone(buffer), buffer.image()))
                .collect(),
            taken: Taken {
                data: NONE,
                new: NONE,
                nodes: Vec::new(),
            },
        }
    }

    /// Restores the nodes and frees the blocks. It needs neither credits nor revokes: every block
    /// that it changes is in the transaction already, and no older one can hold the freed blocks.
    fn run(
        self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
    ) -> Result<()> {
        *inode.map.lock() = MapCache::default();
        for (buffer, image) in self.nodes {
            let is_changed = !Arc::ptr_eq(&buffer.image(), &image);
            if is_changed {
                handle.replace(&buffer, image)?;
            }
        }
        for node in self.taken.nodes {
            handle.forget_new(node)?;
            let run = Run {
                first: node,
                count: 1,
            };
            core.free_blocks(handle, run)?;
        }
        if self.taken.new.count > 0 {
            core.free_blocks(handle, self.taken.new)?;
        }
        let claims = state.claims(handle);
        claims.words = self.words;
        claims.sectors = self.sectors;
        Ok(())
    }
}
