//! Credits: the log space that a handle reserves.

/// Number of blocks and revoke records that a handle may add to its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Credits {
    /// Blocks that the handle may dirty.
    pub blocks: u32,
    /// Revoke records that the handle may add.
    pub revokes: u32,
}

impl Credits {
    /// Returns credits for `blocks` blocks and no revokes.
    pub const fn blocks(blocks: u32) -> Self {
        Self { blocks, revokes: 0 }
    }

    /// Returns the sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            blocks: self.blocks.saturating_add(other.blocks),
            revokes: self.revokes.saturating_add(other.revokes),
        }
    }
}
