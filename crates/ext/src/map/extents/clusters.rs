//! Clusters of a file (`bigalloc`): which one a hole lies in, and which are free without some
//! blocks.
//!
//! A cluster of the device holds one cluster of the file: aligned blocks of it, each in its place.
//! It belongs to the file while one of its blocks is mapped; the others are holes, which get their
//! place there and nowhere else.

use core::ops::Range;

use layout::{BlockNr, FileBlock};

use super::tree::Piece;
use super::{Tree, find};
use crate::disk::cluster::ClusterRun;
use crate::disk::run::Run;
use crate::error::Result;
use crate::map::Mapped;

/// An extent without blocks.
pub(super) const NONE: Run = Run {
    first: BlockNr::new(0),
    count: 0,
};

impl Tree<'_> {
    /// Returns the number of blocks in a cluster.
    fn cluster_blocks(&self) -> u64 {
        self.core.geometry().cluster_blocks().into()
    }

    /// Returns the first block that a range of the file has, if it has any.
    fn first_mapped(&self, blocks: Range<u64>) -> Result<Option<BlockNr>> {
        let mut at = blocks.start;
        while at < blocks.end {
            let left = (blocks.end - at) as u32;
            match find(self.core, self.inode, self.state, FileBlock::new(at), left)? {
                Mapped::Hole(count) => at = at.saturating_add(count),
                Mapped::Run(run) | Mapped::Unwritten(run) => return Ok(Some(run.first)),
            }
        }
        Ok(None)
    }

    /// Returns the place of a block in the cluster that the file has for it; none if it has none.
    pub(super) fn place_in_cluster(&self, block: u64) -> Result<Option<BlockNr>> {
        let within = block % self.cluster_blocks();
        let first = block - within;
        let found = self.first_mapped(first..first + self.cluster_blocks())?;
        let geometry = self.core.geometry();
        let start = |block| geometry.first_block_in(geometry.cluster_of(block));
        Ok(found.map(|block| start(block) + within))
    }

    /// Returns the end of the part of a hole that needs new clusters: the last cluster of the hole
    /// may be one that the file has for blocks behind it. The first one is none that it has.
    pub(super) fn end_of_new(&self, hole: Range<u64>) -> Result<u64> {
        let behind = hole.end % self.cluster_blocks();
        let cluster = hole.end - behind;
        if behind == 0 || cluster <= hole.start {
            return Ok(hole.end);
        }
        let others = hole.end..cluster + self.cluster_blocks();
        Ok(match self.first_mapped(others)? {
            Some(_) => cluster,
            None => hole.end,
        })
    }

    /// Returns the blocks of the clusters that are free without the blocks of an extent: those of
    /// which no other block is mapped. Blocks behind the extent are not looked at if they are
    /// `unmapped` together with it.
    pub(super) fn freed(&self, piece: Piece, unmapped: bool) -> Result<Run> {
        let geometry = self.core.geometry();
        if geometry.cluster_log == 0 {
            return Ok(piece.run());
        }
        let size = self.cluster_blocks();
        let start = piece.file_block - piece.file_block % size;
        let end = piece.end().next_multiple_of(size);
        let early = rt::mutant!("clusters/freed-with-blocks-in-use");
        let keeps_first = !early && self.first_mapped(start..piece.file_block)?.is_some();
        let keeps_last = !early && !unmapped && self.first_mapped(piece.end()..end)?.is_some();
        let clusters = geometry.clusters_of(piece.run());
        let first = clusters.first + u64::from(keeps_first);
        let kept = u32::from(keeps_first) + u32::from(keeps_last);
        let count = clusters.count.saturating_sub(kept);
        Ok(match count {
            0 => NONE,
            _ => geometry.blocks_of(ClusterRun { first, count }),
        })
    }
}
