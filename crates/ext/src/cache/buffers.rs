//! The cache of metadata blocks (and of journaled data while the journal holds it).
//!
//! A buffer is found by its block number, and has a [`Label`]: the kind of its contents and their
//! owner. A block is verified by its label when it is read, and sealed before it leaves memory; the
//! table of kinds is in [`crate::disk::metadata`]. A damaged block does not enter the cache.
//!
//! A buffer stays while it is in a transaction, waits for a checkpoint or is dirty; clean buffers
//! are evicted when the memory budget requires it. On a volume without a journal the cache itself
//! keeps track of the dirty buffers and their ages, and writes them back.
//!
//! # Rules
//!
//! - A block has at most one buffer. A thread that finds it being read waits, and a buffer with
//!   other references is not evicted. A panic during the read leaves nothing behind.
//! - At most one write of a block is in flight (volumes without a journal; with one, this is the
//!   journal's rule).
//! - A shard's lock is held for memory work only, and may be taken while holding one buffer's lock.
//!   The lock of a buffer is never taken while holding a shard's, except for a buffer without other
//!   references.

pub(crate) mod batch;
mod refused;
mod shard;
mod write_back;

use std::sync::Arc;

use block::{BlockDevice, DeviceError, Request};
use jbd2::{Buffer, BufferWrite};
use layout::{Block, BlockNr, SectorNr};
use rt::atomic::{AtomicU64, Ordering};
use rt::{Mutex, Nanos};

use crate::awaited::awaited;
use crate::cache::kept_nodes::KeptNodes;
use crate::cache::{shard_of, shards};
use crate::disk::metadata::{Checks, Label};
use crate::error::Result;
pub(crate) use refused::{DamagedBlock, Refused};
use shard::{Found, Shard};

/// Number of locks that the buffers are spread over. The few blocks that two threads change at a
/// time rarely share one.
const SHARDS: usize = 64;
/// Number of attempts of a caller to write blocks whose write by another thread fails.
const ATTEMPTS: usize = 2;

/// The number of times that buffers were removed. Its accesses order nothing, so they are not
/// scheduling points. It is often read, and so shares no cache line with what often changes.
#[derive(Default)]
#[repr(align(128))]
struct Removals(core::sync::atomic::AtomicU64);

/// The cache of metadata blocks.
pub(crate) struct BufferCache {
    device: Arc<dyn BlockDevice>,
    checks: Checks,
    block_bytes: u32,
    has_journal: bool,
    shards: Box<[Shard; SHARDS]>,
    /// Number of buffers in memory. Both numbers are increased under the lock of the shard: another
    /// thread that removes the buffer cannot be the first to count.
    count: AtomicU64,
    removals: Removals,
    pub(crate) kept_nodes: KeptNodes,
    /// Number of dirty buffers (without a journal).
    dirty_count: AtomicU64,
    /// Number of blocks whose write has failed so far, and the last cause (without a journal).
    failures: AtomicU64,
    last_error: Mutex<Option<DeviceError>>, // a leaf
}

impl BufferCache {
    /// Creates an empty cache over a device. With a journal, the journal keeps track of dirty
    /// buffers.
    pub(crate) fn new(device: Arc<dyn BlockDevice>, checks: Checks, has_journal: bool) -> Self {
        Self {
            device,
            block_bytes: checks.block_bytes(),
            checks,
            has_journal,
            shards: shards(Shard::default),
            count: AtomicU64::new(0),
            removals: Removals::default(),
            kept_nodes: KeptNodes::default(),
            dirty_count: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            last_error: Mutex::default(),
        }
    }

