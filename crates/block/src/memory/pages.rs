//! Pages of a memory device, and the regions that group them.

use std::collections::BTreeMap;
use std::sync::Arc;

use layout::Block;

/// The size of a page.
pub(super) const PAGE_BYTES: usize = 4096;

/// How many pages a region has.
pub(super) const REGION_PAGES: usize = 64;

/// The size of a region.
pub(super) const REGION_BYTES: u64 = (REGION_PAGES * PAGE_BYTES) as u64;

/// The largest block that pages share. A page of a larger one is copied, because a page keeps its whole block alive.
const SHARED_BYTES_MAX: usize = 64 * 1024;

/// One page: 4096 bytes of a block, from `offset` on.
#[derive(Clone)]
pub(super) struct Page {
    pub(super) block: Arc<Block>,
    pub(super) offset: usize,
}

impl Page {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.block[self.offset..self.offset + PAGE_BYTES]
    }

    /// The bytes, to change them: the page is copied first if anybody else sees it.
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

/// The regions of one shard, by number; those that are missing are holes.
pub(super) type Regions = BTreeMap<u64, Arc<Region>>;

/// A region of holes.
pub(super) fn new_region() -> Arc<Region> {
    Arc::new([const { None }; REGION_PAGES])
}

/// Stores `length` bytes of a piece, from `used` on, at `within` of a page. Returns how many bytes were copied.
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

/// Makes part of a page zero, or all of it a hole.
pub(super) fn clear(page: &mut Option<Page>, within: usize, length: usize) {
    if length == PAGE_BYTES {
        *page = None;
    } else if let Some(page) = page {
        page.bytes_mut()[within..within + length].fill(0);
    }
}
