//! Mapping from blocks of a file to blocks of the device.
//!
//! A [`FileMap`] is the form in which an inode maps its blocks. It has all operations on the block
//! map: look-up, allocation, release, a walk, and the credits that these take. Callers do not
//! depend on the form.
//!
//! # Rules
//!
//! - Changes need the inode lock exclusively and a transaction; look-ups need it shared.
//! - Callers get the credits for mapping and unmapping from the map, and assume no depth.

mod built;
mod extents;
mod indirect;
mod moves;

use std::sync::Arc;

use jbd2::{Buffer, Credits};
use layout::extent::Extent;
use layout::inode_flags::InodeFlags;
use layout::{BlockNr, FileBlock, InodeNr};

use crate::cache::inode::Inode;
use crate::cache::space::zones::Holder;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::file_size;
use crate::disk::inode::InodeState;
use crate::disk::run::Run;
use crate::disk::words::Words;
use crate::error::{Corrupt, Error, Result};

pub(crate) use built::{MapBlocks, OldTree};
pub(crate) use moves::{allocate_nodes, no_extents, old_nodes, tree_blocks};

/// A part of a file's block map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mapped {
    /// An extent of mapped blocks.
    Run(Run),
    /// An extent of allocated blocks that read as zeroes.
    Unwritten(Run),
    /// A hole of at least this number of blocks.
    Hole(u64),
}

/// Blocks that a walk visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visited {
    /// Contents of the file, from this block on.
    Data(FileBlock),
    /// Allocated blocks that read as zeroes, from this block on.
    Unwritten(FileBlock),
    /// A block of the map itself.
    Map,
}

/// The state before a write of an extent that is mapped now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// It was mapped, with data of the file.
    Mapped,
    /// It was a hole: the device has no data of the file there.
    Hole,
    /// It was allocated and read as zeroes: the device has no data of the file there, either.
    Unwritten,
}

/// A move of all blocks of a file from one block on: `from` becomes `to`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shift {
    pub(crate) from: FileBlock,
    pub(crate) to: FileBlock,
}

impl Shift {
    /// Returns the place of its first step.
    pub(crate) fn first_step(self) -> FileBlock {
        match self.to < self.from {
            true => self.from,
            false => FileBlock::new(u64::MAX),
        }
    }
}

/// One of two files that exchange blocks, and the first block of it that does.
pub(crate) struct Exchanged<'f> {
    pub(crate) inode: &'f Inode,
    pub(crate) state: &'f mut InodeState,
    pub(crate) at: FileBlock,
}

impl Mapped {
    /// Returns the number of blocks that read as zeroes; none for an extent of data.
    pub(crate) fn zeroes(self) -> Option<u64> {
        match self {
            Self::Run(_) => None,
            Self::Unwritten(run) => Some(run.count.into()),
            Self::Hole(count) => Some(count),
        }
    }
}

/// The form of a file's block map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileMap {
    /// Direct pointers and trees of indirect blocks.
    Indirect,
    /// A tree of extents.
    Extents {
        /// Number of levels below the root, which credits depend on.
        depth: u16,
    },
    /// None: the contents lie within the inode. Nothing can be mapped before they have moved out.
    Inline,
}

/// An extent that can be unmapped: with blocks that are allocated for the block map, and not yet
/// part of it.
#[must_use = "the blocks are used or freed in the same handle"]
#[derive(Debug)]
pub(crate) struct Spare {
    from: FileBlock,
    run: Run,
    /// The blocks of the clusters that are free without it.
    freed: Run,
    nodes: Vec<BlockNr>,
}

impl Spare {
    /// Frees the blocks in the handle that allocated them.
    pub(crate) fn free(self, core: &Core, handle: &mut Handle<'_>) -> Result<()> {
        extents::free_spare(core, handle, &self.nodes)
    }
}

/// Sizes.
impl FileMap {
    /// The deepest tree of extents, for constants.
    pub(crate) const DEEPEST: Self = Self::Extents {
        depth: layout::extent::DEPTH_MAX,
    };

    /// Returns the size in bytes of the largest file with such a block map.
    pub(crate) fn size_max(self, core: &Core) -> u64 {
        let block_bytes = core.geometry().block_bytes;
        match self {
            // It gets a block map when it grows.
            Self::Inline if core.superblock.has_extents() => {
                Self::Extents { depth: 0 }.size_max(core)
            }
            Self::Indirect | Self::Inline => file_size::size_max(block_bytes),
            Self::Extents { .. } => {
                file_size::size_max_of_extents(block_bytes, core.superblock.has_huge_file())
            }
        }
    }
}

