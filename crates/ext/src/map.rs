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

mod extents;
mod indirect;

use std::sync::Arc;

use jbd2::{Buffer, Credits};
use layout::inode_flags::InodeFlags;
use layout::{BlockNr, FileBlock};

use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::disk::run::Run;
use crate::error::{Corrupt, Error, Result};

/// A part of a file's block map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mapped {
    /// An extent of mapped blocks.
    Run(Run),
    /// A hole of at least this number of blocks.
    Hole(u64),
}

/// The form of a file's block map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileMap {
    /// Direct pointers and trees of indirect blocks.
    Indirect,
    /// A tree of extents. It is read only: a volume that may have one is not opened for writing.
    Extents,
}

/// The credits of changes that are refused.
const NO_CREDITS: Credits = Credits {
    blocks: 0,
    revokes: 0,
};

/// Operations.
impl FileMap {
    /// Returns the form of an inode's block map.
    pub(crate) fn of(state: &InodeState) -> Self {
        match state.flags.contains(InodeFlags::EXTENTS) {
            true => Self::Extents,
            false => Self::Indirect,
        }
    }

    /// Looks up at most `count_max` blocks from `from` on: one extent or one hole. An unwritten
    /// extent reads as zeroes, and is a hole here.
    pub(crate) fn find(
        self,
        core: &Core,
        inode: &Inode,
        state: &InodeState,
        from: FileBlock,
        count_max: u32,
    ) -> Result<Mapped> {
        match self {
            Self::Indirect => indirect::find(core, inode, state, from, count_max),
            Self::Extents => extents::find(core, inode, state, from, count_max),
        }
    }

    /// Maps up to `count_max` blocks from `from` on and allocates holes. Returns one extent, and
    /// true if it is new. Changes `state` (words, sectors), which the caller stores. After an error
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
    ) -> Result<(Run, bool)> {
        match self {
            Self::Indirect => {
                indirect::find_or_allocate(core, handle, inode, state, from, count_max)
            }
            Self::Extents => Err(Error::ReadOnly),
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
        match self {
            Self::Indirect => indirect::allocate_each(core, handle, inode, state, from, count),
            Self::Extents => Err(Error::ReadOnly),
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
            Self::Indirect => indirect::hold_for_unmap(core, inode, state, from, run),
            Self::Extents => Err(Error::ReadOnly),
        }
    }

    /// Frees an extent that [`find`](Self::find) has just found, and leaves a hole. Changes the
    /// claims, which the caller stores. If it fails because of damage or a read error, the block
    /// map is as it was.
    pub(crate) fn unmap(
        self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        from: FileBlock,
        run: Run,
    ) -> Result<()> {
        match self {
            Self::Indirect => indirect::unmap(core, handle, inode, state, from, run),
            Self::Extents => Err(Error::ReadOnly),
        }
    }

    /// Frees the blocks of the map on the path to a block of the file that map nothing any more.
    /// Changes `state` (words, sectors), which the caller stores.
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
            Self::Indirect => indirect::free_empty_maps(core, handle, inode, state, from),
            Self::Extents => Err(Error::ReadOnly),
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
        match self {
            Self::Indirect => indirect::free_from(core, handle, inode, state, from),
            Self::Extents => Err(Error::ReadOnly),
        }
    }

    /// Frees the block of a new inode's first contents, if it has one, in the transaction that
    /// allocated it. Unlike [`free_from`](Self::free_from) it never restarts the handle: an inode
    /// without links would become durable.
    pub(crate) fn free_first(
        self,
        core: &Core,
        handle: &mut Handle<'_>,
        state: &mut InodeState,
    ) -> Result<()> {
        match self {
            Self::Indirect => indirect::free_first(core, handle, state),
            Self::Extents => Err(Error::ReadOnly),
        }
    }

    /// Visits all blocks of the block map in file order: data extents (`Some(first file block)`)
    /// and blocks of the map itself (`None`). Visits nothing if the inode has no block map.
    ///
    /// # Errors
    /// - [`Corrupt::Mapping`](crate::error::Corrupt::Mapping) and
    ///   [`Corrupt::MapCycle`](crate::error::Corrupt::MapCycle) for an invalid block map.
    pub(crate) fn walk(
        self,
        core: &Core,
        inode: &Inode,
        state: &InodeState,
        visit: &mut dyn FnMut(Option<FileBlock>, Run) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Indirect => indirect::walk(core, inode, state, visit),
            Self::Extents => extents::walk(core, inode, state, visit),
        }
    }
}

/// Credits.
impl FileMap {
    /// Returns the number of blocks that mapping one new extent may dirty, those of the allocator
    /// and the inode included.
    pub(crate) const fn credits_to_map(self) -> u32 {
        match self {
            Self::Indirect => indirect::CREDITS_MAP,
            Self::Extents => 0,
        }
    }

    /// Returns the number of blocks that mapping the new blocks of one directory entry may dirty:
    /// a leaf, and a block of the index. Includes those of the allocator and the inode.
    pub(crate) const fn credits_to_map_entry(self) -> u32 {
        match self {
            Self::Indirect => indirect::CREDITS_ENTRY,
            Self::Extents => 0,
        }
    }

    /// Returns the credits for [`unmap`](Self::unmap) of an extent of `count` blocks, with
    /// [`free_empty_maps`](Self::free_empty_maps) after it.
    pub(crate) const fn credits_to_unmap(self, count: u32) -> Credits {
        match self {
            Self::Indirect => indirect::credits_to_unmap(count),
            Self::Extents => NO_CREDITS,
        }
    }

    /// Returns the credits with which a caller starts its handle for
    /// [`free_from`](Self::free_from): for its first part, and for finishing a deletion.
    pub(crate) const fn credits_to_free(self) -> Credits {
        match self {
            Self::Indirect => indirect::CREDITS_FREE,
            Self::Extents => NO_CREDITS,
        }
    }
}

/// Checks that an extent may belong to the file: the journal has the blocks of the log, all other
/// files have blocks of the data area.
fn check_data(core: &Core, inode: &Inode, from: FileBlock, run: Run) -> Result<()> {
    let is_journal = core.superblock.journal_inode == Some(inode.nr);
    if core.is_data_run(run) || is_journal && core.is_outside_metadata(run) {
        return Ok(());
    }
    Err(core.damaged(Corrupt::Mapping {
        inode: inode.nr,
        file_block: from,
        block: run.first,
    }))
}
