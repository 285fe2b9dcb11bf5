//! Parts of a file that are contiguous on the device: found in the block map, and read.

use std::sync::Arc;

use block::{Outcome, Request};
use layout::{Block, FileBlock, SectorNr};

use crate::cache::inode::Inode;
use crate::cache::read_ahead::Span;
use crate::core::Core;
use crate::disk::inode::InodeState;
use crate::error::{Error, Result};
use crate::map::{FileMap, Mapped};

/// Returns the extents of blocks up to the first hole. In a journaled file they also end at a block
/// whose buffer is in memory.
pub(super) fn map_spans(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    first: FileBlock,
    count: u64,
) -> Result<Vec<Span>> {
    let mut spans = Vec::new();
    let end = first.get() + count;
    let mut at = first;
    while at.get() < end {
        let wanted = u32::try_from(end - at.get()).unwrap_or(u32::MAX);
        let Mapped::Run(mut run) = FileMap::of(state).find(core, inode, state, at, wanted)? else {
            break;
        };
        if state.is_journaled(core) {
            let on_device = (0..run.count)
                .take_while(|step| core.buffers.peek(run.first + u64::from(*step)).is_none())
                .count() as u32;
            if on_device < run.count {
                run.count = on_device;
                if on_device > 0 {
                    spans.push(Span { first: at, run });
                }
                break;
            }
        }
        spans.push(Span { first: at, run });
        at = at + u64::from(run.count);
    }
    Ok(spans)
}

/// Zeroes the bytes beyond the file's size in its last block; returns true if some were not zero.
pub(super) fn mask_tail(
    core: &Core,
    state: &InodeState,
    block: FileBlock,
    image: &mut Arc<Block>,
) -> bool {
    let start = block.get() * u64::from(core.geometry().block_bytes);
    let inside = usize::try_from(state.size.saturating_sub(start)).unwrap_or(usize::MAX);
    if inside >= image.len() || image[inside..].iter().all(|byte| *byte == 0) {
        return false;
    }
    Arc::make_mut(image)[inside..].fill(0);
    true
}

/// Reads spans in one batch.
pub(super) fn fetch_spans(core: &Core, spans: &[Span]) -> Result<Vec<Arc<Block>>> {
    let batch = spans.iter().map(|span| span.request(core)).collect();
    let mut images = Vec::new();
    for result in core.device.request(batch).wait() {
        match result? {
            Outcome::Read(payload) => images.extend(payload),
            Outcome::Done => return Err(Error::Device(block::DeviceError::Gone)),
        }
    }
    Ok(images)
}

impl Span {
    /// Returns the request that reads the span.
    pub(super) fn request(&self, core: &Core) -> Request {
        rt::charge(rt::Cost::Request);
        Request::Read {
            sector: SectorNr::from_byte_offset(core.geometry().byte_offset(self.run.first)),
            blocks: self.run.count,
            block_bytes: core.geometry().block_bytes,
        }
    }
}
