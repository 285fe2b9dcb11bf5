//! The length of a log.

/// Length of the shortest journal created, in blocks.
pub(crate) const LOG_BLOCKS_MIN: u32 = 1024;
/// Length of the longest journal in blocks, as in e2fsprogs.
pub(crate) const LOG_BLOCKS_MAX: u32 = 10_240_000;
