//! Moving blocks within a file and between two files, without copying data. Only extents can.

use jbd2::Credits;
use layout::extent::{ROOT_ENTRIES_MAX, capacity};
use layout::{BlockNr, FileBlock};

use super::built::OldNodes;
use super::{Exchanged, FileMap, Shift, Visited, extents};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::error::{Error, Result};

impl FileMap {
    /// Cuts the extent over a block into two, unless it starts there. Changes `state` (words,
    /// sectors), which the caller stores. The credits are those of a new extent.
    ///
    /// # Errors
    /// - [`Error::NoSpace`] if the map has no room for another extent; nothing has changed then.
    pub(crate) fn cut(
        self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        block: FileBlock,
    ) -> Result<()> {
        match self {
            Self::Extents { .. } => extents::cut(core, handle, inode, state, block),
            Self::Indirect | Self::Inline => Err(no_extents()),
        }
    }

    /// Moves a part of the blocks of a shift, and returns the place of the next step; none after
    /// the last one. The map is complete after each step. No extent lies over the first block, and
    /// none at the place that the blocks move to.
    pub(crate) fn shift_step(
        self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        shift: Shift,
        at: FileBlock,
    ) -> Result<Option<FileBlock>> {
        match self {
            Self::Extents { .. } => extents::shift_leaf(core, handle, inode, state, shift, at),
            Self::Indirect | Self::Inline => Err(no_extents()),
        }
    }

    /// Returns the credits for one step of a shift.
    pub(crate) const fn credits_to_shift(self) -> Credits {
        match self {
            Self::Extents { depth } => extents::credits_to_shift(depth),
            Self::Indirect | Self::Inline => extents::credits_to_shift(0),
        }
    }

    /// Returns the number of blocks of the map itself, after checking all of it.
    pub(crate) fn node_count(self, core: &Core, inode: &Inode, state: &InodeState) -> Result<u64> {
        let mut count = 0;
        self.walk(core, inode, state, &mut |visited, _| {
            count += u64::from(visited == Visited::Map);
            Ok(())
        })?;
        Ok(count)
    }

    /// Returns the number of blocks of the map itself, without reading the last level, or a number
    /// above `most` if there are more than that. Only extent trees are counted.
    pub(crate) fn node_count_to(
        self,
        core: &Core,
        inode: &Inode,
        state: &InodeState,
        most: u64,
    ) -> Result<u64> {
        match self {
            Self::Extents { .. } => extents::node_count_to(core, inode, state, most),
            Self::Indirect | Self::Inline => Ok(0),
        }
    }

    /// Exchanges blocks of two files with extents, as many as one step can, and at most
    /// `count_max`. Returns their number. Changes the states, which the caller stores.
    ///
    /// # Errors
    /// - [`Error::NoSpace`] if a map has no room for another extent; nothing has changed then.
    pub(crate) fn swap(
        core: &Core,
        handle: &mut Handle<'_>,
        files: [&mut Exchanged<'_>; 2],
        count_max: u64,
    ) -> Result<u64> {
        extents::swap(core, handle, files, count_max)
    }

    /// Returns the credits for [`swap`](Self::swap) of this file's part.
    pub(crate) const fn credits_to_swap(self) -> Credits {
        match self {
            Self::Extents { depth } => extents::credits_to_swap(depth),
            Self::Indirect | Self::Inline => extents::credits_to_swap(0),
        }
    }
}

/// Returns the error for a file without extents.
pub(crate) fn no_extents() -> Error {
    Error::Unsupported("only the blocks of a file with extents can be moved".to_owned())
}

/// Returns the nodes of an inode's tree, which a walk has found sound; none without extents.
pub(crate) fn old_nodes(core: &Core, inode: &Inode, state: &InodeState) -> Result<OldNodes> {
    match FileMap::of(state) {
        FileMap::Extents { .. } => extents::nodes(core, inode, state),
        FileMap::Indirect | FileMap::Inline => Ok(OldNodes::new()),
    }
}

/// Returns the number of blocks of a tree that [`build_map`](super::build_map) builds from this
/// number of extents, without the root.
pub(crate) fn tree_blocks(core: &Core, extents: usize) -> usize {
    let most = usize::from(capacity(core.block_bytes()));
    let (mut level, mut blocks) = (extents, 0);
    while level > usize::from(ROOT_ENTRIES_MAX) {
        level = level.div_ceil(most);
        blocks += level;
    }
    blocks
}

/// Allocates blocks for the nodes of a tree: all or none.
pub(crate) fn allocate_nodes(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &InodeState,
    goal: BlockNr,
    count: usize,
) -> Result<Vec<BlockNr>> {
    extents::allocate_nodes(core, handle, inode, state, goal, count)
}
