//! Indirect blocks in memory.

use std::sync::Arc;

use jbd2::Buffer;
use layout::{BlockNr, FileBlock};

use super::pointer_at;
use crate::cache::buffers::{DamagedBlock, Refused};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::inode::InodeState;
use crate::disk::metadata::{Kind, Label};
use crate::error::{Corrupt, Error, Result};

/// An indirect block of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Indirect {
    /// Its place on the device.
    pub(super) block: BlockNr,
    /// The first file block below it.
    pub(super) first: FileBlock,
    /// Number of file blocks below each of its pointers.
    pub(super) span: u64,
}

/// An indirect block for reading. If it is damaged, this is a copy of it.
pub(super) struct Readable {
    pub(super) buffer: Arc<Buffer>,
    /// Offset of the first damage in bytes.
    damage: Option<usize>,
}

/// Returns the label of an inode's indirect blocks.
pub(super) fn label(inode: &Inode, state: &InodeState) -> Label {
    Kind::Indirect.of_inode(inode.nr, state.generation)
}

/// Returns an indirect block for reading: sound pointers of a damaged block can still be followed.
pub(super) fn read(core: &Core, block: BlockNr, label: Label) -> Result<Readable> {
    readable(core.buffers.get(block, label))
}

/// Returns the same as [`read`], for a caller that reads the block before anything changes.
pub(super) fn hold(core: &Core, block: BlockNr, label: Label) -> Result<Readable> {
    readable(core.buffers.hold(block, label))
}

fn readable(found: Result<Arc<Buffer>, Refused>) -> Result<Readable> {
    match found {
        Ok(buffer) => Ok(Readable {
            buffer,
            damage: None,
        }),
        Err(Refused::Damaged(DamagedBlock { copy, bad })) => Ok(Readable {
            buffer: copy,
            damage: Some(bad.offset),
        }),
        Err(Refused::Failed(error)) => Err(error),
    }
}

impl Indirect {
    /// Returns the block for a change, for which the whole block has to be sound.
    pub(super) fn get(self, core: &Core, inode: &Inode, label: Label) -> Result<Arc<Buffer>> {
        let found = read(core, self.block, label)?;
        self.check(core, inode, &found)?;
        Ok(found.buffer)
    }

    /// Checks that the block can be changed.
    pub(super) fn check(self, core: &Core, inode: &Inode, found: &Readable) -> Result<()> {
        match found.damage {
            None => Ok(()),
            Some(offset) => Err(self.damaged(core, inode, &found.buffer, offset)),
        }
    }

    /// Returns the error of the pointer at an offset. A sound pointer is not the damage: then the
    /// block itself belongs to something else.
    fn damaged(self, core: &Core, inode: &Inode, copy: &Buffer, offset: usize) -> Error {
        let index = offset / 4;
        let pointer = BlockNr::new(pointer_at(&copy.read(), index).into());
        let is_sound = pointer.get() == 0 || core.geometry().contains(pointer);
        core.damaged(Corrupt::Mapping {
            inode: inode.nr,
            file_block: self.first + index as u64 * self.span,
            block: if is_sound { self.block } else { pointer },
        })
    }
}