/// Operations.
impl FileMap {
    /// Returns the form of an inode's block map.
    pub(crate) fn of(state: &InodeState) -> Self {
        if state.is_inline() {
            return Self::Inline;
        }
        match state.flags.contains(InodeFlags::EXTENTS) {
            true => Self::Extents {
                depth: extents::depth_of(state),
            },
            false => Self::Indirect,
        }
    }

    /// Looks up at most `count_max` blocks from `from` on: one extent or one hole.
    pub(crate) fn find(
        self,
        core: &Core,
        inode: &Inode,
        state: &InodeState,
        from: FileBlock,
        count_max: u32,
    ) -> Result<Mapped> {
        match self {
            Self::Inline => Ok(Mapped::Hole(count_max.into())),
            Self::Indirect => indirect::find(core, inode, state, from, count_max),
            Self::Extents { .. } => extents::find(core, inode, state, from, count_max),
        }
    }

    /// Maps up to `count_max` blocks from `from` on and allocates holes. Returns one extent, and
    /// its state before. Changes `state` (words, sectors), which the caller stores. After an error
    /// no change remains.
    ///
    /// # Errors
    /// - [`Error::FileTooLarge`](crate::Error::FileTooLarge) for blocks beyond the reach of the
    ///   map.
    /// - [`Error::NoSpace`](crate::Error::NoSpace).
    pub(crate) fn find_or_allocate(
        self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        from: FileBlock,
        count_max: u32,
    ) -> Result<(Run, Before)> {
        let (run, before) = match self {
            Self::Inline => return Err(within_inode(core, inode, state)),
            Self::Indirect => {
                indirect::find_or_allocate(core, handle, inode, state, from, count_max)?
            }
            Self::Extents { .. } => {
                extents::find_or_allocate(core, handle, inode, state, from, count_max)?
            }
        };
        if before != Before::Mapped {
            handle.note_blocks(inode.nr, from, run.count.into());
        }
        Ok((run, before))
    }

    /// Returns true if the block map can have unwritten extents.
    pub(crate) fn has_unwritten(self) -> bool {
        match self {
            Self::Indirect | Self::Inline => false,
            Self::Extents { .. } => true,
        }
    }

    /// Allocates up to `count_max` unwritten blocks from `from` on. Returns the number of blocks
    /// from there on that are allocated now, or were before. Changes `state` as
    /// [`find_or_allocate`](Self::find_or_allocate) does, and fails as it.
    pub(crate) fn allocate_unwritten(
        self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        from: FileBlock,
        count_max: u32,
    ) -> Result<u32> {
        match self {
            Self::Inline => Err(within_inode(core, inode, state)),
            Self::Indirect => Err(none_unwritten()),
            Self::Extents { .. } => {
                let count =
                    extents::allocate_unwritten(core, handle, inode, state, from, count_max)?;
                handle.note_blocks(inode.nr, from, count.into());
                Ok(count)
            }
        }
    }

    /// Makes blocks that [`find`](Self::find) has just found unwritten: they read as zeroes and
    /// stay allocated. The caller has dropped their pages. After an error no change remains.
    pub(crate) fn mark_unwritten(
        self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        from: FileBlock,
        run: Run,
    ) -> Result<()> {
        handle.note_blocks(inode.nr, from, run.count.into());
        match self {
            Self::Inline => Err(within_inode(core, inode, state)),
            Self::Indirect => Err(none_unwritten()),
            Self::Extents { .. } => extents::mark_unwritten(core, handle, inode, state, from, run),
        }
    }

    /// Maps `count` blocks from `from` on, which is beyond the end of a directory: one by one, all
    /// or none. It never restarts the handle, because the caller is in the middle of an operation.
    ///
    /// # Errors
    /// Fails as [`find_or_allocate`](Self::find_or_allocate); nothing has changed then.
    pub(crate) fn allocate_each(
        self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        from: FileBlock,
        count: u64,
    ) -> Result<Vec<BlockNr>> {
        handle.note_blocks(inode.nr, from, count);
        match self {
            Self::Inline => Err(within_inode(core, inode, state)),
            Self::Indirect => indirect::allocate_each(core, handle, inode, state, from, count),
            Self::Extents { .. } => extents::allocate_each(core, handle, inode, state, from, count),
        }
    }

