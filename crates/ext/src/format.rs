//! Work on a volume that is not open: making it, and changing what it says of itself.

pub mod mkfs;
pub mod tune;