    /// Returns the buffer of a block, read from the device and verified if it is not in memory.
    ///
    /// # Errors
    /// - [`Refused`] if it cannot be read, or is damaged.
    pub(crate) fn get(&self, block: BlockNr, label: Label) -> Result<Arc<Buffer>, Refused> {
        rt::charge(rt::Cost::Lookup);
        let shard = self.shard(block);
        let mut state = shard.state.lock();
        loop {
            match state.find(block) {
                Found::Ready(buffer, found) if found == label => return Ok(buffer),
                Found::Ready(buffer, found) => {
                    drop(state);
                    return self.check_other(buffer, found, label);
                }
                Found::Loading => shard.changed.wait(&mut state),
                Found::Absent => break,
            }
        }
        state.begin_load(block, label);
        drop(state);
        let read = || {
            self.device
                .read_block(self.byte_offset(block), self.block_bytes)
        };
        let image = awaited(read, || self.abandon_loads([block]));
        self.finish_load(block, label, image)
    }

    /// Returns the buffer of a block that a transaction will need, and reads it before anything
    /// changes.
    ///
    /// # Errors
    /// Fails as [`get`](Self::get).
    pub(crate) fn hold(&self, block: BlockNr, label: Label) -> Result<Arc<Buffer>, Refused> {
        match self.find(block) {
            Some((buffer, found)) if found == label => Ok(buffer),
            Some((buffer, found)) => self.check_other(buffer, found, label),
            None => self.get(block, label),
        }
    }

    /// Returns the buffer of a block whose old contents do not matter: zeroes if it was not in
    /// memory. Reads nothing.
    pub(crate) fn get_new(&self, block: BlockNr, label: Label) -> Arc<Buffer> {
        rt::charge(rt::Cost::Lookup);
        let shard = self.shard(block);
        let mut state = shard.state.lock();
        loop {
            match state.find(block) {
                Found::Ready(buffer, found) if found == label => return buffer,
                Found::Ready(buffer, _) if self.has_journal => {
                    state.relabel(block, label);
                    drop(state);
                    buffer.relabel(label);
                    return buffer;
                }
                // A damaged bitmap had the block of another owner. Its contents must not be written
                // with the new label, and changes by threads that have the buffer are dropped.
                Found::Ready(..) if !state.is_busy(block) => {
                    let (_, was_dirty) = state.remove(block).expect("it was found");
                    self.removals.0.fetch_add(1, Ordering::Relaxed);
                    self.count.fetch_sub(1, Ordering::Relaxed);
                    self.dirty_count
                        .fetch_sub(u64::from(was_dirty), Ordering::Relaxed);
                    break;
                }
                Found::Ready(..) | Found::Loading => shard.changed.wait(&mut state),
                Found::Absent => break,
            }
        }
        let zeroes = Block::zeroed(self.block_bytes as usize).into_arc();
        let buffer = Buffer::labelled(block, zeroes, label);
        state.insert(Arc::clone(&buffer), label);
        self.count.fetch_add(1, Ordering::Relaxed);
        buffer
    }

    /// Returns the buffer of a block if it is in memory.
    pub(crate) fn peek(&self, block: BlockNr) -> Option<Arc<Buffer>> {
        self.find(block).map(|(buffer, _)| buffer)
    }

    fn find(&self, block: BlockNr) -> Option<(Arc<Buffer>, Label)> {
        match self.shard(block).state.lock().find(block) {
            Found::Ready(buffer, label) => Some((buffer, label)),
            Found::Loading | Found::Absent => None,
        }
    }

    /// Reads blocks that are needed soon, in one batch.
    ///
    /// # Errors
    /// Fails as [`get`](Self::get), with the first error, after all blocks were read.
    pub(crate) fn prefetch(&self, blocks: &[(BlockNr, Label)]) -> Result<(), Refused> {
        let mut wanted = blocks.to_vec();
        wanted.sort_unstable_by_key(|(block, _)| *block);
        wanted.dedup_by_key(|(block, _)| *block);
        wanted.retain(|(block, label)| {
            let mut state = self.shard(*block).state.lock();
            let is_absent = matches!(state.find(*block), Found::Absent);
            if is_absent {
                state.begin_load(*block, *label);
            }
            is_absent
        });
        if wanted.is_empty() {
            return Ok(());
        }
        let runs = batch::runs(&wanted, |(block, _)| *block, self.block_bytes);
        let requests = runs.iter().map(|run| Request::Read {
            sector: SectorNr::from_byte_offset(self.byte_offset(run[0].0)),
            blocks: run.len() as u32,
            block_bytes: self.block_bytes,
        });
        let batch = requests.collect();
        let read = || self.device.request(batch).wait();
        let abandon = || self.abandon_loads(wanted.iter().map(|(block, _)| *block));
        let results = awaited(read, abandon);
        let mut outcome = Ok(());
        for (run, result) in runs.iter().zip(results) {
            let images = batch::images(result);
            for (index, (block, label)) in run.iter().enumerate() {
                let image = match &images {
                    Ok(images) => Ok(Arc::clone(&images[index])),
                    Err(error) => Err(error.clone()),
                };
                let loaded = self.finish_load(*block, *label, image);
                outcome = outcome.and(loaded.map(drop));
            }
        }
        outcome
    }

