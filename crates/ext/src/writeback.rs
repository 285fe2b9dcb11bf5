//! Writeback of pages and metadata, and the memory that they take.
//!
//! | module | contents |
//! |---|---|
//! | `pages` | writeback of dirty pages |
//! | `batch` | pages on their way to the device |
//! | `limits` | the dirty limits |
//! | `background` | writeback that waits for no write |
//! | `ordered` | ordered data before a commit |
//! | `flush` | flushing the device |
//! | `sync` | fsync and its family |
//! | `round` | one round of the writer daemon |
//! | `memory` | the budget: eviction, throttling, and the start of a handle |
//!
//! A dirty page knows its block, so that nothing here needs a file's block map. Pages without one
//! are left out: `file::delayed` gives them theirs first.

mod background;
mod batch;
mod flush;
mod limits;
pub(crate) mod memory;
mod ordered;
pub(crate) mod pages;
mod round;
mod sync;
#[cfg(test)]
mod tests;

pub(crate) use background::{flush_until_stop, write_metadata};
pub(crate) use limits::used;
pub(crate) use ordered::{write_data_so_far, write_ordered};
pub(crate) use round::write_back_round;
pub(crate) use sync::{sync, sync_all, sync_directories, sync_operation};
