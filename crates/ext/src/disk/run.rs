//! Blocks that follow each other.

use layout::BlockNr;

/// Blocks that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first.
    pub(crate) first: BlockNr,
    /// How many.
    pub(crate) count: u32,
}

impl Run {
    /// The block behind the last.
    pub(crate) fn end(self) -> BlockNr {
        self.first + u64::from(self.count)
    }
}
