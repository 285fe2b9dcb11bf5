//! Migration of a file from a block map of indirect blocks to extents (`chattr +e`).
//!
//! The data stays where it is. The tree is made, the inode changes and the indirect blocks are
//! freed in one transaction, so that a crash leaves the file with one map or the other.

use std::sync::Arc;

use jbd2::Credits;
use layout::FileBlock;
use layout::extent::{Extent, count_max};
use layout::inode_flags::InodeFlags;

use crate::alloc::CREDITS_PER_GROUP;
use crate::cache::inode::{Inode, MapCache};
use crate::core::Core;
use crate::disk::inode::{InodeState, now};
use crate::disk::run::Run;
use crate::error::{Error, Result};
use crate::file::live::check_live;
use crate::file::truncate::finish_cut;
use crate::file::{ahead, delayed, inline};
use crate::map::{FileMap, MapBlocks, Visited, allocate_nodes, build_map, tree_blocks};

/// Number of blocks that a handle needs besides those of the maps: the inode.
const CREDITS_BASE: u32 = 1;

/// The map of a file.
#[derive(Default)]
struct Found {
    extents: Vec<Extent>,
    /// The indirect blocks.
    blocks: Vec<Run>,
}

/// Gives a file extents. Takes the inode lock.
///
/// # Errors
/// - [`Error::Unsupported`] if the volume has no extents, or the indirect blocks are too many for
///   one transaction.
/// - [`Error::NoSpace`] if the volume has no blocks for the tree; nothing has changed then.
pub(crate) fn use_extents(core: &Core, inode: &Arc<Inode>) -> Result<()> {
    core.check_writable()?;
    if !core.superblock.has_extents() {
        return Err(Error::Unsupported(
            "the volume has no extents: jext tune -O extent gives it the feature".to_owned(),
        ));
    }
    delayed::with_space(core, || migrate(core, inode, &mut inode.state.write()))
}

fn migrate(core: &Core, inode: &Arc<Inode>, state: &mut InodeState) -> Result<()> {
    check_live(state)?;
    ahead::settle(inode);
    if state.is_inline() {
        return inline::move_out(core, inode, state);
    }
    if FileMap::of(state) != FileMap::Indirect {
        return Ok(());
    }
    if core.geometry().cluster_blocks() > 1 {
        return Err(Error::Unsupported(
            "a block map among clusters (bigalloc) is damage: e2fsck -f repairs it".to_owned(),
        ));
    }
    let _table = core.hold_table(inode.nr)?;
    finish_cut(core, inode, state)?;
    let found = Found::of(core, inode, state)?;
    let mut held = Vec::new();
    for run in &found.blocks {
        held.extend(core.check_parts(*run)?);
    }
    let node_count = tree_blocks(core, found.extents.len());
    let mut handle = core.begin(found.credits(core, node_count)?)?;
    let goal = core.block_goal(inode.nr, true);
    let nodes = match allocate_nodes(core, &mut handle, inode, state, goal, node_count) {
        Ok(nodes) => nodes,
        Err(error) => {
            handle.finish()?;
            return Err(error);
        }
    };
    let owner = (inode.nr, state.generation);
    let mut blocks = MapBlocks::new(inode.nr, nodes);
    let words = build_map(
        core,
        &mut handle,
        (owner, true),
        &found.extents,
        &mut blocks,
    )?;
    for run in &found.blocks {
        core.free_buffered(&mut handle, *run)?;
    }
    let unit = core.sectors_per_block();
    let claims = state.claims(&mut handle);
    claims.words = words;
    claims.sectors -= (found.blocks.len() as u64 * unit).min(claims.sectors);
    claims.sectors += node_count as u64 * unit;
    state.flags |= InodeFlags::EXTENTS;
    state.ctime = now();
    *inode.map.lock() = MapCache::default();
    state.store(core, &mut handle, inode.nr, true)?;
    handle.finish().map(drop)
}

impl Found {
    /// Reads a whole block map.
    fn of(core: &Core, inode: &Inode, state: &InodeState) -> Result<Self> {
        let mut found = Self::default();
        let most = count_max(false);
        FileMap::of(state).walk(core, inode, state, &mut |visited, run| {
            match visited {
                Visited::Data(first) => found.add(first, run, most),
                Visited::Map => found.blocks.push(run),
                Visited::Unwritten(_) => {}
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Adds blocks behind those that are there.
    fn add(&mut self, first: FileBlock, run: Run, most: u32) {
        let mut run = run;
        let mut first = first;
        if let Some(last) = self.extents.last_mut() {
            let count = u32::from(last.block_count());
            let continues = u64::from(last.file_block.get()) + u64::from(count) == first.get()
                && last.start() + u64::from(count) == run.first.get();
            let more = if continues {
                run.count.min(most - count)
            } else {
                0
            };
            if more > 0 {
                let start = layout::BlockNr::new(last.start()).get();
                *last = Extent::new(last.file_block.get(), count + more, start, false);
                first = first + u64::from(more);
                run = Run {
                    first: run.first + u64::from(more),
                    count: run.count - more,
                };
            }
        }
        while run.count > 0 {
            let count = run.count.min(most);
            let start = run.first.get();
            self.extents
                .push(Extent::new(first.get() as u32, count, start, false));
            first = first + u64::from(count);
            run = Run {
                first: run.first + u64::from(count),
                count: run.count - count,
            };
        }
    }

    /// Returns the credits for exchanging the map for a tree with this number of blocks.
    fn credits(&self, core: &Core, nodes: usize) -> Result<Credits> {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX / 8);
        let (nodes, freed) = (count(nodes), count(self.blocks.len()));
        let groups = (nodes + freed).min(core.geometry().group_count);
        let credits = Credits {
            blocks: groups * CREDITS_PER_GROUP + nodes + CREDITS_BASE,
            revokes: freed,
        };
        let most = core.max_credits().unwrap_or(u32::MAX);
        if credits.blocks > most || credits.revokes > most {
            return Err(Error::Unsupported(format!(
                "the block map has {freed} blocks, too many for one transaction of the journal: a copy of the file has extents"
            )));
        }
        Ok(credits)
    }
}
