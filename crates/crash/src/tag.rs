//! The contents of writes: every sector carries its write, its file and its index in the file.
//!
//! ```text
//! word 0    the mark of tags; every other write begins like a block of the journal: magic number,
//!           one of its types
//! word 1    write, in the place of a transaction number of the journal; file
//! word 2    the sector's place in the file
//! word 3..  a sequence that follows from words 1 and 2
//! ```
//!
//! Free blocks of a new volume carry a tag without a writer ([`poison`]), which names the block.

use layout::journal::{BlockType, MAGIC_BYTES};
use rt::split_mix::GAMMA;

use crate::image::{BLOCK_BYTES, BLOCK_SECTORS, SECTOR_BYTES};

/// Word 0 if it does not imitate the journal.
const PLAIN: [u8; 8] = *b"datajTag";
/// The types of journal blocks that the others imitate.
const PRETENDED: [BlockType; 3] = [BlockType::Commit, BlockType::Descriptor, BlockType::Revoke];
/// Number of words in a sector.
const WORDS: usize = SECTOR_BYTES / 8;
/// Number of words before the sequence.
const HEAD_WORDS: usize = 3;
/// Difference of successive words of the sequence.
const STEP: u64 = GAMMA;

/// The writer of a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// The file, or a number that no file has if the block was never used.
    pub file: u32,
    /// The write, numbered from 1.
    pub write: u32,
    /// The sector's index in the file, or on the volume.
    pub sector: u32,
}

/// The owner of blocks that were never used.
pub const NOBODY: u32 = u32::MAX;

impl Tag {
    fn word(&self, index: usize) -> u64 {
        let second = u64::from(self.write.swap_bytes()) | u64::from(self.file) << 32;
        match index {
            0 => u64::from_le_bytes(self.beginning()),
            1 => second,
            2 => u64::from(self.sector),
            _ => {
                let seed = (second ^ u64::from(self.sector).rotate_left(40)).wrapping_mul(STEP);
                seed.wrapping_add(STEP.wrapping_mul(index as u64))
            }
        }
    }

    fn beginning(&self) -> [u8; 8] {
        if self.write.is_multiple_of(2) {
            return PLAIN;
        }
        let kind = PRETENDED[(self.write / 2) as usize % PRETENDED.len()];
        let [a, b, c, d] = MAGIC_BYTES;
        let [e, f, g, h] = kind.raw().to_be_bytes();
        [a, b, c, d, e, f, g, h]
    }

    /// Fills a sector.
    pub fn fill(&self, sector: &mut [u8]) {
        for (index, word) in sector.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&self.word(index).to_le_bytes());
        }
    }

    /// Returns true if the bytes are those of the sector up to `cut`, with zeroes after them.
    pub fn matches(&self, bytes: &[u8], cut: usize) -> bool {
        let (kept, zeroes) = bytes.split_at(cut.min(bytes.len()));
        let words = kept.chunks(8).enumerate();
        let mut is_equal = true;
        for (index, word) in words {
            is_equal &= *word == self.word(index).to_le_bytes()[..word.len()];
        }
        is_equal && zeroes.iter().all(|byte| *byte == 0)
    }

    /// Returns the tag of a sector that contains at least its first words, with zeroes after the
    /// rest. Returns `None` for any other contents.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .take(HEAD_WORDS)
            .map(|word| {
                word.iter()
                    .rev()
                    .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
            })
            .collect();
        let &[first, second, third] = words.as_slice() else {
            return None;
        };
        let tag = Self {
            file: (second >> 32) as u32,
            write: (second as u32).swap_bytes(),
            sector: u32::try_from(third).ok()?,
        };
        if first != tag.word(0) {
            return None;
        }
        let differs = (HEAD_WORDS..WORDS).find(|index| {
            bytes.get(index * 8..index * 8 + 8) != Some(&tag.word(*index).to_le_bytes())
        });
        let cut = differs.map_or(bytes.len(), |index| index * 8);
        let rest = &bytes[cut.min(bytes.len())..];
        // Without any word of the sequence, some words before it may be missing, too.
        if differs == Some(HEAD_WORDS) && rest.iter().all(|byte| *byte == 0) {
            return None;
        }
        let behind = rest.get(8..).unwrap_or_default();
        behind.iter().all(|byte| *byte == 0).then_some(tag)
    }
}

/// Returns a block that was never used.
pub fn poison(number: u64) -> layout::Block {
    let mut block = layout::Block::zeroed(BLOCK_BYTES);
    for (index, sector) in block.chunks_mut(SECTOR_BYTES).enumerate() {
        let sector_nr = number as usize * BLOCK_SECTORS + index;
        let tag = Tag {
            file: NOBODY,
            write: 0,
            sector: sector_nr as u32,
        };
        tag.fill(sector);
    }
    block
}

/// Multiplier of a lane's number that gives its first node number.
const LANE_NODES: u32 = 1 << 16;

/// Returns the id, among all lanes, of the node that an operation makes, or of its write.
pub fn number_of(lane: usize, number: usize) -> u32 {
    lane as u32 * LANE_NODES + number as u32 + 1
}

/// Returns lane and number of an operation from the id of its node or write.
pub fn place_of(number: u32) -> Option<(usize, usize)> {
    let index = number.checked_sub(1)?;
    Some(((index / LANE_NODES) as usize, (index % LANE_NODES) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_back() {
        for write in [1, 2] {
            let tag = Tag {
                file: 7,
                write,
                sector: 3,
            };
            let mut bytes = [0; SECTOR_BYTES];
            tag.fill(&mut bytes);
            assert_eq!(bytes.starts_with(&MAGIC_BYTES), write == 1);
            assert!(tag.matches(&bytes, SECTOR_BYTES));
            assert!(tag.matches(&bytes[..100], SECTOR_BYTES));
            assert_eq!(Tag::read(&bytes), Some(tag));
            bytes[101..].fill(0);
            assert!(tag.matches(&bytes, 101));
            assert!(!tag.matches(&bytes, 102) && !tag.matches(&bytes, 100));
            assert_eq!(Tag::read(&bytes), Some(tag));
            let mut stump = bytes;
            stump[12..].fill(0);
            assert_eq!(Tag::read(&stump), None);
            bytes[500] = 1;
            assert_eq!(Tag::read(&bytes), None);
        }
        assert_eq!(Tag::read(&[0; SECTOR_BYTES]), None);
    }
}
