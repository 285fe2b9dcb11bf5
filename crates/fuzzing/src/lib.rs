//! What arbitrary bytes must not do to jext: one function for each thing that is read from an image.
//!
//! Each [`Target`] puts the bytes that it gets into a small, good image (a superblock, an inode and its map, a directory, a
//! log, scattered edits) and uses it. Everything may be refused with an error. Nothing may panic, hang or take memory without
//! bound: everything happens in a simulated world, whose limits of steps and virtual time find what would never end.
//!
//! The folder `fuzz` (a workspace of its own) feeds the targets from libFuzzer; `fuzz/corpus` holds what it begins with and what it
//! once found, and this crate's tests replay that. `docs/testing.md` says how to run it.

mod base;
mod edits;
mod exercise;
mod targets;

pub use targets::{TARGETS, Target, find};
