//! The contents of simulated devices: in memory, equal pages kept once.
//!
//! A tree of files that is copied takes the memory of one tree, and trials that run side by side
//! share what they have in common. A page that changes is a new page: nothing is ever changed in
//! place while it is shared.
//!
//! Pages of 4096 bytes are looked up in a pool by the checksum of a sample of their bytes: to read
//! all of them costs more than all that is saved. Pages that differ outside of the sample alone are
//! not shared, but for the first. The pool belongs to the process,
//! because the worlds of trials share nothing else, and holds no page alive: a page goes with the
//! last device, cache or request that has it. A page of the caller is never one of the pool: an
//! engine whose block the device had would copy it at the next change, and whether the pool has an
//! equal one depends on the other trials. Writes that do not fill pages are stored as they are.
//! Real devices, and devices in memory outside of simulations, do without it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, Weak};

use block::{BlockDevice, Geometry, MemoryDevice, Payload, Request, Ticket};
use layout::{Block, SectorNr, checksum};

/// Size of a page in bytes.
const PAGE_BYTES: usize = 4096;
/// Size of a page in sectors.
const PAGE_SECTORS: u64 = PAGE_BYTES as u64 / SectorNr::SIZE;
/// Distance of the samples of a page in bytes.
const SAMPLE_EVERY: usize = 512;
/// Size of a sample in bytes: a line of the processor's cache.
const SAMPLE_BYTES: usize = 64;
/// Number of locks that the pool's pages are spread over.
const SHARDS: usize = 64;
/// Number of pages of a shard below which it is not swept.
const SWEPT_MIN: usize = 256;

/// The pool of this process.
static POOL: Pool = Pool::new();

/// A store in memory that keeps equal pages once.
pub(super) struct Contents {
    memory: MemoryDevice,
    pool: &'static Pool,
}

impl Contents {
    /// Creates a store of zeroes.
    pub(super) fn new(size_bytes: u64) -> Self {
        Self::in_pool(size_bytes, &POOL)
    }

    fn in_pool(size_bytes: u64, pool: &'static Pool) -> Self {
        // The devices of earlier trials may be gone. What is left of their pages is small, but lies
        // between free pages, which the allocator then cannot join.
        pool.sweep();
        Self {
            memory: MemoryDevice::new(size_bytes),
            pool,
        }
    }

    /// Returns a payload with equal contents, each of its pages from the pool.
    fn shared(&self, sector: SectorNr, payload: Payload) -> Payload {
        let is_page = |length: usize| length.is_multiple_of(PAGE_BYTES);
        let is_aligned = sector.get().is_multiple_of(PAGE_SECTORS);
        if !is_aligned || !payload.iter().all(|piece| is_page(piece.len())) {
            return payload;
        }
        let mut pages = Payload::with_capacity(payload.len());
        for piece in payload {
            if piece.len() == PAGE_BYTES {
                pages.push(self.pool.share(&piece));
                continue;
            }
            let parts = piece.chunks(PAGE_BYTES);
            pages.extend(parts.map(|part| self.pool.share(part)));
        }
        pages
    }
}

impl BlockDevice for Contents {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn submit(&self, mut batch: Vec<Request>) -> Ticket {
        for request in &mut batch {
            if let Request::Write {
                sector, payload, ..
            } = request
            {
                *payload = self.shared(*sector, core::mem::take(payload));
            }
        }
        self.memory.submit(batch)
    }

    fn name(&self) -> String {
        self.memory.name()
    }
}

/// Pages by their contents.
struct Pool {
    #[expect(
        clippy::disallowed_types,
        reason = "worlds share it; no task waits while it has the lock"
    )]
    shards: [std::sync::Mutex<Shard>; SHARDS],
}

/// A part of the pool.
struct Shard {
    /// One page of each sample. Pages of the same sample that differ are not shared.
    pages: BTreeMap<u32, Weak<Block>>,
    /// Number of entries at which those of pages that are gone are removed.
    swept_at: usize,
}

impl Pool {
    const fn new() -> Self {
        #[expect(clippy::disallowed_types, reason = "as above")]
        let shards = [const { std::sync::Mutex::new(Shard::new()) }; SHARDS];
        Self { shards }
    }

    /// Removes the entries of pages that are gone.
    fn sweep(&self) {
        for shard in &self.shards {
            shard.lock().unwrap_or_else(PoisonError::into_inner).sweep();
        }
    }

    /// Returns the page with these bytes: that of the pool, or a new one, which others will share.
    fn share(&self, bytes: &[u8]) -> Arc<Block> {
        let new = || Block::copy_from(bytes).into_arc();
        let sum = sample(bytes);
        let shard = &self.shards[sum as usize % SHARDS];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        match shard.pages.get(&sum).and_then(Weak::upgrade) {
            Some(page) if **page == *bytes => page,
            Some(_) => new(),
            None => {
                let page = new();
                shard.add(sum, &page);
                page
            }
        }
    }
}

/// Returns the checksum of a sample of a page.
fn sample(bytes: &[u8]) -> u32 {
    let samples = bytes
        .chunks(SAMPLE_EVERY)
        .map(|part| &part[..SAMPLE_BYTES.min(part.len())]);
    samples.fold(checksum::START, checksum::crc32c)
}

