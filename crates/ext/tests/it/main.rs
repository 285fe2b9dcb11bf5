//! The file system compared with a model and with its other readers: `e2fsck`, the Linux kernel,
//! `ext4-view`.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "tests")]
#![allow(
    clippy::disallowed_methods,
    reason = "the number of random runs is taken from the environment"
)]

mod accesses;
mod aging;
mod allocations;
mod async_commits;
mod at_once;
mod attributes;
mod budget;
mod cell;
mod chains;
mod charges;
mod claims;
mod cookies;
mod crossing;
mod damage;
mod direct_writes;
mod directories;
mod discard;
mod durability;
mod ext4;
mod failures;
mod fast_commits;
mod fast_replays;
mod faults;
mod features;
mod foreign_writes;
mod frozen;
mod full;
mod history;
mod holes;
mod hostile;
mod image;
mod known_inodes;
mod large_blocks;
mod locking;
mod made;
mod model;
mod multi_mount;
mod mutations;
mod oracle;
mod pins;
mod quotas;
mod races;
mod readers;
mod refused_writers;
mod reuse;
mod rig;
mod script;
mod sequences;
mod short_logs;
mod submitted_writes;
mod suspect;
mod switching;
mod tree;
mod untouched;
mod write_behind;
