//! Images: the contents of a small device, shared between copies block by block, with a hash built
//! from the hashes of all sectors.
//!
//! A crash state differs from the next one in a few sectors. So a copy costs a reference for each
//! 32 KiB, a write copies the references of its 32 KiB, and the hash of the whole changes with that
//! of the sector: images with the same hash are taken as equal.

use core::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use block::Medium;
use block::versions::Version;
use foldhash::fast::FixedState;
use layout::{Block, SectorNr};

/// Size of a shared unit in bytes: the block size of all volumes here.
pub const BLOCK_BYTES: usize = 1024;
/// Number of sectors in a block.
pub const BLOCK_SECTORS: usize = BLOCK_BYTES / SECTOR_BYTES;
/// Number of bytes in a sector.
pub const SECTOR_BYTES: usize = SectorNr::SIZE as usize;
/// Number of blocks that are copied together, by reference.
const CHUNK_BLOCKS: usize = 32;
/// Separates the hashes of sectors from those of anything else.
const SEED: u64 = 0x6A65_7874;

/// A medium whose contents have a hash, built from the hashes of its sectors: media with the same
/// hash are taken as equal.
pub trait Hashed: Medium {
    /// Returns the hash of the contents.
    fn hash(&self) -> u64;

    /// Returns the hash of a sector.
    fn sector_hash(&self, sector: u64) -> u64;
}

/// The contents of a device.
#[derive(Clone)]
pub struct Image {
    chunks: Vec<Arc<Chunk>>,
    hash: u64,
}

#[derive(Clone)]
struct Chunk {
    blocks: [Arc<Block>; CHUNK_BLOCKS],
    /// Hash of each sector with its number.
    hashes: [u64; CHUNK_BLOCKS * BLOCK_SECTORS],
}

/// Returns the hash of a sector's contents and number.
pub fn hash_sector(sector: u64, bytes: &[u8]) -> u64 {
    let mut hasher = FixedState::with_seed(SEED ^ sector).build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

impl Image {
    /// Creates an image of this size, rounded up, with blocks made from their numbers.
    pub fn new(size_bytes: u64, make: impl Fn(u64) -> Block) -> Self {
        let chunk_bytes = (CHUNK_BLOCKS * BLOCK_BYTES) as u64;
        let mut hash = 0;
        let chunks = (0..size_bytes.div_ceil(chunk_bytes)).map(|chunk| {
            let first = chunk * CHUNK_BLOCKS as u64;
            let blocks = core::array::from_fn(|index| make(first + index as u64).into_arc());
            let hashes = core::array::from_fn(|index| {
                let sector = (index % BLOCK_SECTORS) * SECTOR_BYTES;
                let bytes = &blocks[index / BLOCK_SECTORS][sector..sector + SECTOR_BYTES];
                hash_sector(first * BLOCK_SECTORS as u64 + index as u64, bytes)
            });
            hash = hashes.iter().fold(hash, |hash, one| hash ^ one);
            Arc::new(Chunk { blocks, hashes })
        });
        let chunks = chunks.collect();
        Self { chunks, hash }
    }

    /// Returns the size in bytes.
    pub fn size_bytes(&self) -> u64 {
        (self.chunks.len() * CHUNK_BLOCKS * BLOCK_BYTES) as u64
    }

    /// Returns the hash of the whole image.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the hash of a sector.
    pub fn sector_hash(&self, sector: u64) -> u64 {
        let sector = sector as usize;
        let in_chunk = CHUNK_BLOCKS * BLOCK_SECTORS;
        self.chunks[sector / in_chunk].hashes[sector % in_chunk]
    }

    /// Returns a block.
    pub fn block(&self, number: u64) -> &Arc<Block> {
        let number = number as usize;
        &self.chunks[number / CHUNK_BLOCKS].blocks[number % CHUNK_BLOCKS]
    }

    /// Replaces a block.
    pub fn set_block(&mut self, number: u64, block: Arc<Block>) {
        assert_eq!(block.len(), BLOCK_BYTES, "blocks of an image have one size");
        let number = number as usize;
        let chunk = Arc::make_mut(&mut self.chunks[number / CHUNK_BLOCKS]);
        for index in 0..BLOCK_SECTORS {
            let bytes = &block[index * SECTOR_BYTES..(index + 1) * SECTOR_BYTES];
            let fresh = hash_sector((number * BLOCK_SECTORS + index) as u64, bytes);
            let place = number % CHUNK_BLOCKS * BLOCK_SECTORS + index;
            self.hash ^= core::mem::replace(&mut chunk.hashes[place], fresh) ^ fresh;
        }
        chunk.blocks[number % CHUNK_BLOCKS] = block;
    }

    /// Replaces a sector.
    pub fn set_sector(&mut self, sector: u64, bytes: &[u8]) {
        let (number, index) = (
            sector as usize / BLOCK_SECTORS,
            sector as usize % BLOCK_SECTORS,
        );
        let fresh = hash_sector(sector, bytes);
        let chunk = Arc::make_mut(&mut self.chunks[number / CHUNK_BLOCKS]);
        let place = number % CHUNK_BLOCKS * BLOCK_SECTORS + index;
        if chunk.hashes[place] == fresh {
            return;
        }
        self.hash ^= core::mem::replace(&mut chunk.hashes[place], fresh) ^ fresh;
        let block = Arc::make_mut(&mut chunk.blocks[number % CHUNK_BLOCKS]);
        block[index * SECTOR_BYTES..(index + 1) * SECTOR_BYTES].copy_from_slice(bytes);
    }

    /// Copies the contents to separate memory, so that two threads do not share reference counts.
    #[must_use]
    pub fn unshared(&self) -> Self {
        Self::new(self.size_bytes(), |number| {
            Block::copy_from(self.block(number))
        })
    }

    /// Returns all bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let blocks = self.chunks.iter().flat_map(|chunk| &chunk.blocks);
        blocks.flat_map(|block| block.to_vec()).collect()
    }
}

