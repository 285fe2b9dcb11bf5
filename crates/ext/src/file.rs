//! File contents: the page cache, reading, writing, truncation, write-back and fsync.
//!
//! | module | what it is |
//! |---|---|
//! | `folio` | 16 pages of one file, and the map of them |
//! | `pages` | the pages of one file behind their leaf lock |
//! | `cache` | what all files share: counts, dirty list, limits |
//! | `ordered` | ordered data by transaction |
//! | `read`, `ahead` | reading, and reading ahead |
//! | `write`, `direct` | writing through the cache, and past it |
//! | `lay_out` | all blocks of a new file at once, past the cache |
//! | `truncate` | setting the size, deleting |
//! | `ranges` | allocating, punching and zeroing parts of a file |
//! | `seek` | where data and holes begin |
//! | `write_back` | dirty pages on their way to the device |
//! | `sync`, `flush` | fsync and its kin, and when the device has to be flushed |
//! | `memory` | the budget: eviction, throttling |
//! | `journaled` | switching a file's data journaling |
//!
//! # The life of a page
//!
//! | state | image | dirty | in flight | what may happen |
//! |---|---|---|---|---|
//! | absent | - | - | - | read from the device; made by a write |
//! | clean | yes | - | - | evicted; written to |
//! | dirty | yes | yes | - | written to; taken for a write to the device; dropped by truncation |
//! | in flight | yes | - | yes | written to (a copy, if the image is shared); waited for |
//! | in flight, dirty again | yes | yes | yes | as above; taken again only when the first write is done |
//!
//! A failed write makes the page dirty again and counts an error at the file, which every open file learns of once.
//!
//! # Rules
//!
//! - Contents change only under the file's exclusive inode lock. The leaf lock of a file's pages protects them against the
//!   writer, the committer and eviction, which take no inode lock.
//! - At most one write of a block is in flight; truncation waits for it before blocks are freed.
//! - A dirty page knows its block: blocks are allocated when data is written into the cache.
//! - Bytes of a cached page beyond the file's size are zero.
//! - Of the leaves, a file's pages may be held while the dirty list or an ordered set is changed, and never the reverse.

mod ahead;
mod cache;
mod direct;
mod flush;
mod folio;
mod journaled;
mod lay_out;
mod memory;
mod ordered;
mod pages;
mod ranges;
mod read;
mod seek;
mod stalls;
mod sync;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod truncate;
mod write;
mod write_back;

pub(crate) use cache::{Pages, Wake};
pub(crate) use journaled::set_journaled;
pub(crate) use lay_out::lay_out;
pub(crate) use memory::used as memory_used;
pub(crate) use pages::FilePages;
pub(crate) use ranges::{ByteRange, change_range};
pub(crate) use read::{read, read_direct};
pub(crate) use seek::{Sought, seek};
pub use stalls::CacheStalls;
pub(crate) use sync::{sync, sync_all, sync_operation};
pub(crate) use truncate::{delete, delete_or_leave, finish_truncation, truncate};
pub(crate) use write::{WriteOptions, check_live, write, write_range};
pub(crate) use write_back::write_back_round;
