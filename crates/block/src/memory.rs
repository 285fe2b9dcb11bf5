//! The memory device: sparse, shared by reference, and fast enough to measure an engine on it.
//!
//! Memory is kept in *pages* of 4096 bytes. A page is a window into a block that a caller passed
//! in: a write of aligned blocks stores references, and a read of the same blocks returns them,
//! without a copy. A caller that changes a block still held by the device gets a copy of its own
//! (`Arc::make_mut`), and so does the device for a write that covers part of a page. Holes read as
//! zeroes and take no memory.
//!
//! Pages are grouped into regions of 64, regions are spread over 64 locks, and no lock is held
//! while bytes are copied for a read. A device and its snapshots share a region until one of them
//! writes to it.

mod image;
mod pages;

use core::fmt;
use std::sync::Arc;

use layout::{Block, SectorNr};
use rt::{Cost, Mutex};

use crate::device::{BlockDevice, Geometry, Request};
use crate::forward::Answer;
use crate::payload::Payload;
use crate::ticket::{Outcome, Ticket};
use pages::{PAGE_BYTES, Page, REGION_BYTES, REGION_PAGES, Regions, new_region};

/// Number of locks that the regions are spread over.
const SHARDS: usize = 64;

/// A device in memory.
pub struct MemoryDevice {
    geometry: Geometry,
    /// Shards; the region that starts at byte `n * REGION_BYTES` is in shard `n % SHARDS`.
    shards: Vec<Mutex<Regions>>,
    /// Contents of a hole of one page.
    zero_page: Arc<Block>,
}

impl MemoryDevice {
    /// Creates a device of zeroes. The size is rounded down to whole sectors.
    pub fn new(size_bytes: u64) -> Self {
        Self {
            geometry: Geometry {
                has_volatile_cache: false,
                has_force_unit_access: true,
                ..Geometry::new(size_bytes)
            },
            shards: (0..SHARDS).map(|_| Mutex::new(Regions::new())).collect(),
            zero_page: Block::zeroed(PAGE_BYTES).into_arc(),
        }
    }

    /// Returns the device with other properties but the same size, for tests of code that depends
    /// on them.
    #[must_use]
    pub fn with_geometry(mut self, change: impl FnOnce(&mut Geometry)) -> Self {
        let size_bytes = self.geometry.size_bytes;
        change(&mut self.geometry);
        self.geometry.size_bytes = size_bytes;
        self
    }

