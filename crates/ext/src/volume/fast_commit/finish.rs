//! The end of a replay: block maps, bitmaps, inodes, orphans.

use std::collections::BTreeMap;

use jbd2::Credits;
use layout::extent::Extent;
use layout::inode::Inode as Base;
use layout::{BlockNr, InodeNr};
use rt::atomic::Ordering;
use zerocopy::FromBytes;

use super::file::File;
use super::pieces::Pieces;
use super::{Replay, contradiction};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::table;
use crate::disk::run::Run;
use crate::error::Result;
use crate::map::{MapBlocks, OldTree, build_map, old_nodes, tree_blocks};
use crate::orphan;

impl Replay<'_> {
    /// Writes what has been collected.
    pub(super) fn finish(self) -> Result<()> {
        let Self {
            core,
            mut files,
            reserved,
            gone,
            ..
        } = self;
        let mut handle = core.begin(Credits::default())?;
        let (mut kept, mut left) = (Pieces::default(), gone);
        let geometry = core.geometry();
        let whole = |run: Run| geometry.blocks_of(geometry.clusters_of(run));
        for run in reserved.runs() {
            left.add(run);
        }
        let mut extra_blocks = extra_blocks(core, &files);
        for file in files.values_mut() {
            let nodes = write_map(core, &mut handle, file, &mut extra_blocks)?;
            nodes.iter().for_each(|node| kept.add(whole(block(*node))));
            file.pieces.runs().for_each(|run| kept.add(whole(run)));
            file.old.iter().for_each(|run| left.add(whole(*run)));
        }
        for run in left.without(&kept).runs() {
            core.release_blocks(&mut handle, run)?;
        }
        for run in kept.runs() {
            core.take_blocks(&mut handle, run)?;
        }
        for file in files.values_mut() {
            write_inode(core, &mut handle, file)?;
        }
        handle.finish().map(drop)
    }
}

/// Returns the number of free blocks that are left if all block maps are as small as they can be.
fn extra_blocks(core: &Core, files: &BTreeMap<InodeNr, File>) -> u64 {
    let mut free = core.space.usable_clusters.load(Ordering::Acquire);
    let is_built = |file: &&File| file.is_remapped && file.is_mapped();
    for file in files.values().filter(is_built) {
        if !file.has_extents() {
            // The number of its nodes is not known.
            return 0;
        }
        let needed = tree_blocks(core, file.pieces.extents().len());
        free = free.saturating_sub(needed.saturating_sub(file.nodes.len()) as u64);
    }
    free
}

/// Returns the tree that a file has in the table, if its nodes can be kept: their checksums are of
/// its generation.
fn old_tree(core: &Core, file: &File, extra_blocks: u64) -> Result<OldTree> {
    if !file.is_loaded || !file.has_extents() {
        return Ok(OldTree::default());
    }
    let inode = Inode::load(core, file.nr)?;
    let state = inode.state.read();
    if state.generation != file.base().generation.get() {
        return Ok(OldTree::default());
    }
    let nodes = old_nodes(core, &inode, &state)?;
    let leaves = nodes.first().into_iter().flatten();
    let cuts = leaves.map(|leaf| leaf.file_block.into()).collect();
    Ok(OldTree {
        nodes,
        extents: file.pieces.extents_cut_at(&cuts),
        extra_blocks,
    })
}

/// Writes the block map of a file, if it has changed, and counts its sectors. Returns its nodes.
/// Takes the blocks that a smaller map would not have needed from `extra_blocks`.
fn write_map(
    core: &Core,
    handle: &mut Handle<'_>,
    file: &mut File,
    extra_blocks: &mut u64,
) -> Result<Vec<BlockNr>> {
    let mut nodes = file.nodes.clone();
    if file.is_remapped && file.is_mapped() {
        let (extents, has_extents) = (file.pieces.extents(), file.has_extents());
        if !has_extents && extents.iter().any(Extent::is_unwritten) {
            return Err(contradiction(
                file.nr,
                "it has no extents, which a range needs",
            ));
        }
        let owner = (file.nr, file.base().generation.get());
        let old = old_tree(core, file, *extra_blocks)?;
        let mut blocks = MapBlocks::new(file.nr, nodes).with_tree(old);
        let words = build_map(core, handle, (owner, has_extents), &extents, &mut blocks)?;
        file.base_mut().set_map(words.to_raw());
        let extra_count;
        (nodes, extra_count) = blocks.into_taken();
        *extra_blocks -= extra_count;
    } else if file.pieces != Pieces::default() && !file.is_mapped() {
        return Err(contradiction(file.nr, "it has no block map"));
    }
    let clusters = file.pieces.clusters(core.geometry().cluster_log) + nodes.len() as u64;
    let mapped = clusters * core.sectors_per_cluster();
    let sectors = file.other_sectors + mapped;
    let (has_huge_file, block_bytes) =
        (core.superblock.has_huge_file(), core.geometry().block_bytes);
    let base = file.base_mut();
    if !base.set_sectors(sectors, has_huge_file, block_bytes) {
        return Err(contradiction(file.nr, "it has too many blocks"));
    }
    Ok(nodes)
}

/// Writes an inode into the table, and onto the orphan list if it has no links.
fn write_inode(core: &Core, handle: &mut Handle<'_>, file: &mut File) -> Result<()> {
    let becomes_orphan = file.base().links_count.get() == 0 && !file.is_orphan;
    if becomes_orphan {
        file.set_links(|_| 1);
    }
    let nr = file.nr;
    let (table, offset) = core.table_of(nr)?;
    core.change_in_table(handle, nr, &table, |bytes| {
        let next_orphan = base_of(bytes).deletion_time;
        bytes.copy_from_slice(&file.bytes);
        if file.is_orphan {
            // Another orphan may have left the list meanwhile.
            base_of(bytes).deletion_time = next_orphan;
        }
    })?;
    let end = offset + file.bytes.len();
    let decoded = table::decode(
        &core.superblock,
        core.geometry(),
        nr,
        &table.read()[offset..end],
    );
    decoded?;
    if becomes_orphan {
        add_orphan(core, handle, nr)?;
    }
    Ok(())
}

/// Returns the fields of an inode of the table.
fn base_of(bytes: &mut [u8]) -> &mut Base {
    let (base, _) = Base::mut_from_prefix(bytes).expect("an inode has at least its base");
    base
}

/// Removes the last link of an inode.
fn add_orphan(core: &Core, handle: &mut Handle<'_>, nr: InodeNr) -> Result<()> {
    let inode = Inode::load(core, nr)?;
    let mut state = inode.state.write();
    state.claims(handle).links = 0;
    orphan::add(core, handle, nr, &mut state)?;
    state.store(core, handle, nr, true)
}

fn block(first: BlockNr) -> Run {
    Run { first, count: 1 }
}
