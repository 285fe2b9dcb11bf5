//! Pages of a memory device, and the regions that group them.

use std::collections::BTreeMap;
use std::sync::Arc;

use layout::Block;

/// Size of a page in bytes.
pub(super) const PAGE_BYTES: usize = 4096;

/// Number of pages in a region.
pub(super) const REGION_PAGES: usize = 64;

/// Size of a region in bytes.
pub(super) const REGION_BYTES: u64 = (REGION_PAGES * PAGE_BYTES) as u64;

/// Maximum size of a block that pages share, in bytes. A page of a larger block is copied, because
/// a page keeps its whole block alive.
const SHARED_BYTES_MAX: usize = 64 * 1024;

/// A page: 4096 bytes of a block, starting at `offset`.
#[derive(Clone)]
pub(super) struct Page {
    pub(super) block: Arc<Block>,
    pub(super) offset: usize,
}

impl Page {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.block[self.offset..self.offset + PAGE_BYTES]
    }

    /// Returns the bytes, mutable; copies the page first if it is shared.
    fn bytes_mut(&mut self) -> &mut [u8] {
        if self.block.len() != PAGE_BYTES {
            self.block = Block::copy_from(self.bytes()).into_arc();
            self.offset = 0;
        }
        let block: &mut Block = Arc::make_mut(&mut self.block);
        block
    }
}

/// A group of pages. `None` is a hole.
pub(super) type Region = [Option<Page>; REGION_PAGES];

/// The regions of one shard, by number; missing regions are holes.
pub(super) type Regions = BTreeMap<u64, Arc<Region>>;

/// Returns a region of holes.
pub(super) fn new_region() -> Arc<Region> {
    Arc::new([const { None }; REGION_PAGES])
}

/// Stores `length` bytes of a piece, starting at `used`, at `within` of a page. Returns the number
/// of bytes copied.
pub(super) fn store(
    page: &mut Option<Page>,
    within: usize,
    piece: &Arc<Block>,
    used: usize,
    length: usize,
) -> u64 {
    if length == PAGE_BYTES && piece.len() <= SHARED_BYTES_MAX {
        *page = Some(Page {
            block: Arc::clone(piece),
            offset: used,
        });
        return 0;
    }
    if length == PAGE_BYTES {
        let block = Block::copy_from(&piece[used..used + length]).into_arc();
        *page = Some(Page { block, offset: 0 });
    } else {
        let page = page.get_or_insert_with(|| Page {
            block: Block::zeroed(PAGE_BYTES).into_arc(),
            offset: 0,
        });
        page.bytes_mut()[within..within + length].copy_from_slice(&piece[used..used + length]);
    }
    length as u64
}

/// Zeroes part of a page, or makes a whole page a hole.
pub(super) fn clear(page: &mut Option<Page>, within: usize, length: usize) {
    if length == PAGE_BYTES {
        *page = None;
    } else if let Some(page) = page {
        page.bytes_mut()[within..within + length].fill(0);
    }
}
