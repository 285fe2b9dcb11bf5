//! Owners of blocks: one pass over the inode tables and the block maps of files.

use core::ops::ControlFlow;
use std::collections::{BTreeMap, BTreeSet};

use layout::inode::{DIRECT_BLOCKS, InodeFlags, POINTER_SIZE};
use layout::mode::FileType;
use layout::{BlockNr, FileBlock, InodeNr};

use super::BlockUse;
use crate::disk::tables::{TableInode, Tables};
use crate::error::Result;

/// Returns the use of the wanted blocks; [`BlockUse::Unknown`] for those without a known owner.
pub(super) fn find(
    tables: &Tables<'_>,
    wanted: BTreeSet<BlockNr>,
) -> Result<BTreeMap<BlockNr, BlockUse>> {
    let mut search = Search {
        tables,
        wanted,
        found: BTreeMap::new(),
    };
    if !search.wanted.is_empty() {
        tables.visit(&mut |inode| search.look_at(inode))?;
    }
    let Search {
        wanted, mut found, ..
    } = search;
    let unknown = wanted.into_iter().map(|block| (block, BlockUse::Unknown));
    found.extend(unknown);
    Ok(found)
}

struct Search<'t> {
    tables: &'t Tables<'t>,
    /// The blocks whose owners are still to be found.
    wanted: BTreeSet<BlockNr>,
    found: BTreeMap<BlockNr, BlockUse>,
}

/// The block map of one file.
struct TableMap<'s, 't> {
    search: &'s mut Search<'t>,
    inode: InodeNr,
    kind: FileType,
    /// The indirect blocks visited so far: a damaged block map may contain a cycle.
    map_blocks: BTreeSet<BlockNr>,
}

impl<'t> Search<'t> {
    fn look_at(&mut self, inode: &TableInode<'_>) -> Result<ControlFlow<()>> {
        let nr = inode.nr;
        let attributes = BlockNr::new(inode.base.attribute_block(false));
        self.note(attributes, BlockUse::Attributes { inode: nr });
        if self.has_map(inode) {
            let words = inode.base.map();
            let mut map = TableMap {
                search: self,
                inode: nr,
                kind: inode.kind,
                map_blocks: BTreeSet::new(),
            };
            map.data(0, &words[..DIRECT_BLOCKS]);
            let per_block = map.per_block();
            let (mut first, mut span) = (DIRECT_BLOCKS as u64, per_block);
            for (depth, word) in (1..).zip(&words[DIRECT_BLOCKS..]) {
                map.tree(*word, depth, first)?;
                first += span;
                span *= per_block;
            }
        }
        Ok(if self.wanted.is_empty() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    }

    /// Returns true if the words are a block map.
    fn has_map(&self, inode: &TableInode<'_>) -> bool {
        let geometry = self.tables.geometry;
        if inode
            .base
            .flags()
            .intersects(InodeFlags::EXTENTS | InodeFlags::INLINE_DATA)
        {
            return false;
        }
        match inode.kind {
            FileType::Regular | FileType::Directory => true,
            FileType::Symlink => {
                let has_attributes = inode.base.attribute_block(false) != 0;
                let attributes = u64::from(has_attributes) * u64::from(geometry.block_bytes / 512);
                inode.base.sectors(false, geometry.block_bytes) > attributes
            }
            _ => false,
        }
    }

    fn note(&mut self, block: BlockNr, found: BlockUse) {
        if self.wanted.remove(&block) {
            self.found.insert(block, found);
        }
    }
}

impl TableMap<'_, '_> {
    fn per_block(&self) -> u64 {
        u64::from(self.search.tables.geometry.pointers_per_block())
    }

    /// Visits an indirect block and the blocks below it; `first` is the first block of the file
    /// that it maps.
    fn tree(&mut self, pointer: u32, depth: u8, first: u64) -> Result<()> {
        let block = BlockNr::new(u64::from(pointer));
        let can_be = self.search.tables.geometry.contains(block);
        if pointer == 0 || !can_be || !self.map_blocks.insert(block) {
            return Ok(());
        }
        let inode = self.inode;
        self.search.note(block, BlockUse::Map { inode, depth });
        let bytes = self.search.tables.block(block)?;
        let pointers: Vec<u32> = bytes
            .chunks_exact(POINTER_SIZE)
            .map(|raw| u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]))
            .collect();
        if depth == 1 {
            self.data(first, &pointers);
            return Ok(());
        }
        let span = self.per_block().pow(u32::from(depth) - 1);
        for (index, pointer) in (0..).zip(pointers) {
            self.tree(pointer, depth - 1, first + index * span)?;
        }
        Ok(())
    }

    fn data(&mut self, first: u64, pointers: &[u32]) {
        let inode = self.inode;
        for (file_block, pointer) in (first..)
            .zip(pointers)
            .filter(|(_, pointer)| **pointer != 0)
        {
            let file_block = FileBlock::new(file_block);
            let found = match self.kind {
                FileType::Directory => BlockUse::Directory { inode, file_block },
                FileType::Symlink => BlockUse::LinkTarget { inode },
                _ => BlockUse::Data { inode, file_block },
            };
            self.search.note(BlockNr::new(u64::from(*pointer)), found);
        }
    }
}
