//! Allocation of blocks for holes.
//!
//! Steps that can fail come first: the path is walked, the missing indirect blocks and the data are
//! allocated, and only then pointers are written. When space runs out meanwhile, the allocated
//! blocks are freed in the same transaction, and the block map is as it was.
//!
//! # Goals
//!
//! The goal is the block after the one allocated last, if the file continues there; else after the
//! nearest block before it in the same indirect block; else after the indirect block; else in the
//! inode's group. Indirect blocks are placed in the same way, so that they lie between the data.

use layout::{Block, BlockNr, FileBlock};

use super::block::{self, Indirect, Readable, label};
use super::path::Path;
use super::{
    DIRECT, check_clusters, check_map_block, pointers, read_pointer, roots, roots_mut, scan,
};
use crate::alloc::{BlockRequest, FilePlace};
use crate::cache::inode::{Found, Inode, MapCache};
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::disk::run::Run;
use crate::error::{Error, Result};
use crate::map::{Before, Mapped};
use crate::tuning::Allocator;

/// Maps up to `count_max` blocks from `from` on and allocates holes. Returns one extent, and
/// its state before. Changes `state` (words, sectors), which the caller stores. After an error no
/// change remains.
///
/// # Errors
/// - [`Error::FileTooLarge`] for blocks beyond the reach of the trees.
/// - [`Error::NoSpace`].
pub(in crate::map) fn find_or_allocate(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    from: FileBlock,
    count_max: u32,
) -> Result<(Run, Before)> {
    let site = Site::of(core, inode, state, from, count_max)?;
    if let Mapped::Run(run) = site.mapped {
        return Ok((run, Before::Mapped));
    }
    check_clusters(core, inode, state)?;
    let taken = allocate_at(core, handle, inode, state, &site)?;
    Ok((taken.data, Before::Hole))
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
    check_clusters(core, inode, state)?;
    let was_stored = state.is_stored();
    let mut done: Vec<(Site, Option<Taken>)> = Vec::new();
    let mut blocks = Vec::new();
    for index in 0..count {
        let next = Site::of(core, inode, state, from + index, 1).and_then(|site| {
            if let Mapped::Run(run) = site.mapped {
                return Ok((run.first, site, None));
            }
            let taken = allocate_at(core, handle, inode, state, &site)?;
            Ok((taken.data.first, site, Some(taken)))
        });
        match next {
            Ok((block, site, taken)) => {
                blocks.push(block);
                done.push((site, taken));
            }
            Err(error) => {
                for (site, taken) in done.iter().rev() {
                    if let Some(taken) = taken {
                        taken.undo(core, handle, inode, state, site)?;
                    }
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

/// Allocates blocks for a hole.
fn allocate_at(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    site: &Site,
) -> Result<Taken> {
    let from = site.from;
    let path = &site.path;
    site.check_parent(core, inode)?;
    let taken = Taken::allocate(core, handle, inode, state, site)?;
    taken.link(core, handle, inode, state, site)?;
    let blocks = u64::from(site.missing()) + u64::from(taken.data.count);
    state.claims(handle).sectors += blocks * core.sectors_per_block();
    let mut cache = inode.map.lock();
    cache.next = Some((
        from.get() + u64::from(taken.data.count),
        taken.data.first + u64::from(taken.data.count),
    ));
    if path.depth > 0 {
        let leaf = if site.missing() > 0 {
            taken.maps[site.missing() as usize - 1]
        } else {
            site.leaf()
        };
        cache.found = Found::Leaf(path.leaf_first(from), leaf);
    }
    drop(cache);
    Ok(taken)
}

/// A place in the trees at which something is missing.
struct Site {
    path: Path,
    from: FileBlock,
    /// The existing indirect blocks on the path.
    parents: [BlockNr; 3],
    /// Number of existing indirect blocks on the path.
    level: usize,
    /// The current mapping: an extent, or a hole that one extent may fill.
    mapped: Mapped,
    goal: BlockNr,
    /// The last of the parents, which gets the pointer: reading it after the allocation could fail.
    held: Option<Readable>,
}

impl Site {
    fn of(
        core: &Core,
        inode: &Inode,
        state: &InodeState,
        from: FileBlock,
        count_max: u32,
    ) -> Result<Self> {
        let per_block = core.geometry().pointers_per_block();
        let path = Path::of(from, per_block).ok_or(Error::FileTooLarge)?;
        Self::locate(core, inode, state, path, from, count_max.max(1))
    }

    fn locate(
        core: &Core,
        inode: &Inode,
        state: &InodeState,
        path: Path,
        from: FileBlock,
        count_max: u32,
    ) -> Result<Self> {
        let none = BlockNr::new(0);
        let mapped = Mapped::Hole(1);
        let mut site = Self {
            path,
            from,
            parents: [none; 3],
            level: 0,
            mapped,
            goal: none,
            held: None,
        };
        let cached = inode.map.lock().leaf();
        match cached {
            Some((first, leaf)) if path.depth == 1 && first == path.leaf_first(from) => {
                site.parents[0] = leaf;
                site.level = 1;
            }
            _ => site.descend(core, inode, state)?,
        }
        if let Some(parent) = site.parents[..site.level].last()
            && !rt::mutant!("map/parent-not-held")
        {
            site.held = Some(block::hold(core, *parent, label(inode, state))?);
        }
        site.look(core, inode, state, count_max)?;
        site.choose_goal(core, inode, state)?;
        Ok(site)
    }

    fn descend(&mut self, core: &Core, inode: &Inode, state: &InodeState) -> Result<()> {
        let mut pointer = roots(state)[self.path.root];
        while self.level < self.path.depth && pointer != 0 {
            let block = check_map_block(core, inode, self.from, pointer)?;
            self.parents[self.level] = block;
            self.level += 1;
            if self.level < self.path.depth {
                let index = self.path.offsets[self.level - 1];
                pointer = read_pointer(core, block, label(inode, state), index)?;
            }
        }
        Ok(())
    }

    /// Looks up the current mapping, if the path is complete.
    fn look(
        &mut self,
        core: &Core,
        inode: &Inode,
        state: &InodeState,
        count_max: u32,
    ) -> Result<()> {
        let path = &self.path;
        self.mapped = if path.depth == 0 {
            let words = &roots(state)[path.root..DIRECT as usize];
            scan(core, inode, self.from, count_max, words.iter().copied())?
        } else if self.missing() > 0 {
            let behind = core.geometry().pointers_per_block() - path.offsets[path.depth - 1];
            Mapped::Hole(u64::from(behind.min(count_max)))
        } else {
            let found = block::read(core, self.leaf(), label(inode, state))?;
            let bytes = found.buffer.read();
            let start = path.offsets[path.depth - 1] as usize * 4;
            scan(core, inode, self.from, count_max, pointers(&bytes[start..]))?
        };
        Ok(())
    }

    fn choose_goal(&mut self, core: &Core, inode: &Inode, state: &InodeState) -> Result<()> {
        if let Mapped::Run(_) = self.mapped {
            return Ok(());
        }
        if let Some((block, goal)) = inode.map.lock().next
            && block == self.from.get()
        {
            self.goal = goal;
        } else if self.path.depth == 0 {
            let before = roots(state)[..self.path.root]
                .iter()
                .rev()
                .find(|word| **word != 0);
            self.goal = before.map_or(BlockNr::new(0), |word| BlockNr::new(u64::from(*word) + 1));
        } else if self.level > 0 {
            self.goal = self.parents[self.level - 1] + 1;
            if self.missing() == 0 {
                let found = block::read(core, self.leaf(), label(inode, state))?;
                let bytes = found.buffer.read();
                let end = self.path.offsets[self.path.depth - 1] as usize * 4;
                let last = pointers(&bytes[..end])
                    .filter(|pointer| *pointer != 0)
                    .last();
                if let Some(pointer) = last {
                    self.goal = BlockNr::new(u64::from(pointer) + 1);
                }
            }
        }
        if !core.geometry().contains(self.goal) {
            self.goal = core.block_goal(inode.nr, state.kind == FileKind::Regular);
        }
        Ok(())
    }

    /// Returns the number of missing indirect blocks.
    fn missing(&self) -> u32 {
        (self.path.depth - self.level) as u32
    }

    fn leaf(&self) -> BlockNr {
        self.parents[self.path.depth - 1]
    }

    /// Returns the last of the parents, which gets the pointer; none if the inode gets it.
    fn parent(&self) -> Option<Indirect> {
        let level = self.level.checked_sub(1)?;
        let block = self.parents[level];
        Some(self.path.indirect(self.from, level, block))
    }

    /// Checks that the parent can be changed.
    fn check_parent(&self, core: &Core, inode: &Inode) -> Result<()> {
        match (self.parent(), &self.held) {
            (Some(parent), Some(held)) => parent.check(core, inode, held),
            _ => Ok(()),
        }
    }
}

/// The blocks allocated for one site.
struct Taken {
    maps: [BlockNr; 3],
    data: Run,
}

impl Taken {
    fn allocate(
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Inode,
        state: &InodeState,
        site: &Site,
    ) -> Result<Self> {
        let takes_runs = core.tuning.allocator != Allocator::Forward;
        let wanted = match site.mapped {
            Mapped::Hole(count) if takes_runs => u32::try_from(count).unwrap_or(u32::MAX),
            _ => 1,
        };
        let sectors = u64::from(wanted + site.missing()) * core.sectors_per_block();
        if state.sectors + sectors > u64::from(u32::MAX) {
            return Err(Error::FileTooLarge);
        }
        let has_window = core.has_window(state.kind, site.from.get());
        let window = has_window.then_some(&inode.window);
        let place = FilePlace {
            from: site.from.get(),
            size_blocks: state.size.div_ceil(core.geometry().block_bytes.into()),
            is_final: false,
            is_delayed: false,
        };
        let request = |goal, count_max, is_data: bool| BlockRequest {
            owner: inode.nr,
            goal,
            count_max,
            window,
            place: (is_data && has_window).then_some(place),
            is_narrow: true,
        };
        let mut maps = [BlockNr::new(0); 3];
        let mut goal = site.goal;
        for index in 0..=site.missing() as usize {
            let is_data = index == site.missing() as usize;
            let count_max = if is_data { wanted } else { 1 };
            match core.allocate_blocks(handle, &request(goal, count_max, is_data)) {
                Ok(data) if is_data => return Ok(Self { maps, data }),
                Ok(run) => maps[index] = run.first,
                Err(error) => {
                    for block in &maps[..index] {
                        core.free_blocks(
                            handle,
                            Run {
                                first: *block,
                                count: 1,
                            },
                        )?;
                    }
                    return Err(error);
                }
            }
            goal = maps[index] + 1;
            if !core.geometry().contains(goal) {
                goal = site.goal;
            }
        }
        unreachable!("the data comes last")
    }

    /// Removes the pointers and frees the blocks, in the handle that allocated them. It needs
    /// neither credits nor revokes: every block that it changes is in the transaction already, and
    /// no older one can hold the freed blocks.
    fn undo(
        &self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        site: &Site,
    ) -> Result<()> {
        *inode.map.lock() = MapCache::default();
        let missing = site.missing() as usize;
        let count = if missing > 0 {
            1
        } else {
            self.data.count as usize
        };
        if let Some(parent) = site.parent() {
            let buffer = parent.get(core, inode, label(inode, state))?;
            let at = site.path.offsets[site.level - 1] as usize * 4;
            handle.write(&buffer)?[at..at + count * 4].fill(0);
        } else {
            let root = site.path.root;
            roots_mut(state.claims(handle))[root..root + count].fill(0);
        }
        for map in &self.maps[..missing] {
            handle.forget_new(*map)?;
            let run = Run {
                first: *map,
                count: 1,
            };
            core.free_blocks(handle, run)?;
        }
        core.free_blocks(handle, self.data)?;
        let blocks = missing as u64 + u64::from(self.data.count);
        let claims = state.claims(handle);
        claims.sectors = claims
            .sectors
            .saturating_sub(blocks * core.sectors_per_block());
        Ok(())
    }

    /// Writes the pointers: new indirect blocks first, then the pointer that makes them part of the
    /// file.
    fn link(
        &self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        site: &Site,
    ) -> Result<()> {
        let missing = site.missing() as usize;
        let path = &site.path;
        let label = label(inode, state);
        for index in (0..missing).rev() {
            let mut image = Block::zeroed(core.block_bytes());
            let at = path.offsets[site.level + index] as usize;
            if index + 1 == missing {
                write_run(&mut image, at, self.data);
            } else {
                write_run(
                    &mut image,
                    at,
                    Run {
                        first: self.maps[index + 1],
                        count: 1,
                    },
                );
            }
            let buffer = core.buffers.get_new(self.maps[index], label);
            handle.replace(&buffer, image.into_arc())?;
        }
        let top = if missing > 0 {
            Run {
                first: self.maps[0],
                count: 1,
            }
        } else {
            self.data
        };
        if let Some(parent) = site.parent() {
            let buffer = parent.get(core, inode, label)?;
            let mut bytes = handle.write(&buffer)?;
            write_run(&mut bytes, path.offsets[site.level - 1] as usize, top);
        } else {
            for step in 0..top.count {
                roots_mut(state.claims(handle))[path.root + step as usize] =
                    top.first.get() as u32 + step;
            }
        }
        Ok(())
    }
}

/// Writes the pointers to an extent from an index on.
fn write_run(bytes: &mut [u8], index: usize, run: Run) {
    let slots = bytes[index * 4..].chunks_exact_mut(4);
    for (slot, step) in slots.zip(0..run.count) {
        slot.copy_from_slice(&(run.first.get() as u32 + step).to_le_bytes());
    }
}
