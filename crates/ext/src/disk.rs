//! On-disk structures, decoded and validated.

pub(crate) mod checksums;
pub(crate) mod cluster;
pub(crate) mod entry;
pub(crate) mod extents;
pub(crate) mod file_size;
pub mod geometry;
pub(crate) mod group;
pub(crate) mod inode;
pub(crate) mod kind;
pub(crate) mod log;
pub(crate) mod metadata;
pub(crate) mod multi_mount;
pub(crate) mod new_inode;
pub(crate) mod quota;
pub(crate) mod run;
pub mod superblock;
pub(crate) mod tables;
pub(crate) mod words;
