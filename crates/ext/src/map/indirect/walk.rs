//! Visiting a whole block map.
//!
//! A damaged block map may contain a cycle. The walk follows each indirect block once, and visits
//! no more blocks than the volume has, so that it ends and its memory stays small.

use std::collections::BTreeSet;

use layout::{BlockNr, FileBlock};

use super::block::{self, label};
use super::path::tree;
use super::{DIRECT, check_map_block, pointers, roots};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::inode::InodeState;
use crate::disk::metadata::Label;
use crate::disk::run::Run;
use crate::error::{Corrupt, Result};
use crate::map::{Visited, check_data};

/// Visits all blocks of the file's block map in file order: data extents (`Some(first file block)`)
/// and indirect blocks (`None`).
///
/// # Errors
/// - [`Corrupt::Mapping`], [`Corrupt::MapCycle`] for an invalid block map.
pub(in crate::map) fn walk(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    visit: &mut dyn FnMut(Visited, Run) -> Result<()>,
) -> Result<()> {
    if !state.has_map(core) {
        return Ok(());
    }
    let mut walk = Walk {
        core,
        inode,
        label: label(inode, state),
        visit,
        map_blocks: BTreeSet::new(),
        data_blocks_left: core.geometry().block_count,
    };
    walk.runs(0, &roots(state)[..DIRECT as usize])?;
    for depth in 1..=3 {
        let pointer = roots(state)[DIRECT as usize + depth as usize - 1];
        if pointer != 0 {
            let (first, _) = tree(depth, core.geometry().pointers_per_block());
            walk.tree(pointer, depth, first)?;
        }
    }
    Ok(())
}

struct Walk<'a> {
    core: &'a Core,
    inode: &'a Inode,
    /// The label of the indirect blocks.
    label: Label,
    /// Callback for every extent: `Some(first file block)` for data, `None` for an indirect block.
    visit: &'a mut dyn FnMut(Visited, Run) -> Result<()>,
    /// The indirect blocks visited so far.
    map_blocks: BTreeSet<BlockNr>,
    /// Number of data blocks that may still follow.
    data_blocks_left: u64,
}

impl Walk<'_> {
    /// Visits an indirect block and the blocks below it.
    fn tree(&mut self, pointer: u32, depth: u32, first: u64) -> Result<()> {
        let block = check_map_block(self.core, self.inode, FileBlock::new(first), pointer)?;
        if !self.map_blocks.insert(block) {
            return Err(self.circle(block));
        }
        let run = Run {
            first: block,
            count: 1,
        };
        (self.visit)(Visited::Map, run)?;
        let found = block::read(self.core, block, self.label)?;
        let children: Vec<u32> = pointers(&found.buffer.read()).collect();
        if depth == 1 {
            return self.runs(first, &children);
        }
        let span = u64::from(self.core.geometry().pointers_per_block()).pow(depth - 1);
        for (pointer, child_first) in children.into_iter().zip((first..).step_by(span as usize)) {
            if pointer != 0 {
                self.tree(pointer, depth - 1, child_first)?;
            }
        }
        Ok(())
    }

    fn runs(&mut self, first: u64, pointers: &[u32]) -> Result<()> {
        for (start, run) in runs(pointers) {
            let file_block = FileBlock::new(first + start as u64);
            check_data(self.core, self.inode, file_block, run)?;
            let left = self.data_blocks_left.checked_sub(u64::from(run.count));
            self.data_blocks_left = left.ok_or_else(|| self.circle(run.first))?;
            (self.visit)(Visited::Data(file_block), run)?;
        }
        Ok(())
    }

    fn circle(&self, block: BlockNr) -> crate::error::Error {
        let inode = self.inode.nr;
        self.core.damaged(Corrupt::MapCycle { inode, block })
    }
}

/// Returns the extents in a list of pointers, each with the index of its first.
pub(super) fn runs(pointers: &[u32]) -> impl Iterator<Item = (usize, Run)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while *pointers.get(at)? == 0 {
            at += 1;
        }
        let (start, first) = (at, pointers[at]);
        while at < pointers.len()
            && u64::from(pointers[at]) == u64::from(first) + (at - start) as u64
        {
            at += 1;
        }
        let run = Run {
            first: BlockNr::new(u64::from(first)),
            count: (at - start) as u32,
        };
        Some((start, run))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_at_holes_and_jumps() {
        let pointers = [0, 5, 6, 7, 0, 8, 20, 19, 0];
        let found: Vec<_> = runs(&pointers)
            .map(|(at, run)| (at, run.first.get(), run.count))
            .collect();
        assert_eq!(found, [(1, 5, 3), (5, 8, 1), (6, 20, 1), (7, 19, 1)]);
    }
}
