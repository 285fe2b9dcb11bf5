//! Operations on a volume that is not open: creating it, and changing its parameters.

pub mod mkfs;
pub mod tune;
