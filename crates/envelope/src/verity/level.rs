//! One level of a hash tree, computed from the blocks below it.

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::{DIGEST_BYTES, IsStopped, Part};
use crate::error::Error;

/// Number of bytes that a thread reads at a time, or one block.
const PIECE_BYTES: usize = 256 << 10;
/// Maximum number of threads; more would only wait for the disk.
const WORKERS_MAX: usize = 8;

/// Consecutive blocks of a file.
#[derive(Clone, Copy)]
pub(super) struct Blocks<'f> {
    pub(super) part: Part<'f>,
    pub(super) block_bytes: u32,
    pub(super) count: u64,
}

/// Computes digests of the salt and a block.
#[derive(Clone)]
pub(super) struct Hasher {
    /// State after the salt.
    salted: Sha256,
}

impl Hasher {
    pub(super) fn new(salt: &[u8]) -> Self {
        let mut salted = Sha256::new();
        salted.update(salt);
        Self { salted }
    }

    fn digest(&self, block: &[u8]) -> [u8; DIGEST_BYTES] {
        let mut hasher = self.salted.clone();
        hasher.update(block);
        hasher.finalize().into()
    }
}

/// Computes the blocks of `level`, which are the digests of the blocks `below`.
pub(super) fn hash(
    hasher: &Hasher,
    below: &Blocks<'_>,
    level: &Blocks<'_>,
    is_stopped: IsStopped<'_>,
) -> Result<(), Error> {
    let (next, failed) = (AtomicU64::new(0), Mutex::new(None));
    let work = || {
        let mut worker = Worker::new(hasher, below, level);
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= level.count {
                return;
            }
            let made = match is_stopped() {
                true => Err(Error::Stopped),
                false => worker.make(index),
            };
            if let Err(error) = made {
                // The other threads find no more work.
                next.store(level.count, Ordering::Relaxed);
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert(error);
                return;
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    let workers = workers.min(WORKERS_MAX).min(level.count as usize);
    std::thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(work);
        }
        work();
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.map_or(Ok(()), Err)
}

/// Returns the digest of the first block.
pub(super) fn digest_of_first(
    hasher: &Hasher,
    blocks: &Blocks<'_>,
) -> Result<[u8; DIGEST_BYTES], Error> {
    let mut block = vec![0; blocks.block_bytes as usize];
    read(blocks, 0, &mut block)?;
    Ok(hasher.digest(&block))
}

fn read(blocks: &Blocks<'_>, index: u64, into: &mut [u8]) -> Result<(), Error> {
    let offset = blocks.part.offset + index * u64::from(blocks.block_bytes);
    let read = blocks.part.file.read_exact_at(into, offset);
    read.map_err(Error::io("a block for dm-verity"))
}

/// A thread's share of a level.
struct Worker<'l> {
    hasher: &'l Hasher,
    below: &'l Blocks<'l>,
    level: &'l Blocks<'l>,
    /// Digest of a block of zeroes. Free space is most of many images, and is recognised sooner
    /// than it is hashed.
    zeroes: [u8; DIGEST_BYTES],
    piece: Vec<u8>,
    block: Vec<u8>,
}

impl<'l> Worker<'l> {
    fn new(hasher: &'l Hasher, below: &'l Blocks<'l>, level: &'l Blocks<'l>) -> Self {
        let block_bytes = below.block_bytes as usize;
        Self {
            hasher,
            below,
            level,
            zeroes: hasher.digest(&vec![0; block_bytes]),
            piece: vec![0; PIECE_BYTES.max(block_bytes)],
            block: vec![0; level.block_bytes as usize],
        }
    }

    /// Computes and writes one block of the level.
    fn make(&mut self, index: u64) -> Result<(), Error> {
        let fanout = (self.block.len() / DIGEST_BYTES) as u64;
        let block_bytes = self.below.block_bytes as usize;
        let in_piece = (self.piece.len() / block_bytes) as u64;
        let (mut at, end) = (index * fanout, self.below.count.min((index + 1) * fanout));
        self.block.fill(0);
        let mut digests = self.block.chunks_exact_mut(DIGEST_BYTES);
        while at < end {
            let count = in_piece.min(end - at);
            let piece = &mut self.piece[..count as usize * block_bytes];
            read(self.below, at, piece)?;
            for (block, digest) in piece.chunks_exact(block_bytes).zip(&mut digests) {
                digest.copy_from_slice(&match is_zero(block) {
                    true => self.zeroes,
                    false => self.hasher.digest(block),
                });
            }
            at += count;
        }
        let offset = self.level.part.offset + index * u64::from(self.level.block_bytes);
        let written = self.level.part.file.write_all_at(&self.block, offset);
        written.map_err(Error::io("a block of hashes"))
    }
}

fn is_zero(block: &[u8]) -> bool {
    let (words, rest) = block.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}
