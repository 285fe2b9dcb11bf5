//! Hash trees compared with `veritysetup`, partition tables with `sfdisk` and `sgdisk`.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests of the real world"
)]

mod partitions;
mod trees;