    /// Returns a device with the same contents, from now on independent. It costs one reference for
    /// each 256 KiB.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        Self {
            geometry: self.geometry.clone(),
            shards: self
                .shards
                .iter()
                .map(|shard| Mutex::new(shard.lock().clone()))
                .collect(),
            zero_page: Arc::clone(&self.zero_page),
        }
    }

    /// Makes the contents equal to those of another device of the same size, as cheaply as a
    /// snapshot.
    ///
    /// # Panics
    /// Panics if the sizes differ.
    pub fn restore(&self, from: &Self) {
        let same_size = self.geometry.size_bytes == from.geometry.size_bytes;
        assert!(
            same_size,
            "a snapshot goes back to a device of its own size"
        );
        for (own, other) in self.shards.iter().zip(&from.shards) {
            let regions = other.lock().clone();
            *own.lock() = regions;
        }
    }

    /// Reads pieces at a byte offset, without a check of the range.
    fn read(&self, offset: u64, count: u32, block_bytes: usize) -> Payload {
        let bytes = u64::from(count) * block_bytes as u64;
        if bytes == 0 {
            return Payload::new();
        }
        let first = offset / PAGE_BYTES as u64;
        let pages = self.pages(first, (offset + bytes).div_ceil(PAGE_BYTES as u64));
        let skipped = usize::try_from(offset - first * PAGE_BYTES as u64).expect("within a page");
        let mut copied = 0;
        let payload = (0..count as usize)
            .map(|index| {
                let start = skipped + index * block_bytes;
                self.piece(&pages, start, block_bytes).unwrap_or_else(|| {
                    copied += block_bytes as u64;
                    copy_of(&pages, start, block_bytes)
                })
            })
            .collect();
        if copied > 0 {
            rt::charge(Cost::Copy(copied));
        }
        payload
    }

    /// Returns the pages `from..to`, each locked only while its reference is taken.
    fn pages(&self, from: u64, to: u64) -> Vec<Option<Page>> {
        let mut pages = Vec::with_capacity(usize::try_from(to - from).expect("fits into memory"));
        let mut next = from;
        while next < to {
            let region = next / REGION_PAGES as u64;
            let first = (next % REGION_PAGES as u64) as usize;
            let count = (REGION_PAGES - first).min((to - next) as usize);
            match self.shard(region).lock().get(&region) {
                Some(held) => pages.extend_from_slice(&held[first..first + count]),
                None => pages.extend(core::iter::repeat_n(None, count)),
            }
            next += count as u64;
        }
        pages
    }

    /// Returns the piece without a copy, if the pages hold it as one block or as a hole of one
    /// page.
    fn piece(&self, pages: &[Option<Page>], start: usize, length: usize) -> Option<Arc<Block>> {
        let index = start / PAGE_BYTES;
        let Some(first) = &pages[index] else {
            let is_whole_page = start.is_multiple_of(PAGE_BYTES) && length == PAGE_BYTES;
            return is_whole_page.then(|| Arc::clone(&self.zero_page));
        };
        let begins_here = start % PAGE_BYTES + first.offset == 0;
        if !begins_here || first.block.len() != length {
            return None;
        }
        let last = (start + length).div_ceil(PAGE_BYTES);
        let is_one_block = pages[index..last].iter().enumerate().all(|(number, page)| {
            page.as_ref().is_some_and(|page| {
                page.offset == number * PAGE_BYTES && Arc::ptr_eq(&page.block, &first.block)
            })
        });
        is_one_block.then(|| Arc::clone(&first.block))
    }

    /// Writes a payload at a byte offset, without a check of the range.
    pub(crate) fn write(&self, offset: u64, payload: &[Arc<Block>]) {
        let mut copied = 0;
        let mut at = offset;
        let mut pieces = payload.iter().filter(|piece| !piece.is_empty());
        let mut open: Option<(&Arc<Block>, usize)> = pieces.next().map(|piece| (piece, 0));
        while let Some((mut piece, mut used)) = open {
            let number = at / REGION_BYTES;
            let end = (number + 1) * REGION_BYTES;
            let mut shard = self.shard(number).lock();
            let region = Arc::make_mut(shard.entry(number).or_insert_with(new_region));
            loop {
                let within = (at % PAGE_BYTES as u64) as usize;
                let length = (PAGE_BYTES - within).min(piece.len() - used);
                let page = &mut region[((at % REGION_BYTES) / PAGE_BYTES as u64) as usize];
                copied += pages::store(page, within, piece, used, length);
                at += length as u64;
                used += length;
                if used == piece.len() {
                    open = pieces.next().map(|piece| (piece, 0));
                    let Some(next) = open else { break };
                    (piece, used) = next;
                }
                if at == end {
                    open = Some((piece, used));
                    break;
                }
            }
        }
        if copied > 0 {
            rt::charge(Cost::Copy(copied));
        }
    }

    /// Turns a range of bytes into a hole.
    fn discard(&self, offset: u64, bytes: u64) {
        let mut at = offset;
        let end = offset + bytes;
        while at < end {
            let number = at / REGION_BYTES;
            let stop = end.min((number + 1) * REGION_BYTES);
            let mut shard = self.shard(number).lock();
            if at.is_multiple_of(REGION_BYTES) && stop == at + REGION_BYTES {
                shard.remove(&number);
                at = stop;
            }
            let mut region = shard.get_mut(&number).map(Arc::make_mut);
            while at < stop {
                let within = (at % PAGE_BYTES as u64) as usize;
                let length = ((PAGE_BYTES - within) as u64).min(stop - at);
                if let Some(region) = &mut region {
                    let page = &mut region[((at % REGION_BYTES) / PAGE_BYTES as u64) as usize];
                    pages::clear(page, within, length as usize);
                }
                at += length;
            }
        }
    }

    fn shard(&self, region: u64) -> &Mutex<Regions> {
        &self.shards[(region % SHARDS as u64) as usize]
    }

    fn carry_out(&self, request: &Request) -> Answer {
        self.geometry.check(request)?;
        match request {
            Request::Read {
                sector,
                blocks,
                block_bytes,
            } => {
                let payload = self.read(sector.byte_offset(), *blocks, *block_bytes as usize);
                return Ok(Outcome::Read(payload));
            }
            Request::Write {
                sector, payload, ..
            } => self.write(sector.byte_offset(), payload),
            Request::Flush => {}
            Request::Discard { sector, sectors } => {
                self.discard(sector.byte_offset(), sectors * SectorNr::SIZE);
            }
        }
        Ok(Outcome::Done)
    }
}

/// Assembles a piece from pages.
fn copy_of(pages: &[Option<Page>], start: usize, length: usize) -> Arc<Block> {
    let first = start % PAGE_BYTES;
    if first + length <= PAGE_BYTES
        && let Some(page) = &pages[start / PAGE_BYTES]
    {
        // Zeroes are not written first.
        return Block::copy_from(&page.bytes()[first..first + length]).into_arc();
    }
    let mut block = Block::zeroed(length);
    let mut filled = 0;
    while filled < length {
        let at = start + filled;
        let within = at % PAGE_BYTES;
        let count = (PAGE_BYTES - within).min(length - filled);
        if let Some(page) = &pages[at / PAGE_BYTES] {
            block[filled..filled + count].copy_from_slice(&page.bytes()[within..within + count]);
        }
        filled += count;
    }
    block.into_arc()
}

impl fmt::Debug for MemoryDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryDevice({} bytes)", self.geometry.size_bytes)
    }
}

impl BlockDevice for MemoryDevice {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        rt::point();
        let results = batch
            .iter()
            .map(|request| {
                rt::charge(Cost::Request);
                self.carry_out(request)
            })
            .collect();
        // An error here is a request out of range or a write to a read-only device; no later flush
        // has to report it.
        Ticket::ready(results)
    }

    fn name(&self) -> String {
        format!("mem:{}", self.geometry.size_bytes)
    }
}
