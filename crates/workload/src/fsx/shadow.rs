//! The expected contents of the file, and the choice of the next operation.

use crate::random::Random;

/// The expected contents of the file.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    bytes: Vec<u8>,
}

/// An operation; offsets and sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Read { offset: usize, length: usize },
    Write { offset: usize, length: usize },
    Truncate { size: usize },
    Fsync,
    Reopen,
}

/// Percentages of reads, writes, truncations and fsyncs; the rest are reopens.
const READS: u64 = 40;
const WRITES: u64 = 35;
const TRUNCATIONS: u64 = 15;
const FSYNCS: u64 = 5;

impl Shadow {
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Draws the next operation.
    pub(super) fn draw(&self, random: &mut Random, size_max: usize, most: usize) -> Deed {
        let mut below = |bound: usize| random.below(bound as u64) as usize;
        let drawn = below(100) as u64;
        if drawn < READS {
            let offset = below(self.bytes.len().max(1));
            let length = below(most) + 1;
            Deed::Read { offset, length }
        } else if drawn < READS + WRITES {
            let offset = below(size_max);
            let length = (below(most) + 1).min(size_max - offset);
            Deed::Write { offset, length }
        } else if drawn < READS + WRITES + TRUNCATIONS {
            Deed::Truncate {
                size: below(size_max + 1),
            }
        } else if drawn < READS + WRITES + TRUNCATIONS + FSYNCS {
            Deed::Fsync
        } else {
            Deed::Reopen
        }
    }

    /// Draws the data to write, and records it.
    pub(super) fn write(&mut self, random: &mut Random, offset: usize, length: usize) -> Vec<u8> {
        let words = (0..length.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes());
        let data: Vec<u8> = words.take(length).collect();
        let end = offset + length;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(&data);
        data
    }

    pub(super) fn truncate(&mut self, size: usize) {
        self.bytes.resize(size, 0);
    }

    /// Returns the expected result of a read, cut at the end of the file.
    pub(super) fn read(&self, offset: usize, length: usize) -> &[u8] {
        let end = (offset + length).min(self.bytes.len());
        &self.bytes[offset.min(end)..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_zeros_and_what_was_cut_is_gone() {
        let (mut shadow, mut random) = (Shadow::default(), Random::new(1, 1));
        let data = shadow.write(&mut random, 10, 5);
        assert_eq!(shadow.read(0, 10), [0; 10]);
        assert_eq!(shadow.read(10, 100), data);
        shadow.truncate(12);
        shadow.truncate(20);
        assert_eq!(shadow.read(10, 2), &data[..2]);
        assert_eq!(shadow.read(12, 8), [0; 8]);
        assert_eq!(shadow.read(30, 8), []);
    }
}
