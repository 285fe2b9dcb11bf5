//! The part of the journal that holds fast commits, and the end of the log before it.
//!
//! The area exists while the log is not empty and the feature is set: the feature is cleared when
//! the log is emptied, and set again with the next commit, as Linux does. So a log that was written
//! without fast commits uses all blocks.
//!
//! | `s_num_fc_blks` | area |
//! |---|---|
//! | 0 | as with 256 |
//! | leaves less than 1024 blocks | none |
//! | n | the last n blocks of the journal without the first of them, which is not used |

use core::ops::Range;

use layout::journal::{BLOCK_COUNT_MIN, FAST_COMMIT_BLOCKS_DEFAULT, JournalIncompatible};

use super::Superblock;

impl Superblock {
    /// Returns the block after the last one of the log.
    pub(crate) fn log_end(&self) -> u32 {
        match self.fast_commit_count() {
            Some(count) => self.length() - count,
            None => self.length(),
        }
    }

    /// Returns the blocks that may hold fast commits; none without the feature.
    pub(crate) fn fast_commit_area(&self) -> Option<Range<u32>> {
        self.fast_commit_count()
            .map(|_| self.log_end() + 1..self.length())
    }

    fn fast_commit_count(&self) -> Option<u32> {
        let has_feature = self.start().is_some()
            && self
                .raw
                .incompatible()
                .contains(JournalIncompatible::FAST_COMMIT);
        self.possible_count().filter(|_| has_feature)
    }

    /// Returns the blocks that fast commits get when the log is used with them; none if the journal
    /// has no features, or too few blocks.
    pub(crate) fn possible_fast_commit_area(&self) -> Option<Range<u32>> {
        let count = self.possible_count().filter(|_| self.version() == 2)?;
        Some(self.length() - count + 1..self.length()).filter(|area| !area.is_empty())
    }

    /// Sets the feature, for a log that is not empty any more and may get fast commits.
    pub(crate) fn enable_fast_commits(&mut self) {
        let features = self.raw.incompatible() | JournalIncompatible::FAST_COMMIT;
        self.raw.incompatible_bits = features.bits().into();
    }

    fn possible_count(&self) -> Option<u32> {
        let count = match self.raw.fast_commit_blocks.get() {
            0 if rt::mutant!("fast-commit/default-area-ignored") => 0,
            0 => FAST_COMMIT_BLOCKS_DEFAULT,
            count => count,
        };
        let leaves_log = self
            .length()
            .checked_sub(count)
            .is_some_and(|left| left >= BLOCK_COUNT_MIN && left > self.first());
        leaves_log.then_some(count)
    }

    /// Sets the number of blocks that fast commits may use.
    pub(crate) fn set_fast_commit_blocks(&mut self, count: u32) {
        self.raw.fast_commit_blocks = count.into();
    }

    /// Clears the feature, for a log that holds no fast commits and gets none.
    pub(super) fn forget_fast_commits(&mut self) {
        if self.version() == 2 && !rt::mutant!("fast-commit/area-of-empty-log-kept") {
            let features = self.raw.incompatible() - JournalIncompatible::FAST_COMMIT;
            self.raw.incompatible_bits = features.bits().into();
        }
    }
}
