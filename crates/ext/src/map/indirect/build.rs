//! Building a whole map of indirect blocks from the extents of a file.

use layout::extent::Extent;
use layout::inode::MAP_WORDS;
use layout::{Block, InodeNr};

use super::{DEPTH_MAX, DIRECT};
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::metadata::{Kind, Label};
use crate::disk::words::Words;
use crate::error::{Error, Result};
use crate::map::built::MapBlocks;

/// Builds the map of an inode; see [`build_map`](crate::map::build_map).
pub(in crate::map) fn build(
    core: &Core,
    handle: &mut Handle<'_>,
    (nr, generation): (InodeNr, u32),
    extents: &[Extent],
    blocks: &mut MapBlocks,
) -> Result<Words> {
    let label = Kind::Indirect.of_inode(nr, generation);
    let mut tree = Tree {
        core,
        extents,
        label,
    };
    let mut words = [0; MAP_WORDS];
    for (word, at) in words.iter_mut().zip(0..DIRECT) {
        *word = tree.pointer(handle, at, 0, blocks)?;
    }
    let per_block = u64::from(core.geometry().pointers_per_block());
    let mut first = DIRECT;
    for level in 1..=DEPTH_MAX {
        let word = DIRECT as usize + level as usize - 1;
        words[word] = tree.pointer(handle, first, level, blocks)?;
        first += per_block.pow(level);
    }
    let end = extents.last().map_or(0, |last| {
        u64::from(last.file_block.get()) + u64::from(last.block_count())
    });
    match end > first {
        true => Err(Error::FileTooLarge),
        false => Ok(Words::from_raw(words)),
    }
}

/// The file, and what its blocks are.
struct Tree<'t> {
    core: &'t Core,
    extents: &'t [Extent],
    label: Label,
}

impl Tree<'_> {
    /// Returns the pointer to what maps the blocks from `first` on, a number of levels above them;
    /// 0 if there are none.
    fn pointer(
        &mut self,
        handle: &mut Handle<'_>,
        first: u64,
        level: u32,
        blocks: &mut MapBlocks,
    ) -> Result<u32> {
        let per_block = u64::from(self.core.geometry().pointers_per_block());
        let next = self
            .extents
            .partition_point(|extent| end_of(extent) <= first);
        let Some(extent) = self.extents.get(next) else {
            return Ok(0);
        };
        let from = u64::from(extent.file_block.get());
        if level == 0 {
            let within = first.checked_sub(from);
            return within.map_or(Ok(0), |within| narrow(extent.start() + within));
        }
        if from >= first + per_block.pow(level) {
            return Ok(0);
        }
        let block = blocks.take(self.core, handle)?;
        let mut image = Block::zeroed(self.core.block_bytes());
        for (index, raw) in image.chunks_exact_mut(4).enumerate() {
            let first = first + index as u64 * per_block.pow(level - 1);
            let pointer = self.pointer(handle, first, level - 1, blocks)?;
            raw.copy_from_slice(&pointer.to_le_bytes());
        }
        let buffer = self.core.buffers.get_new(block, self.label);
        handle.replace(&buffer, image.into_arc())?;
        narrow(block.get())
    }
}

/// Returns the file block after an extent.
fn end_of(extent: &Extent) -> u64 {
    u64::from(extent.file_block.get()) + u64::from(extent.block_count())
}

/// Returns a block number as a pointer.
fn narrow(block: u64) -> Result<u32> {
    u32::try_from(block).map_err(|_| Error::FileTooLarge)
}
