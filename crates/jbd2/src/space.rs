//! Log space: the ring of log blocks, and the space that a transaction may take of it.
//!
//! A transaction of `b` blocks and `r` revokes takes `b` blocks, the descriptor blocks for them,
//! the revoke blocks for its revokes, and a commit block: [`Limits::need`]. Handles reserve that
//! before they start, so that closing a transaction never finds the log full:
//!
//! ```text
//! used (tail to head, the committing transaction included) + need(reserved by the running one)
//!     < capacity
//! ```

use crate::credits::Credits;
use crate::superblock::{LogFormat, Superblock};

/// Largest number of blocks, and of revokes, that a transaction can count.
pub(crate) const CREDITS_MAX: u32 = (1 << 24) - 1;

/// The blocks of the log as a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ring {
    first: u32,
    end: u32,
}

impl Ring {
    pub(crate) fn of(superblock: &Superblock) -> Self {
        Self {
            first: superblock.first(),
            end: superblock.log_end(),
        }
    }

    /// Returns the blocks that may hold fast commits, which are used from the first on.
    pub(crate) fn of_fast_commits(superblock: &Superblock) -> Option<Self> {
        let area = superblock.fast_commit_area()?;
        (!area.is_empty()).then_some(Self {
            first: area.start,
            end: area.end,
        })
    }

    /// Returns the first block.
    pub(crate) fn first(self) -> u32 {
        self.first
    }

    /// Returns the number of blocks.
    pub(crate) fn capacity(self) -> u32 {
        self.end - self.first
    }

    /// Returns the block `count` blocks after `at`.
    pub(crate) fn advance(self, at: u32, count: u32) -> u32 {
        let offset = u64::from(at - self.first) + u64::from(count);
        let offset = offset % u64::from(self.capacity());
        self.first + u32::try_from(offset).expect("less than the capacity")
    }

    /// Returns the number of blocks from `from` up to `to`.
    pub(crate) fn distance(self, from: u32, to: u32) -> u32 {
        if to >= from {
            to - from
        } else {
            self.capacity() - (from - to)
        }
    }

    /// Returns the number of blocks, of `count` blocks from `at` on, before the ring wraps.
    pub(crate) fn before_wrap(self, at: u32, count: u32) -> u32 {
        count.min(self.end - at)
    }
}

/// Limits of the log space that transactions may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) ring: Ring,
    tags_per_block: u32,
    revokes_per_block: u32,
    /// Largest number of blocks and revoke blocks of a transaction: a quarter of the journal, if
    /// that fits.
    pub(crate) transaction_max: u32,
}

impl Limits {
    pub(crate) fn new(superblock: &Superblock, format: &LogFormat) -> Self {
        let block_bytes = format.block_bytes as usize;
        let narrow = |count: usize| u32::try_from(count).expect("fewer than bytes in a block");
        let limits = Self {
            ring: Ring::of(superblock),
            tags_per_block: narrow(format.tags.capacity(block_bytes)),
            revokes_per_block: narrow(layout::revoke::capacity(format.tags, block_bytes)),
            transaction_max: 0,
        };
        limits.with_length(superblock.log_end())
    }

    /// Returns the limits of a journal whose end is kept for fast commits.
    pub(crate) fn before_fast_commits(self, area: &core::ops::Range<u32>) -> Self {
        // The block before the area is not used.
        self.with_length(area.start - 1)
    }

    /// Returns the limits of a journal of another length that starts at the same block.
    fn with_length(self, length: u32) -> Self {
        let ring = Ring {
            end: length,
            ..self.ring
        };
        Self {
            ring,
            // At most half of the ring, for logs that start near their end: the largest request of
            // a handle has to fit with its descriptors and its commit block.
            transaction_max: (length / 4).min(ring.capacity() / 2).min(CREDITS_MAX),
            ..self
        }
    }

    /// Returns the length of the shortest journal in which a handle may request this number of
    /// blocks and as many revokes.
    pub(crate) fn length_for(&self, blocks: u32) -> u32 {
        let fits = |length: &u32| self.with_length(*length).handle_max() >= blocks;
        let longer = self.ring.first + 1..u32::MAX;
        longer.into_iter().find(fits).unwrap_or(u32::MAX)
    }

