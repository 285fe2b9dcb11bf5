//! Where data and holes begin: by the map, which every written page has its block in.

use layout::FileBlock;

use crate::core::Core;
use crate::error::Result;
use crate::inode::{Inode, InodeState};
use crate::mapping::{self, Mapped};
use crate::volume::Seek;

/// The next data or hole from an offset on; see [`Volume::seek_node`](crate::Volume::seek_node).
pub(crate) fn seek(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    offset: u64,
    what: Seek,
) -> Result<Option<u64>> {
    if offset >= state.size {
        return Ok(None);
    }
    let block_bytes = u64::from(core.geometry.block_bytes);
    let end = state.size.div_ceil(block_bytes);
    let mut block = offset / block_bytes;
    while block < end {
        let wanted = u32::try_from(end - block).unwrap_or(u32::MAX);
        let found = mapping::find(core, inode, state, FileBlock::new(block), wanted)?;
        let (is_found, count) = match found {
            Mapped::Run(run) => (what == Seek::Data, u64::from(run.count)),
            Mapped::Hole(count) => (what == Seek::Hole, count),
        };
        if is_found {
            return Ok(Some(offset.max(block * block_bytes)));
        }
        block += count;
    }
    Ok((what == Seek::Hole).then_some(state.size))
}
