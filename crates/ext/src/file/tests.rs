//! Files against a model in memory, and images against `e2fsck`.

#![allow(clippy::unwrap_used, reason = "tests")]

mod access_time;
mod crash;
mod cut_off;
mod evicted;
mod limits;
mod model;
mod orphans;
mod sparse;
mod stress;

use super::testing;
