//! The inode tables: the present ones are checked, and larger ones are written.

use core::ops::ControlFlow;
use std::sync::Arc;

use block::BlockDevice;
use layout::inode::{BASE_SIZE, EXTRA_SIZE, Inode};
use layout::mode::FileType;
use layout::{Block, BlockNr, InodeNr};
use zerocopy::FromBytes;

use super::Move;
use crate::disk::superblock::Superblock;
use crate::disk::tables::Tables;
use crate::error::{Error, Result};

/// Number of blocks of the shortest journal that e2fsck accepts.
const JOURNAL_BLOCKS_MIN: u64 = 1024;
/// Number of blocks of a new table written at a time.
const BATCH_BLOCKS: u32 = 256;

/// Checks the checksums of all inodes in use: a damaged inode would get a good one.
pub(super) fn check(device: &Arc<dyn BlockDevice>, superblock: &Superblock) -> Result<()> {
    let tables = Tables::open(device, superblock)?;
    if !superblock.checksums.has_tails() {
        return Ok(());
    }
    tables.visit(&mut |inode| {
        let checksums = superblock.checksums;
        checksums.check_inode(inode.nr, inode.bytes)?;
        Ok(ControlFlow::Continue(()))
    })
}

/// The place of a copy of the journal's inode: in its new table, where it would be if inodes had
/// their old size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JournalCopy {
    /// Byte offset of the inode on the device.
    from: u64,
    block: BlockNr,
    /// Byte offset of the copy in its block.
    offset: usize,
}

impl JournalCopy {
    /// Returns the place; none if the volume's journal is external.
    ///
    /// # Errors
    /// - [`Error::Unsupported`] if it is that of the start of another inode.
    pub(super) fn of(
        device: &Arc<dyn BlockDevice>,
        before: &Superblock,
        after: &Superblock,
        tables: &[Move],
    ) -> Result<Option<Self>> {
        let Some(nr) = before.journal_inode else {
            return Ok(None);
        };
        let geometry = &before.geometry;
        let (group, index) = geometry.group_of_inode(nr);
        let factor = u32::from(after.geometry.inode_bytes / geometry.inode_bytes);
        if index.is_multiple_of(factor) {
            return Err(Error::Unsupported(format!(
                "the size of inodes changes by way of the journal, which has to be in inode 8, and is in inode {nr}: make another one with tune -O ^has_journal, and then tune -j"
            )));
        }
        Self::check_twin(device, before, nr, factor)?;
        let table = tables[group.index()];
        let at = u64::from(index) * u64::from(geometry.inode_bytes);
        let block_bytes = u64::from(geometry.block_bytes);
        Ok(Some(Self {
            from: geometry.byte_offset(table.from.first) + at,
            block: table.to.first + at / block_bytes,
            offset: (at % block_bytes) as usize,
        }))
    }

    /// Checks the inode that lies in the old table where the journal's would be if inodes were
    /// larger. If the power fails during a replay, too, it may be read as the journal's: a large
    /// file would be taken for the journal where inodes have no checksums.
    fn check_twin(
        device: &Arc<dyn BlockDevice>,
        before: &Superblock,
        nr: InodeNr,
        factor: u32,
    ) -> Result<()> {
        let twin = InodeNr::new((nr.get() - 1) * factor + 1);
        if before.checksums.has_tails() || twin.get() > before.geometry.inodes_per_group {
            return Ok(());
        }
        let least = JOURNAL_BLOCKS_MIN * u64::from(before.geometry.block_bytes);
        let mut is_possible = false;
        Tables::open(device, before)?.visit(&mut |inode| {
            if inode.nr != twin {
                return Ok(ControlFlow::Continue(()));
            }
            let is_regular = FileType::from_mode(inode.base.mode.get()) == FileType::Regular;
            is_possible = is_regular && inode.base.size(true) >= least;
            Ok(ControlFlow::Break(()))
        })?;
        if is_possible {
            return Err(Error::Unsupported(format!(
                "inode {twin} is a large file, which a second power cut could make the journal: copy it to another file and remove it, or turn checksums on with tune -O metadata_csum"
            )));
        }
        Ok(())
    }

