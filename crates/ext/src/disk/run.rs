//! Extents of blocks.

use layout::BlockNr;

/// An extent: consecutive blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first block.
    pub(crate) first: BlockNr,
    /// Number of blocks.
    pub(crate) count: u32,
}

impl Run {
    /// Returns the block after the last.
    pub(crate) fn end(self) -> BlockNr {
        self.first + u64::from(self.count)
    }
}

/// Appends an extent to a list, merged with the last one if it follows it.
pub(crate) fn append(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last) if last.end() == run.first => last.count += run.count,
        _ => runs.push(run),
    }
}
