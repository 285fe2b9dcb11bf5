//! A change of an inode's attributes: decided while nothing has changed yet, with its blocks read,
//! then made within a transaction.

use std::sync::Arc;

use jbd2::{Buffer, Credits};
use layout::attribute::{INODE_HEADER_SIZE, MAGIC};
use layout::feature::Compatible;
use layout::inode::BASE_SIZE;
use layout::superblock::GOOD_OLD_REVISION;
use layout::{BlockNr, InodeNr};

use super::block;
use super::placement::{Placed, Room};
use super::set::AttributeSet;
use crate::alloc::CREDITS_PER_GROUP;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::disk::inode::table::fits_sectors;
use crate::error::{Corrupt, Error, Result};

/// Number of blocks that a change may dirty besides the inode: an allocated and a released block
/// with their bitmaps and descriptors, and the superblock.
const CREDITS: u32 = 2 * CREDITS_PER_GROUP + 3;

/// A decided change. It holds the blocks that it needs in memory.
pub(crate) struct Change {
    /// The new attributes within the inode, if they change.
    inode: Option<AttributeSet>,
    /// The new attributes of the block, if they change.
    block: Option<AttributeSet>,
    /// True if the superblock does not have the feature yet.
    is_first: bool,
    _held: Vec<Arc<Buffer>>,
}

/// Returns the attributes of an inode, and the room for them.
pub(super) fn read(core: &Core, nr: InodeNr, state: &InodeState) -> Result<(Placed, Room)> {
    let mut placed = Placed::default();
    let mut room = Room::of(core.geometry(), 0);
    if usize::from(core.geometry().inode_bytes) > BASE_SIZE {
        let (buffer, offset) = core.hold_table_of(nr)?;
        let bytes = buffer.read();
        let inode = &bytes[offset..offset + usize::from(core.geometry().inode_bytes)];
        let extra = crate::disk::inode::extra_size(inode);
        room = Room::of(core.geometry(), extra);
        if let Some((MAGIC, place)) = place_of(inode, extra) {
            let corrupt = |why| core.damaged(Corrupt::Attributes { inode: nr, why });
            placed.inode = AttributeSet::decode(place, 0).map_err(corrupt)?;
        }
    }
    if state.attribute_block != BlockNr::new(0) {
        placed.block = block::read(core, nr, state.attribute_block)?;
    }
    Ok((placed, room))
}

/// Returns the magic of the part within an inode, and the place after it; none if there is no room
/// for one.
fn place_of(inode: &[u8], extra: usize) -> Option<(u32, &[u8])> {
    if extra == 0 {
        return None;
    }
    let tail = inode.get(BASE_SIZE + extra..)?;
    let (magic, place) = tail.split_first_chunk::<INODE_HEADER_SIZE>()?;
    Some((u32::from_le_bytes(*magic), place))
}

impl Change {
    /// Prepares the change from the old to the new attributes.
    ///
    /// # Errors
    /// - [`Error::FileTooLarge`] if the block count of a damaged inode has no room for a block.
    pub(super) fn new(
        core: &Core,
        nr: InodeNr,
        state: &InodeState,
        old: &Placed,
        new: Placed,
    ) -> Result<Self> {
        let raw = core.superblock_now()?;
        let has_features = raw.revision.get() != GOOD_OLD_REVISION;
        if !has_features {
            let text = "an original-revision file system has no attributes; tune2fs -O ext_attr gives it features";
            return Err(Error::Unsupported(text.to_owned()));
        }
        let block = (old.block != new.block).then_some(new.block);
        let has_new_block = block.is_some() && state.attribute_block == BlockNr::new(0);
        let sectors = state.sectors + core.sectors_per_block();
        if has_new_block && !fits_sectors(&core.superblock, sectors) {
            return Err(Error::FileTooLarge);
        }
        let held = match &block {
            Some(set) => block::hold(core, nr, state.attribute_block, set)?,
            None => Vec::new(),
        };
        Ok(Self {
            inode: (old.inode != new.inode).then_some(new.inode),
            block,
            is_first: !raw.features().compatible.contains(Compatible::EXT_ATTR),
            _held: held,
        })
    }

    /// Returns the credits for blocks besides the inode.
    pub(crate) fn credits(&self) -> Credits {
        Credits {
            blocks: CREDITS,
            revokes: 1,
        }
    }

    /// Makes the first half of the change: allocates and releases blocks. The caller stores the
    /// inode next.
    ///
    /// # Errors
    /// - [`Error::NoSpace`] if no block is left: nothing has changed then.
    pub(crate) fn change_blocks(
        &self,
        core: &Core,
        handle: &mut Handle<'_>,
        nr: InodeNr,
        state: &mut InodeState,
    ) -> Result<()> {
        if let Some(set) = &self.block {
            block::change(core, handle, nr, state, set)?;
        }
        if self.is_first {
            core.with_superblock(handle, |raw| {
                let features = raw.features().compatible | Compatible::EXT_ATTR;
                raw.compatible_bits.set(features.bits());
            })?;
        }
        Ok(())
    }

    /// Makes the second half of the change: writes the attributes within the stored inode.
    pub(crate) fn change_inode(
        &self,
        core: &Core,
        handle: &mut Handle<'_>,
        nr: InodeNr,
    ) -> Result<()> {
        let Some(set) = &self.inode else {
            return Ok(());
        };
        let (buffer, _) = core.table_of(nr)?;
        core.change_in_table(handle, nr, &buffer, |inode| {
            let extra = crate::disk::inode::extra_size(inode);
            let tail = &mut inode[BASE_SIZE + extra..];
            tail.fill(0);
            if !set.is_empty() {
                tail[..INODE_HEADER_SIZE].copy_from_slice(&MAGIC.to_le_bytes());
                set.encode(&mut tail[INODE_HEADER_SIZE..], 0, false);
            }
        })
    }
}
