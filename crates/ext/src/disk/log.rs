//! The length of a log.

/// The shortest journal that is made, in blocks.
pub(crate) const LOG_BLOCKS_MIN: u32 = 1024;
/// The longest journal, in blocks, as e2fsprogs has it.
pub(crate) const LOG_BLOCKS_MAX: u32 = 10_240_000;