impl Shard {
    const fn new() -> Self {
        Self {
            pages: BTreeMap::new(),
            swept_at: SWEPT_MIN,
        }
    }

    fn add(&mut self, sum: u32, page: &Arc<Block>) {
        self.pages.insert(sum, Arc::downgrade(page));
        if self.pages.len() >= self.swept_at {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        self.pages.retain(|_, page| page.strong_count() > 0);
        self.swept_at = SWEPT_MIN.max(2 * self.pages.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> &'static Pool {
        Box::leak(Box::new(Pool::new()))
    }

    fn entries(pool: &Pool) -> usize {
        let shards = pool.shards.iter();
        shards
            .map(|shard| shard.lock().expect("not poisoned").pages.len())
            .sum()
    }

    fn numbered(number: u32) -> Arc<Block> {
        let mut block = Block::zeroed(PAGE_BYTES);
        block[..4].copy_from_slice(&number.to_le_bytes());
        block.into_arc()
    }

    fn write(device: &Contents, offset: u64, payload: Payload) {
        let device: &dyn BlockDevice = device;
        device.write_blocks(offset, payload).expect("memory works");
    }

    fn read(device: &Contents, offset: u64, bytes: u32) -> Arc<Block> {
        let device: &dyn BlockDevice = device;
        device.read_block(offset, bytes).expect("memory works")
    }

    #[test]
    fn equal_pages_are_kept_once() {
        let pool = pool();
        let devices = [0; 2].map(|_| Contents::in_pool(1 << 20, pool));
        for device in &devices {
            for copy in 0..2 {
                write(
                    device,
                    copy * 400_000 / 4096 * 4096,
                    (0..50).map(numbered).collect(),
                );
            }
            // A block of many pages, as parity is.
            let pages: Vec<u8> = (0..50).flat_map(|n| numbered(n).to_vec()).collect();
            write(
                device,
                204_800 * 4,
                vec![Block::copy_from(&pages).into_arc()],
            );
        }
        assert_eq!(entries(pool), 50);
        let first = read(&devices[0], 7 * 4096, 4096);
        let offsets = [7 * 4096, 397_312 + 7 * 4096, 204_800 * 4 + 7 * 4096];
        for (device, offset) in devices.iter().flat_map(|one| offsets.map(|at| (one, at))) {
            assert!(Arc::ptr_eq(&read(device, offset, 4096), &first), "{offset}");
        }
    }

    #[test]
    fn a_page_that_changes_changes_nowhere_else() {
        let devices = [0; 2].map(|_| Contents::in_pool(1 << 20, pool()));
        let mut own = numbered(1);
        for offset in [0, 8192] {
            devices
                .iter()
                .for_each(|device| write(device, offset, vec![Arc::clone(&own)]));
        }
        Arc::make_mut(&mut own)[0] = 2;
        let mut back = read(&devices[0], 0, 4096);
        Arc::make_mut(&mut back)[0] = 3;
        write(
            &devices[0],
            512,
            vec![Block::copy_from(&[4; 512]).into_arc()],
        );
        let changed = read(&devices[0], 0, 4096);
        assert_eq!((changed[0], changed[512], changed[1024]), (1, 4, 0));
        for (device, offset) in [(0, 8192), (1, 0), (1, 8192)] {
            assert_eq!(read(&devices[device], offset, 4096), numbered(1));
        }
        // The pool no longer finds the changed page by its old contents.
        write(&devices[1], 4096, vec![numbered(1)]);
        assert_eq!(read(&devices[1], 4096, 4096), numbered(1));
    }

    #[test]
    fn a_device_keeps_no_block_of_its_caller() {
        let device = Contents::in_pool(1 << 20, pool());
        // A new page, one that the pool has, and one that it takes for another.
        let mut similar = numbered(1);
        Arc::get_mut(&mut similar).expect("new")[SAMPLE_BYTES] = 1;
        for mut own in [numbered(1), numbered(1), similar] {
            write(&device, 0, vec![Arc::clone(&own)]);
            assert!(Arc::get_mut(&mut own).is_some());
        }
    }

    #[test]
    fn pages_that_are_gone_leave_the_pool() {
        let pool = pool();
        let device = Contents::in_pool(1 << 20, pool);
        let many = (SHARDS * SWEPT_MIN) as u32 * 4;
        for number in 0..many {
            write(&device, 0, vec![numbered(number)]);
        }
        assert!(entries(pool) <= SHARDS * SWEPT_MIN, "{}", entries(pool));
        drop(device);
        Contents::in_pool(512, pool);
        assert_eq!(entries(pool), 0);
    }

    #[test]
    fn writes_that_do_not_fill_pages_are_kept_as_they_are() {
        let device = Contents::in_pool(1 << 20, pool());
        let bytes: Vec<u8> = (0..8192).map(|at| (at / 512) as u8).collect();
        write(&device, 512, vec![Block::copy_from(&bytes).into_arc()]);
        for piece in bytes.chunks(1024) {
            let at = 65_536 + u64::from(piece[0]) * 512;
            write(&device, at, vec![Block::copy_from(piece).into_arc()]);
        }
        assert_eq!(**read(&device, 512, 8192), bytes[..]);
        assert_eq!(**read(&device, 65_536, 8192), bytes[..]);
    }
}
