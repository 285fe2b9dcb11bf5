//! The orphan file of a new volume (`orphan_file`): its slots are empty.
//!
//! Source: its size is compared with that of mke2fs in the tests.

use layout::inode::InodeFlags;
use layout::orphan::{TAIL_SIZE, Tail};
use layout::{Block, BlockNr};
use zerocopy::IntoBytes;

use super::hidden_file::{self, Hidden};
use super::image::Image;
use super::plan::Plan;
use crate::error::Result;

/// Least and largest number of blocks of the file.
const BLOCKS: core::ops::RangeInclusive<u64> = 32..=512;
/// Number of blocks of the volume for each block of the file.
const BLOCKS_PER_BLOCK: u64 = 4096;

/// Creates the file.
pub(super) fn make(plan: &Plan, image: &mut Image) -> Result<()> {
    let goal = plan.geometry.first_data_block;
    let count = block_count(plan.geometry.block_count);
    let file = Hidden {
        nr: plan.orphan_file(),
        goal,
        size: u64::from(count) * u64::from(plan.geometry.block_bytes),
        flags: InodeFlags::empty(),
    };
    let file = hidden_file::add(plan, image, &file)?;
    for run in file.data {
        for index in 0..u64::from(run.count) {
            let block = run.first + index;
            image.blocks.insert(block, empty(plan, block).into_arc());
        }
    }
    Ok(())
}

/// Returns the number of blocks of the file on a volume with so many.
pub(crate) fn block_count(volume_blocks: u64) -> u32 {
    (volume_blocks / BLOCKS_PER_BLOCK).clamp(*BLOCKS.start(), *BLOCKS.end()) as u32
}

/// Returns a block without orphans.
fn empty(plan: &Plan, block: BlockNr) -> Block {
    let mut bytes = Block::zeroed(plan.geometry.block_bytes as usize);
    let sum = plan.sums.orphan_block(plan.orphan_file(), block, &bytes);
    let at = bytes.len() - TAIL_SIZE;
    bytes[at..].copy_from_slice(Tail::new(sum).as_bytes());
    bytes
}