    /// Reads the blocks that [`unmap`](Self::unmap) will change, so that damage and read errors are
    /// found before the caller drops the pages of the extent. The caller holds the result until
    /// then.
    pub(crate) fn hold_for_unmap(
        self,
        core: &Core,
        inode: &Inode,
        state: &InodeState,
        from: FileBlock,
        run: Run,
    ) -> Result<Vec<Arc<Buffer>>> {
        match self {
            Self::Inline => Ok(Vec::new()),
            Self::Indirect => indirect::hold_for_unmap(core, inode, state, from, run),
            Self::Extents { .. } => extents::hold_for_unmap(core, inode, state, from, run),
        }
    }

    /// Allocates the blocks of the map that [`unmap`](Self::unmap) will need, before the caller
    /// drops the pages of the extent.
    ///
    /// # Errors
    /// - [`Error::NoSpace`](crate::Error::NoSpace); nothing has changed then.
    pub(crate) fn prepare_unmap(
        self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Inode,
        state: &InodeState,
        from: FileBlock,
        run: Run,
    ) -> Result<Spare> {
        let (nodes, freed) = match self {
            Self::Indirect | Self::Inline => (Vec::new(), run),
            Self::Extents { .. } => extents::prepare_unmap(core, handle, inode, state, from, run)?,
        };
        Ok(Spare {
            from,
            run,
            freed,
            nodes,
        })
    }

    /// Frees the extent that [`prepare_unmap`](Self::prepare_unmap) was called for, and leaves a
    /// hole. Changes the claims, which the caller stores. If it fails because of damage or a read
    /// error, the block map is as it was.
    pub(crate) fn unmap(
        self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        spare: Spare,
    ) -> Result<()> {
        let Spare {
            from,
            run,
            freed,
            nodes,
        } = spare;
        handle.note_blocks(inode.nr, from, run.count.into());
        match self {
            Self::Inline => Ok(()),
            Self::Indirect => indirect::unmap(core, handle, inode, state, from, run),
            Self::Extents { .. } => {
                extents::unmap(core, handle, inode, state, from, (run, freed), nodes)
            }
        }
    }

    /// Frees the blocks of the map on the path to a block of the file that map nothing any more.
    /// Changes `state` (words, sectors), which the caller stores. An extent tree has none after
    /// [`unmap`](Self::unmap).
    ///
    /// If it fails, empty blocks of the map may be left, which are harmless, and the block map is
    /// consistent.
    pub(crate) fn free_empty_maps(
        self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        from: FileBlock,
    ) -> Result<()> {
        match self {
            Self::Inline => Ok(()),
            Self::Indirect => indirect::free_empty_maps(core, handle, inode, state, from),
            Self::Extents { .. } => Ok(()),
        }
    }

    /// Frees the blocks from `from` to the end of the block map, a part for each transaction,
    /// restarting as needed. Data blocks that may be in the metadata cache are forgotten, with a
    /// revoke. The inode is stored at every restart; the caller stores it at the end, and finishes
    /// the transaction also after an error.
    pub(crate) fn free_from(
        self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        from: FileBlock,
    ) -> Result<()> {
        handle.note_blocks(inode.nr, from, u64::MAX);
        match self {
            Self::Inline => Ok(()),
            Self::Indirect => indirect::free_from(core, handle, inode, state, from),
            Self::Extents { .. } => extents::free_from(core, handle, inode, state, from),
        }
    }

    /// Returns true if nothing is mapped.
    pub(crate) fn is_empty(self, state: &InodeState) -> bool {
        match self {
            Self::Inline => true,
            Self::Indirect => indirect::is_empty(state),
            Self::Extents { .. } => extents::is_empty(state),
        }
    }

    /// Returns true if the file may have blocks from a block of the file on that lies beyond its
    /// end. Only files with extents do, preallocated ones.
    pub(crate) fn has_blocks_from(
        self,
        core: &Core,
        inode: &Inode,
        state: &InodeState,
        from: FileBlock,
    ) -> Result<bool> {
        match self {
            Self::Indirect | Self::Inline => Ok(false),
            Self::Extents { .. } => extents::has_blocks_from(core, inode, state, from),
        }
    }

    /// Frees the block of a new inode's first contents, if it has one, in the transaction that
    /// allocated it. Unlike [`free_from`](Self::free_from) it never restarts the handle: an inode
    /// without links would become durable.
    pub(crate) fn free_first(
        self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
    ) -> Result<()> {
        match self {
            Self::Inline => Ok(()),
            Self::Indirect => indirect::free_first(core, handle, state),
            Self::Extents { .. } => extents::free_first(core, handle, inode, state),
        }
    }

