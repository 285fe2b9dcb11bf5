//! Files of a new volume without a name: the internal journal, and the orphan file.

use layout::inode::InodeFlags;
use layout::{Block, BlockNr, InodeNr, mode};

use super::extents::Tree;
use super::image::{Image, NewInode};
use super::map;
use super::plan::Plan;
use crate::disk::run::Run;
use crate::error::Result;

/// The blocks of a file, and its block map.
pub(super) struct HiddenFile {
    pub(super) data: Vec<Run>,
    pub(super) words: [u32; 15],
    flags: InodeFlags,
    /// The blocks of the block map.
    nodes: Vec<(BlockNr, Block)>,
}

/// A file to add.
pub(super) struct Hidden {
    pub(super) nr: InodeNr,
    /// The place of its blocks.
    pub(super) goal: BlockNr,
    /// Size in bytes.
    pub(super) size: u64,
    pub(super) flags: InodeFlags,
}

/// Adds a file without contents.
pub(super) fn add(plan: &Plan, image: &mut Image, hidden: &Hidden) -> Result<HiddenFile> {
    let Hidden { nr, goal, .. } = *hidden;
    let block_bytes = u64::from(plan.geometry.block_bytes);
    let count = hidden.size.div_ceil(block_bytes) as u32;
    let mut file = if plan.has_extents() {
        file_of_extents(plan, image, nr, goal, count)?
    } else {
        indirect_file(plan, image, goal, count)?
    };
    let nodes = core::mem::take(&mut file.nodes).into_iter();
    let node_count = nodes.len() as u64;
    image
        .blocks
        .extend(nodes.map(|(block, bytes)| (block, bytes.into_arc())));
    image.add_inode(
        plan,
        &NewInode {
            nr,
            mode: mode::REGULAR | 0o600,
            owner: (0, 0),
            links: 1,
            size: hidden.size,
            clusters: u64::from(count.div_ceil(plan.geometry.cluster_blocks())) + node_count,
            words: file.words,
            flags: file.flags | hidden.flags,
        },
    );
    Ok(file)
}

fn indirect_file(plan: &Plan, image: &mut Image, goal: BlockNr, count: u32) -> Result<HiddenFile> {
    let geometry = &plan.geometry;
    let map_count = map::map_blocks(geometry, u64::from(count));
    let map_runs = image.take_at(plan, goal, map_count)?;
    let behind = map_runs.last().map_or(goal, |run| run.end());
    let behind = if geometry.contains(behind) {
        behind
    } else {
        geometry.first_data_block
    };
    let data = image.take_at(plan, behind, u64::from(count))?;
    let (words, nodes) = map::build(geometry, &data, &map_runs);
    Ok(HiddenFile {
        data,
        words,
        flags: InodeFlags::empty(),
        nodes,
    })
}

fn file_of_extents(
    plan: &Plan,
    image: &mut Image,
    nr: InodeNr,
    goal: BlockNr,
    count: u32,
) -> Result<HiddenFile> {
    let data = image.take_at(plan, goal, u64::from(count))?;
    let tree = Tree::new(&data, plan.geometry.block_bytes);
    let places = image.take_each(plan, goal, tree.node_count())?;
    let (words, nodes) = tree.build(&places, plan.sums.owner(nr));
    Ok(HiddenFile {
        data,
        words,
        flags: InodeFlags::EXTENTS,
        nodes,
    })
}
