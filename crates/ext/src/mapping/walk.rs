//! Visiting a whole map.

use layout::{BlockNr, FileBlock};

use super::path::tree;
use super::{DIRECT, check_data, check_map_block, pointers};
use crate::core::Core;
use crate::error::Result;
use crate::inode::{Inode, InodeState};
use crate::space::Run;

/// What is called for every run: `Some(first file block)` for data, `None` for a map block.
type Visit<'v> = &'v mut dyn FnMut(Option<FileBlock>, Run) -> Result<()>;

/// All blocks of the file's map in file order: data runs (`Some(first file block)`) and map blocks (`None`).
pub(crate) fn walk(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    visit: &mut dyn FnMut(Option<FileBlock>, Run) -> Result<()>,
) -> Result<()> {
    if !state.has_map(core) {
        return Ok(());
    }
    visit_runs(core, inode, 0, &state.words[..DIRECT as usize], visit)?;
    for depth in 1..=3 {
        let pointer = state.words[DIRECT as usize + depth as usize - 1];
        if pointer != 0 {
            let (first, _) = tree(depth, core.geometry.pointers_per_block());
            let block = check_map_block(core, inode, FileBlock::new(first), pointer)?;
            visit_tree(core, inode, block, depth, first, visit)?;
        }
    }
    Ok(())
}

fn visit_tree(
    core: &Core,
    inode: &Inode,
    block: BlockNr,
    depth: u32,
    first: u64,
    visit: Visit<'_>,
) -> Result<()> {
    visit(
        None,
        Run {
            first: block,
            count: 1,
        },
    )?;
    let children: Vec<u32> = pointers(&core.buffers.get(block)?.read()).collect();
    if depth == 1 {
        return visit_runs(core, inode, first, &children, visit);
    }
    let span = u64::from(core.geometry.pointers_per_block()).pow(depth - 1);
    for (pointer, child_first) in children.into_iter().zip((first..).step_by(span as usize)) {
        if pointer != 0 {
            let child = check_map_block(core, inode, FileBlock::new(child_first), pointer)?;
            visit_tree(core, inode, child, depth - 1, child_first, visit)?;
        }
    }
    Ok(())
}

fn visit_runs(
    core: &Core,
    inode: &Inode,
    first: u64,
    pointers: &[u32],
    visit: Visit<'_>,
) -> Result<()> {
    for (start, run) in runs(pointers) {
        let file_block = FileBlock::new(first + start as u64);
        check_data(core, inode, file_block, run)?;
        visit(Some(file_block), run)?;
    }
    Ok(())
}

/// The runs in a list of pointers, each with the index of its first.
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
