//! Files compared with an in-memory model, and images checked by `e2fsck`.

#![allow(clippy::unwrap_used, reason = "tests")]

mod access_time;
mod crash;
mod cut_off;
mod delayed;
mod evicted;
mod limits;
mod model;
mod moved;
mod moved_out;
mod orphans;
mod sparse;
mod stress;

use super::testing;
