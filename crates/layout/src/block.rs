//! Blocks of memory, aligned so that a device can transfer them without a copy.
//!
//! A [`Block`] is immutable while shared (`Arc<Block>`). The holder of the only reference may
//! change it in place; `Arc::make_mut` copies the block if other references remain. So the frozen
//! image of a transaction, a write in progress and the current contents in a cache share one block
//! until one of them changes.

use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::Arc;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Alignment of blocks, and unit of their size, in bytes.
pub const ALIGNMENT: usize = 512;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(512))]
struct Chunk([u8; ALIGNMENT]);

const ZERO: Chunk = Chunk([0; ALIGNMENT]);
const WHOLE: &str = "a block's length is a multiple of 512 bytes";

/// An aligned block of memory whose length is a multiple of 512 bytes.
#[derive(Clone)]
pub struct Block {
    chunks: Box<[Chunk]>,
}

impl Block {
    /// Creates a block of zeroes.
    ///
    /// # Panics
    /// Panics if the length is not a multiple of 512 bytes.
    pub fn zeroed(length: usize) -> Self {
        assert!(length.is_multiple_of(ALIGNMENT), "{WHOLE}");
        Self {
            chunks: vec![ZERO; length / ALIGNMENT].into_boxed_slice(),
        }
    }

    /// Creates a block with a copy of `bytes`.
    ///
    /// # Panics
    /// Panics if the length is not a multiple of 512 bytes.
    pub fn copy_from(bytes: &[u8]) -> Self {
        let (chunks, rest) = bytes.as_chunks();
        assert!(rest.is_empty(), "{WHOLE}");
        Self {
            chunks: chunks.iter().map(|chunk| Chunk(*chunk)).collect(),
        }
    }

    /// Converts the block into a shared one.
    pub fn into_arc(self) -> Arc<Self> {
        Arc::new(self)
    }
}

impl Deref for Block {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.chunks.as_bytes()
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.chunks.as_mut_bytes()
    }
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Block {}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_zeroed() {
        let block = Block::zeroed(1024);
        assert_eq!(block.len(), 1024);
        assert!(block.iter().all(|byte| *byte == 0));
        assert_eq!(block.as_ptr().addr() % ALIGNMENT, 0);
    }

    #[test]
    fn a_shared_block_is_copied_before_it_changes() {
        let mut newest = Block::zeroed(512).into_arc();
        let frozen = Arc::clone(&newest);
        Arc::make_mut(&mut newest)[0] = 1;
        assert_eq!(frozen[0], 0);
        assert_eq!(newest[0], 1);
    }
}
