//! Finding data and holes: SEEK_DATA and SEEK_HOLE.
//!
//! The block map decides, and in its holes the pages without a block: written data is data from
//! then on, although it may get its blocks and reach the device later. A mapped block is data,
//! whatever its contents; an unwritten extent is a hole. The end of the file is the start of a
//! hole. A file within its inode is data.

use layout::FileBlock;

use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::kind::FileKind;
use crate::error::{Error, Result};
use crate::file::live::check_live;
use crate::map::{FileMap, Mapped};

/// The target of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sought {
    /// A byte in a block.
    Data,
    /// A byte in no block, or the end.
    Hole,
}

/// Returns the first byte of data or of a hole from an offset on; none if the file ends before.
/// Takes the inode lock shared.
pub(crate) fn seek(core: &Core, inode: &Inode, offset: u64, sought: Sought) -> Result<Option<u64>> {
    let state = inode.state.read();
    check_live(&state)?;
    if state.kind != FileKind::Regular {
        return Err(Error::Invalid("only a regular file has data and holes"));
    }
    if offset >= state.size {
        return Ok(None);
    }
    if state.is_inline() {
        return Ok(Some(match sought {
            Sought::Data => offset,
            Sought::Hole => state.size,
        }));
    }
    let block_bytes = u64::from(core.geometry().block_bytes);
    let end = state.size.div_ceil(block_bytes);
    let mut block = FileBlock::new(offset / block_bytes);
    while block.get() < end {
        let count = u32::try_from(end - block.get()).unwrap_or(u32::MAX);
        let found = FileMap::of(&state).find(core, inode, &state, block, count)?;
        let (count, is_found) = match found {
            Mapped::Run(run) => (u64::from(run.count), sought == Sought::Data),
            Mapped::Unwritten(run) => (u64::from(run.count), sought == Sought::Hole),
            Mapped::Hole(count) => hole(inode, block, count, sought),
        };
        if is_found {
            return Ok(Some(offset.max(block.get() * block_bytes)));
        }
        block = block + count;
    }
    Ok((sought == Sought::Hole).then_some(state.size))
}

/// Returns the length of the first part of a hole of the block map, which is a hole or pages that
/// have no block yet, and true if it is what is sought.
fn hole(inode: &Inode, block: FileBlock, count: u64, sought: Sought) -> (u64, bool) {
    let inner = inode.pages.lock();
    let data = inner.delayed_length(block, count);
    if data > 0 {
        return (data, sought == Sought::Data);
    }
    let next = inner.first_delayed(block);
    let length = next.map_or(count, |next| count.min(next.get() - block.get()));
    (length, sought == Sought::Hole)
}
