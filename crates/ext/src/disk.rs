//! What lies on a device, decoded and validated: bytes in, facts out.

pub mod geometry;
pub mod superblock;
pub(crate) mod tables;
