//! The inode that holds the reserved GDT blocks (`resize_inode`, inode 7).
//!
//! Its block map consists of one double indirect block. That block has one pointer for each
//! reserved GDT block, at the index of the descriptor block that the reserved block will become
//! (modulo the number of pointers in a block). The pointer names the reserved block in group 0,
//! which serves as an indirect block: its pointers name the corresponding blocks in the groups with
//! backups. So a volume grows by taking descriptor blocks out of this file one by one, in all
//! groups at once.
//!
//! Source: e2fsprogs' `resize2fs(8)` and the layout that e2fsck checks for inode 7.

use layout::inode::{DIRECT_BLOCKS, DOUBLE_INDIRECT_SLOT, InodeFlags};
use layout::{Block, InodeNr, mode};

use super::plan::Plan;
use crate::error::Result;
use crate::format::mkfs::image::{Image, NewInode};

/// Creates the inode and its indirect blocks.
pub(super) fn make(plan: &mut Plan, image: &mut Image) -> Result<()> {
    let geometry = plan.geometry.clone();
    let reserved = u32::from(geometry.reserved_descriptor_blocks);
    let root = image.take(plan, 1)?[0].first;
    let mut words = [0; 15];
    words[DOUBLE_INDIRECT_SLOT] = root.get() as u32;
    // The double indirect block exists even if nothing is reserved.
    let mut blocks = 1 + u64::from(reserved);
    let mut root_image = Block::zeroed(geometry.block_bytes as usize);
    let (first, _) = geometry.superblock_place();
    let copies: Vec<_> = geometry
        .groups()
        .skip(1)
        .filter(|group| geometry.has_super(*group))
        .collect();
    for index in 0..reserved {
        let number = geometry.descriptor_blocks() + index;
        let block = first + 1 + u64::from(number);
        let slot = (number % geometry.pointers_per_block()) as usize * 4;
        root_image[slot..slot + 4].copy_from_slice(&(block.get() as u32).to_le_bytes());
        let mut list = Block::zeroed(geometry.block_bytes as usize);
        for (pointer, group) in list.chunks_exact_mut(4).zip(&copies) {
            let copy = geometry.first_block_of(*group) + 1 + u64::from(number);
            pointer.copy_from_slice(&(copy.get() as u32).to_le_bytes());
        }
        blocks += copies.len() as u64;
        image.blocks.insert(block, list.into_arc());
    }
    image.blocks.insert(root, root_image.into_arc());
    let pointers = u64::from(geometry.pointers_per_block());
    let size =
        (pointers * pointers + pointers + DIRECT_BLOCKS as u64) * u64::from(geometry.block_bytes);
    if size > i32::MAX as u64 {
        use layout::feature::ReadOnlyCompatible;
        plan.features.read_only_compatible |= ReadOnlyCompatible::LARGE_FILE;
    }
    image.add_inode(
        plan,
        &NewInode {
            nr: InodeNr::RESIZE,
            mode: mode::REGULAR | 0o600,
            owner: (0, 0),
            links: 1,
            size,
            clusters: blocks,
            words,
            flags: InodeFlags::empty(),
        },
    );
    Ok(())
}
