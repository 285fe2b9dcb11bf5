//! Owners of blocks: one pass over the inode tables and the block maps of files.

use core::ops::ControlFlow;
use std::collections::{BTreeMap, BTreeSet};

use layout::inode::{DIRECT_BLOCKS, FAST_SYMLINK_MAX, InodeFlags, MAP_WORDS, POINTER_SIZE};
use layout::mode::FileType;
use layout::{BlockNr, FileBlock, InodeNr};

use super::BlockUse;
use crate::disk::extents::{Node, blocks_of};
use crate::disk::tables::{TableInode, Tables};
use crate::disk::words::Words;
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
        let attributes = BlockNr::new(inode.base.attribute_block(self.tables.is_64bit));
        self.note(attributes, BlockUse::Attributes { inode: nr });
        if self.has_map(inode) {
            let words = inode.base.map();
            let mut map = TableMap {
                search: self,
                inode: nr,
                kind: inode.kind,
                map_blocks: BTreeSet::new(),
            };
            if inode.base.flags().contains(InodeFlags::EXTENTS) {
                map.extents(&Words::from_raw(words).to_bytes())?;
            } else {
                map.pointers(&words)?;
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
        if inode.base.flags().contains(InodeFlags::INLINE_DATA) {
            return false;
        }
        match inode.kind {
            FileType::Regular | FileType::Directory => true,
            FileType::Symlink if self.tables.has_ea_inode => {
                inode.base.size(false) > FAST_SYMLINK_MAX as u64
            }
            FileType::Symlink => {
                let has_attributes = inode.base.attribute_block(self.tables.is_64bit) != 0;
                let cluster = u64::from(geometry.block_bytes / 512) << geometry.cluster_log;
                let attributes = u64::from(has_attributes) * cluster;
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
    /// Visits the blocks below direct pointers and the roots of the three indirect trees.
    fn pointers(&mut self, words: &[u32; MAP_WORDS]) -> Result<()> {
        self.data(0, &words[..DIRECT_BLOCKS]);
        let per_block = self.per_block();
        let (mut first, mut span) = (DIRECT_BLOCKS as u64, per_block);
        for (depth, word) in (1..).zip(&words[DIRECT_BLOCKS..]) {
            self.tree(*word, depth, first)?;
            first += span;
            span *= per_block;
        }
        Ok(())
    }

    /// Visits the blocks of an extent tree below a node; a damaged node hides those below it.
    fn extents(&mut self, bytes: &[u8]) -> Result<()> {
        let Ok(node) = Node::decode(bytes) else {
            return Ok(());
        };
        for at in 0..node.count() {
            if node.depth() == 0 {
                let extent = node.extent(at);
                let blocks = (extent.start()..).map(BlockNr::new);
                for (file_block, block) in blocks_of(extent).zip(blocks) {
                    self.data_block(file_block, block);
                }
                continue;
            }
            let block = BlockNr::new(node.index(at).node());
            let can_be = self.search.tables.geometry.contains(block);
            if !can_be || !self.map_blocks.insert(block) {
                continue;
            }
            let child = self.search.tables.block(block)?;
            let depth = node.depth() - 1;
            let is_below = Node::decode(&child).is_ok_and(|child| child.depth() == depth);
            if is_below {
                let (inode, depth) = (self.inode, depth as u8);
                self.search
                    .note(block, BlockUse::ExtentNode { inode, depth });
                self.extents(&child)?;
            }
        }
        Ok(())
    }

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
        for (file_block, pointer) in (first..)
            .zip(pointers)
            .filter(|(_, pointer)| **pointer != 0)
        {
            self.data_block(file_block, BlockNr::new(u64::from(*pointer)));
        }
    }

    fn data_block(&mut self, file_block: u64, block: BlockNr) {
        let (inode, file_block) = (self.inode, FileBlock::new(file_block));
        let found = match self.kind {
            FileType::Directory => BlockUse::Directory { inode, file_block },
            FileType::Symlink => BlockUse::LinkTarget { inode },
            _ => BlockUse::Data { inode, file_block },
        };
        self.search.note(block, found);
    }
}