    /// Removes a freed block's buffer from the cache and returns it. On a volume without a journal
    /// the buffer is no longer dirty.
    pub(crate) fn remove(&self, block: BlockNr) -> Option<Arc<Buffer>> {
        let shard = self.shard(block);
        let mut state = shard.state.lock();
        while state.is_busy(block) {
            shard.changed.wait(&mut state);
        }
        let (buffer, was_dirty) = state.remove(block)?;
        drop(state);
        self.removals.0.fetch_add(1, Ordering::Relaxed);
        self.count.fetch_sub(1, Ordering::Relaxed);
        if was_dirty {
            self.dirty_count.fetch_sub(1, Ordering::Relaxed);
        }
        Some(buffer)
    }

    /// Returns write access to a buffer, and marks it dirty (without a journal).
    pub(crate) fn write_plain<'b>(&self, buffer: &'b Arc<Buffer>) -> BufferWrite<'b> {
        debug_assert!(
            !self.has_journal,
            "with a journal, handles give the right to change"
        );
        // The buffer is locked first: a writer that clears the dirty mark from now on waits for the
        // lock before it takes the image.
        let guard = buffer.write_unjournaled();
        let mut state = self.shard(buffer.nr()).state.lock();
        if state.mark_dirty(buffer, rt::monotonic) {
            self.dirty_count.fetch_add(1, Ordering::Relaxed);
        }
        drop(state);
        guard
    }

    /// Replaces the contents of a buffer (without a journal).
    pub(crate) fn replace_plain(&self, buffer: &Arc<Buffer>, image: Arc<Block>) {
        self.write_plain(buffer).copy_from_slice(&image);
    }

    /// Writes at most `limit` buffers that have been dirty since before a time (without a journal).
    /// Returns the number written.
    pub(crate) fn write_back(&self, dirty_before: Nanos, limit: usize) -> Result<usize> {
        if self.dirty_count.load(Ordering::Relaxed) == 0 {
            return Ok(0);
        }
        let mut blocks = Vec::new();
        for shard in self.shards.iter() {
            shard.state.lock().dirty_before(dirty_before, &mut blocks);
        }
        blocks.sort_unstable();
        blocks.truncate(limit);
        let (written, _) = self.write_dirty(&blocks)?;
        Ok(written)
    }

    /// Writes exactly these blocks, if they are dirty, and waits, also for writes by other threads
    /// (without a journal).
    pub(crate) fn write_now(&self, blocks: &[BlockNr]) -> Result<()> {
        let mut blocks = blocks.to_vec();
        blocks.sort_unstable();
        blocks.dedup();
        let (_, busy) = self.write_dirty(&blocks)?;
        self.wait_written(&busy);
        // A buffer that was in flight may be dirty again, or its write may have failed.
        let mut left = busy;
        for _ in 0..ATTEMPTS {
            let failures = self.failures.load(Ordering::Relaxed);
            let (_, busy) = self.write_dirty(&left)?;
            self.wait_written(&busy);
            // Writes of other threads that were found now have started after this call.
            let have_failed = self.failures.load(Ordering::Relaxed) != failures;
            if busy.is_empty() || !have_failed {
                return Ok(());
            }
            left = busy;
        }
        let last = self.last_error.lock().clone();
        Err(last.unwrap_or(DeviceError::Gone).into())
    }

    /// Waits until no write of the blocks is in flight.
    fn wait_written(&self, blocks: &[BlockNr]) {
        for block in blocks {
            let shard = self.shard(*block);
            let mut state = shard.state.lock();
            while state.is_busy(*block) {
                shard.changed.wait(&mut state);
            }
        }
    }

    /// Writes all dirty buffers and waits, also for writes by other threads (without a journal).
    pub(crate) fn write_everything(&self) -> Result<()> {
        let mut blocks = Vec::new();
        for shard in self.shards.iter() {
            shard.state.lock().unsettled(&mut blocks);
        }
        self.write_now(&blocks)
    }

    /// Returns the number of times that buffers were removed so far. While it stays the same, a
    /// buffer that was found is found again.
    pub(crate) fn removals(&self) -> u64 {
        self.removals.0.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes in memory, and of dirty bytes (without a journal).
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let bytes = |count: &AtomicU64| count.load(Ordering::Relaxed) * u64::from(self.block_bytes);
        (bytes(&self.count), bytes(&self.dirty_count))
    }

    /// Evicts clean buffers until at most `target_bytes` are in memory or no clean buffer is left.
    pub(crate) fn shrink(&self, target_bytes: u64) {
        let target = target_bytes / u64::from(self.block_bytes);
        for share in [SHARDS as u64, 1] {
            for shard in self.shards.iter() {
                let excess = self.count.load(Ordering::Relaxed).saturating_sub(target);
                if excess == 0 {
                    return;
                }
                let evicted = shard.state.lock().evict(excess.div_ceil(share));
                if evicted > 0 {
                    self.removals.0.fetch_add(1, Ordering::Relaxed);
                }
                self.count.fetch_sub(evicted, Ordering::Relaxed);
            }
        }
    }

    fn shard(&self, block: BlockNr) -> &Shard {
        &self.shards[shard_of(block.get(), SHARDS)]
    }

    fn byte_offset(&self, block: BlockNr) -> u64 {
        block.get() * u64::from(self.block_bytes)
    }

    /// Ends the load of blocks after a panic.
    fn abandon_loads(&self, blocks: impl IntoIterator<Item = BlockNr>) {
        for block in blocks {
            let shard = self.shard(block);
            shard.state.lock().end_load(block);
            shard.changed.notify_all();
        }
    }

    fn finish_load(
        &self,
        block: BlockNr,
        label: Label,
        image: Result<Arc<Block>, DeviceError>,
    ) -> Result<Arc<Buffer>, Refused> {
        let loaded = image.map_err(Refused::from).and_then(|image| {
            let verdict = self.checks.verify(label, block, &image);
            let buffer = Buffer::labelled(block, image, label);
            match verdict {
                Ok(()) => Ok(buffer),
                Err(damage) => Err(Refused::damaged(damage, buffer)),
            }
        });
        let shard = self.shard(block);
        let mut state = shard.state.lock();
        state.end_load(block);
        if let Ok(buffer) = &loaded {
            state.insert(Arc::clone(buffer), label);
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        drop(state);
        shard.changed.notify_all();
        loaded
    }

    /// Checks a cached buffer against another label: on a damaged volume a block may have two
    /// owners.
    #[cold]
    fn check_other(
        &self,
        buffer: Arc<Buffer>,
        found: Label,
        label: Label,
    ) -> Result<Arc<Buffer>, Refused> {
        let image = buffer.image();
        let verdict = match found.kind == label.kind {
            true => self.checks.verify(label, buffer.nr(), &image),
            false => Err(self.checks.mismatch(label, buffer.nr())),
        };
        match verdict {
            Ok(()) => Ok(buffer),
            Err(damage) => {
                let copy = Buffer::labelled(buffer.nr(), image, label);
                Err(Refused::damaged(damage, copy))
            }
        }
    }
}

#[cfg(test)]
mod tests;
