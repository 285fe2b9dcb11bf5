//! The credits that ext3 of Linux 2.4 asks for: more than a step needs, so that small logs close
//! their transactions earlier (`credits=ext3`).
//!
//! | step | credits | source |
//! |---|---|---|
//! | create a file | 22 + 3 | namei.c, `ext3_create` |
//! | write a page | 2 (1 + 3) + 2 + 16 for quota | inode.c, `ext3_writepage_trans_blocks` |
//! | remove an entry | 2 * 22 + 64 | ext3_jbd.h, `EXT3_DELETE_TRANS_BLOCKS` |
//! | free blocks | 22 + sectors, 64 at most | inode.c, `start_transaction` |
//!
//! All in fs/ext3 and include/linux of Linux 2.4.18-14 (Red Hat); 22 is `EXT3_DATA_TRANS_BLOCKS`.

use jbd2::Credits;

use super::Core;

/// Credits of a step that changes one block of data.
const DATA: u32 = 22;
/// Largest number of credits for the blocks of a file that is freed.
const DATA_MAX: u32 = 64;

/// A step that ext3 asks credits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Creating an inode with its entry.
    Create,
    /// Writing a page.
    Write,
    /// Removing an entry.
    Unlink,
    /// Freeing blocks of a file with this number of sectors.
    Free(u64),
}

impl Step {
    /// Returns the number of blocks that ext3 asks for.
    fn blocks(self) -> u32 {
        match self {
            Self::Create => DATA + 3,
            Self::Write => 2 * (1 + 3) + 2 + 16,
            Self::Unlink => 2 * DATA + 64,
            Self::Free(sectors) => {
                DATA + u32::try_from(sectors).map_or(DATA_MAX, |count| count.min(DATA_MAX))
            }
        }
    }
}

impl Core {
    /// Returns the credits to ask for at the start of a step that needs the given ones.
    pub(crate) fn credits(&self, step: Step, needed: Credits) -> Credits {
        let Some(most) = self.max_credits().filter(|_| self.tuning.asks_as_ext3) else {
            return needed;
        };
        let asked = step.blocks().min(most);
        Credits {
            blocks: needed.blocks.max(asked),
            ..needed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_ask_for_what_ext3_asks() {
        for (step, blocks) in [
            (Step::Create, 25),
            (Step::Write, 26),
            (Step::Unlink, 108),
            (Step::Free(0), 22),
            (Step::Free(8), 30),
            (Step::Free(64), 86),
            (Step::Free(u64::MAX), 86),
        ] {
            assert_eq!(step.blocks(), blocks, "{step:?}");
        }
    }
}