    /// Visits all blocks of the block map in file order: extents, and blocks of the map itself.
    /// Visits nothing if the inode has no block map.
    ///
    /// # Errors
    /// - [`Corrupt::Mapping`](crate::error::Corrupt::Mapping) and
    ///   [`Corrupt::MapCycle`](crate::error::Corrupt::MapCycle) for an invalid block map.
    pub(crate) fn walk(
        self,
        core: &Core,
        inode: &Inode,
        state: &InodeState,
        visit: &mut dyn FnMut(Visited, Run) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Inline => Ok(()),
            Self::Indirect => indirect::walk(core, inode, state, visit),
            Self::Extents { .. } => extents::walk(core, inode, state, visit),
        }
    }
}

/// Credits.
impl FileMap {
    /// Returns the number of blocks that mapping one new extent may dirty, those of the allocator
    /// and the inode included.
    pub(crate) const fn credits_to_map(self) -> u32 {
        match self {
            Self::Indirect | Self::Inline => indirect::CREDITS_MAP,
            Self::Extents { depth } => extents::credits_to_map(depth),
        }
    }

    /// Returns the number of blocks that mapping the new blocks of one directory entry may dirty:
    /// a leaf, and a block of the index. Includes those of the allocator and the inode.
    pub(crate) const fn credits_to_map_entry(self) -> u32 {
        match self {
            Self::Indirect | Self::Inline => indirect::CREDITS_ENTRY,
            Self::Extents { depth } => extents::credits_to_map_entry(depth),
        }
    }

    /// Returns the credits for [`unmap`](Self::unmap) of an extent of `count` blocks, with
    /// [`free_empty_maps`](Self::free_empty_maps) after it.
    pub(crate) const fn credits_to_unmap(self, count: u32) -> Credits {
        match self {
            Self::Indirect | Self::Inline => indirect::credits_to_unmap(count),
            Self::Extents { depth } => extents::credits_to_unmap(depth, count),
        }
    }

    /// Returns the credits with which a caller starts its handle for
    /// [`free_from`](Self::free_from): for its first part, and for finishing a deletion.
    pub(crate) const fn credits_to_free(self) -> Credits {
        match self {
            Self::Indirect | Self::Inline => indirect::CREDITS_FREE,
            Self::Extents { depth } => extents::credits_to_free(depth),
        }
    }
}

/// Builds the map of an inode, given with its generation, from its extents, which ascend and do not
/// overlap: an extent tree, or indirect blocks, which have no unwritten extents. Returns the words
/// of the inode.
///
/// # Errors
/// - [`Error::NoSpace`], [`Error::FileTooLarge`].
pub(crate) fn build_map(
    core: &Core,
    handle: &mut Handle<'_>,
    (owner, has_extents): ((InodeNr, u32), bool),
    extents: &[Extent],
    blocks: &mut MapBlocks,
) -> Result<Words> {
    blocks.is_narrow = !has_extents;
    match has_extents {
        true => extents::build(core, handle, owner, extents, blocks),
        false => indirect::build(core, handle, owner, extents, blocks),
    }
}

/// Returns the error for blocks of an inode that holds its contents itself, as no inode of the
/// volume's own does.
fn within_inode(core: &Core, inode: &Inode, state: &InodeState) -> Error {
    core.damaged(Corrupt::Inode {
        inode: inode.nr,
        field: "i_flags",
        value: u64::from(state.flags.bits()),
    })
}

fn none_unwritten() -> Error {
    Error::Unsupported("a map of indirect blocks has no unwritten extents".to_owned())
}

/// Checks an extent of a file: its blocks may belong to the file, and have the place in their
/// clusters that they have in those of the file.
fn check_extent(core: &Core, inode: &Inode, from: FileBlock, run: Run) -> Result<()> {
    check_data(core, inode, from, run)?;
    let size = u64::from(core.geometry().cluster_blocks());
    if from.get() % size == run.first.get() % size {
        return Ok(());
    }
    Err(core.damaged(Corrupt::Mapping {
        inode: inode.nr,
        file_block: from,
        block: run.first,
    }))
}

/// Checks that an extent may belong to the file: the journal has the blocks of the log, the orphan
/// file its own, and all other files have blocks of the data area.
fn check_data(core: &Core, inode: &Inode, from: FileBlock, run: Run) -> Result<()> {
    if core.is_data_run(run) {
        return Ok(());
    }
    let superblock = &core.superblock;
    let is_own = |holder, nr| nr == Some(inode.nr) && core.is_data_run_of(holder, run);
    if is_own(Holder::Log, superblock.journal_inode)
        || is_own(Holder::OrphanFile, superblock.orphan_file())
    {
        return Ok(());
    }
    Err(core.damaged(Corrupt::Mapping {
        inode: inode.nr,
        file_block: from,
        block: run.first,
    }))
}