    /// Returns the part of the size limit that credits count as. Revokes that cannot be counted are
    /// more than any limit.
    pub(crate) fn charge(&self, credits: Credits) -> u32 {
        if credits.revokes > CREDITS_MAX {
            return u32::MAX;
        }
        credits
            .blocks
            .saturating_add(credits.revokes.div_ceil(self.revokes_per_block))
    }

    /// Returns the largest number of log blocks that a transaction with these credits takes.
    pub(crate) fn need(&self, credits: Credits) -> u32 {
        let descriptors = credits.blocks.div_ceil(self.tags_per_block);
        self.charge(credits).saturating_add(descriptors + 1)
    }

    /// Returns the charge above which a transaction should be committed soon.
    pub(crate) fn nearly_full(&self) -> u32 {
        self.transaction_max - self.transaction_max / 4
    }

    /// Returns the largest number of log blocks that a transaction takes.
    pub(crate) fn need_max(&self) -> u32 {
        let descriptors = self.transaction_max.div_ceil(self.tags_per_block);
        self.transaction_max.saturating_add(descriptors + 1)
    }

    /// Returns the largest number of blocks that a handle may request with no more revokes than
    /// blocks.
    pub(crate) fn handle_max(&self) -> u32 {
        let revokes = self.transaction_max.div_ceil(self.revokes_per_block);
        self.transaction_max - revokes
    }

    pub(crate) fn tags_per_block(&self) -> usize {
        self.tags_per_block as usize
    }

    pub(crate) fn revokes_per_block(&self) -> usize {
        self.revokes_per_block as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: Ring = Ring { first: 3, end: 13 };

    #[test]
    fn the_ring_wraps() {
        assert_eq!(RING.capacity(), 10);
        for (at, count, expect) in [(3, 0, 3), (3, 9, 12), (3, 10, 3), (12, 1, 3), (12, 12, 4)] {
            assert_eq!(RING.advance(at, count), expect);
        }
        for (from, to, expect) in [(3, 3, 0), (3, 12, 9), (12, 3, 1), (5, 4, 9)] {
            assert_eq!(RING.distance(from, to), expect);
        }
        assert_eq!(RING.before_wrap(10, 7), 3);
        assert_eq!(RING.before_wrap(3, 7), 7);
    }

    /// A log may start anywhere: the largest request of a handle fits even if few blocks follow the
    /// first block.
    #[test]
    fn what_may_be_asked_for_fits_the_ring() {
        for (length, first) in [(1024, 1), (280, 255), (17, 1), (280, 264), (5000, 4000)] {
            let superblock = Superblock::new(1024, length, first, [0; 16]);
            let limits = Limits::new(&superblock, &superblock.format());
            let blocks = limits.handle_max();
            let most = Credits {
                blocks,
                revokes: blocks,
            };
            assert!(
                limits.need(most) < limits.ring.capacity(),
                "{length} {first}: {most:?}"
            );
        }
    }

    #[test]
    fn the_shortest_length_is_the_first_that_fits() {
        for first in [1, 3, 900] {
            let superblock = Superblock::new(1024, 1024, first, [0; 16]);
            let limits = Limits::new(&superblock, &superblock.format());
            for blocks in [1, 32, 55, 254, 255, 600] {
                let length = limits.length_for(blocks);
                assert!(limits.with_length(length).handle_max() >= blocks, "{first}");
                assert!(
                    limits.with_length(length - 1).handle_max() < blocks,
                    "{first}"
                );
            }
        }
    }

    #[test]
    fn a_transaction_needs_its_descriptors_revokes_and_commit_block() {
        let limits = Limits {
            ring: RING,
            tags_per_block: 4,
            revokes_per_block: 10,
            transaction_max: 20,
        };
        for (blocks, revokes, expect) in [
            (0, 0, 1),
            (1, 0, 3),
            (4, 0, 6),
            (5, 0, 8),
            (0, 1, 2),
            (5, 11, 10),
        ] {
            assert_eq!(
                limits.need(Credits { blocks, revokes }),
                expect,
                "{blocks} {revokes}"
            );
        }
        let blocks = limits.handle_max();
        assert!(
            limits.charge(Credits {
                blocks,
                revokes: blocks
            }) <= limits.transaction_max
        );
    }
}