impl Medium for Image {
    fn snapshot(&self) -> Self {
        self.clone()
    }

    fn store(&mut self, versions: &[(SectorNr, Version)]) {
        for (sector, version) in versions {
            self.set_sector(sector.get(), version.bytes());
        }
    }
}

impl Hashed for Image {
    fn hash(&self) -> u64 {
        self.hash
    }

    fn sector_hash(&self, sector: u64) -> u64 {
        self.sector_hash(sector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(byte: u8) -> Block {
        Block::copy_from(&[byte; BLOCK_BYTES])
    }

    #[test]
    fn the_hash_follows_the_contents() {
        let made = Image::new(100_000, |_| block(1));
        assert_eq!(made.size_bytes(), 131_072);
        let mut image = made.clone();
        image.set_sector(9, &[2; SECTOR_BYTES]);
        assert_ne!(image.hash(), made.hash());
        assert_eq!(
            (made.block(4)[600], image.block(4)[600], image.block(4)[10]),
            (1, 2, 1)
        );
        let fresh = Image::new(100_000, |number| {
            let mut fresh = block(1);
            if number == 4 {
                fresh[SECTOR_BYTES..].fill(2);
            }
            fresh
        });
        assert_eq!(fresh.hash(), image.hash());
        image.set_block(4, block(1).into_arc());
        assert_eq!(image.hash(), made.hash());
        assert_eq!(image.unshared().hash(), made.hash());
    }

    #[test]
    fn the_place_counts() {
        let swapped = |first: u64, second: u64| {
            let mut image = Image::new(4096, |_| block(0));
            image.set_sector(first, &[1; SECTOR_BYTES]);
            image.set_sector(second, &[2; SECTOR_BYTES]);
            image.hash()
        };
        assert_ne!(swapped(3, 8), swapped(8, 3));
    }
}