    /// Writes the copy into the new table. Returns the block without it.
    pub(super) fn make(
        self,
        device: &Arc<dyn BlockDevice>,
        before: &Superblock,
    ) -> Result<(BlockNr, Arc<Block>)> {
        let geometry = &before.geometry;
        let read = |start| device.read_block(start, geometry.block_bytes);
        let place = geometry.byte_offset(self.block);
        let without = read(place)?;
        let within = (self.from % u64::from(geometry.block_bytes)) as usize;
        let old = read(self.from - within as u64)?;
        let size = usize::from(geometry.inode_bytes);
        let mut with = Block::copy_from(&without);
        with[self.offset..self.offset + size].copy_from_slice(&old[within..within + size]);
        if !rt::mutant!("inode-size/journal-inode-not-copied") {
            device.write_blocks(place, vec![with.into_arc()])?;
        }
        Ok((self.block, without))
    }
}

/// Writes a new table, all of it. It is not flushed.
pub(super) fn make(
    device: &Arc<dyn BlockDevice>,
    before: &Superblock,
    after: &Superblock,
    table: &Move,
) -> Result<()> {
    let geometry = &before.geometry;
    let (block_bytes, factor) = (
        geometry.block_bytes,
        u32::from(after.geometry.inode_bytes / geometry.inode_bytes),
    );
    let per_block = block_bytes / u32::from(geometry.inode_bytes);
    let used = table.used.min(geometry.inodes_per_group);
    let used_blocks = used.div_ceil(per_block);
    let batch = BATCH_BLOCKS / factor;
    let at = |next: u32| geometry.byte_offset(table.to.first + u64::from(next));
    let mut next = 0;
    while next < used_blocks {
        let count = batch.min(used_blocks - next);
        let from = geometry.byte_offset(table.from.first + u64::from(next));
        let old = device.read_blocks(from, count, block_bytes)?;
        let mut new = Vec::new();
        for (nth, block) in (next..).zip(&old) {
            let index = nth * per_block;
            let left = (used - index).min(per_block);
            enlarge(before, after, table, (index, left), block, &mut new);
        }
        new.truncate((table.to.count - next * factor) as usize);
        device.write_blocks(at(next * factor), new)?;
        next += count;
    }
    let zeroes = Block::zeroed(block_bytes as usize).into_arc();
    let mut next = used_blocks * factor;
    while next < table.to.count {
        let count = BATCH_BLOCKS.min(table.to.count - next);
        device.write_blocks(at(next), vec![Arc::clone(&zeroes); count as usize])?;
        next += count;
    }
    Ok(())
}

/// Appends the blocks of larger inodes that one block of a table becomes. It starts with the inode
/// of an index, and has a number of them.
fn enlarge(
    before: &Superblock,
    after: &Superblock,
    table: &Move,
    (index, count): (u32, u32),
    block: &Block,
    new: &mut Vec<Arc<Block>>,
) {
    let (old_bytes, new_bytes) = (
        usize::from(before.geometry.inode_bytes),
        usize::from(after.geometry.inode_bytes),
    );
    let per_block = block.len() / new_bytes;
    let first = table.group.get() * before.geometry.inodes_per_group + index + 1;
    let inodes: Vec<(u32, &[u8])> = (first..)
        .zip(block.chunks_exact(old_bytes))
        .take(count as usize)
        .collect();
    for nth in 0..block.len() / old_bytes / per_block {
        let mut image = Block::zeroed(block.len());
        let inodes = inodes.iter().skip(nth * per_block).take(per_block);
        for ((nr, bytes), place) in inodes.zip(image.chunks_exact_mut(new_bytes)) {
            enlarge_inode(before, after, InodeNr::new(*nr), bytes, place);
        }
        new.push(image.into_arc());
    }
}

/// Copies an inode to a larger place, which has zeroes.
fn enlarge_inode(
    before: &Superblock,
    after: &Superblock,
    nr: InodeNr,
    bytes: &[u8],
    place: &mut [u8],
) {
    place[..bytes.len()].copy_from_slice(bytes);
    let is_empty = bytes.iter().all(|byte| *byte == 0);
    // One that is damaged is not in use, and stays damaged.
    if is_empty || before.checksums.check_inode(nr, bytes).is_err() {
        return;
    }
    let (base, _) = Inode::read_from_prefix(bytes).expect("an inode has its base");
    let has_kind = FileType::from_mode(base.mode.get()) != FileType::Unknown;
    if bytes.len() == BASE_SIZE && has_kind && base.links_count.get() > 0 {
        let extra = (EXTRA_SIZE as u16).to_le_bytes();
        place[BASE_SIZE..BASE_SIZE + extra.len()].copy_from_slice(&extra);
    }
    after.checksums.seal_inode(nr, place);
}
