//! Fuzz targets: one function for each structure that jext reads from an image.
//!
//! Each [`Target`] inserts its input into a small, valid image (a superblock, an inode and its
//! block map, a directory, a log, scattered edits) and uses the image. Any operation may fail with
//! an error; none may panic, hang or use unbounded memory. Everything runs in a simulated world,
//! whose limits on steps and virtual time detect endless loops.
//!
//! The folder `fuzz` (a workspace of its own) runs the targets under libFuzzer. `fuzz/corpus` holds
//! the initial inputs and those that once found a defect; this crate's tests replay them.
//! `docs/testing.md` describes how to run it.

mod base;
mod edits;
mod exercise;
mod targets;

pub use targets::{TARGETS, Target, find};
