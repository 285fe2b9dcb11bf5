//! File contents: reading, writing and truncation through the page cache, whose state is in `cache`
//! and whose writeback is in `writeback`.
//!
//! | module | contents |
//! |---|---|
//! | `read`, `ahead` | reading, and readahead |
//! | `write`, `direct` | writing through the cache, and past it |
//! | `delayed` | blocks for pages that were written into holes; the sync calls |
//! | `inline` | files within their inodes |
//! | `lay_out` | all blocks of a new file at once, past the cache |
//! | `truncate` | setting the size, deleting |
//! | `ranges` | allocating, punching, zeroing, collapsing and inserting parts of a file |
//! | `exchange` | exchanging blocks of two files; defragmentation |
//! | `touch` | times of a file whose block map stays as it is |
//! | `seek` | finding data and holes |
//! | `orphans` | completing the operations on the orphan list |
//! | `journaled` | switching a file's data journaling |
//! | `migrate` | extents for a file with a block map of indirect blocks |
//!
//! # States of a page
//!
//! | state | image | dirty | in flight | transitions |
//! |---|---|---|---|---|
//! | absent | - | - | - | read from the device; created by a write |
//! | clean | yes | - | - | evicted; written to |
//! | dirty | yes | yes | - | written to; submitted; dropped by truncation |
//! | in flight | yes | - | yes | written to (a copy, if the image is shared); completed |
//! | in flight, dirty again | yes | yes | yes | the same; submitted again only after completion |
//!
//! A failed write makes the page dirty again and increments the file's error count; every open file
//! reports the error once.
//!
//! # Rules
//!
//! - Contents change only under the file's exclusive inode lock. The leaf lock of a file's pages
//!   protects them against the writer, the committer and eviction, which take no inode lock.
//! - At most one write of a block is in flight; truncation waits for it before blocks are freed.
//! - A dirty page has a [`Backing`](crate::cache::folio::Backing): a mapped block, or a claim to
//!   one. A page with a claim is written once it has its block.
//! - Bytes of a cached page beyond the file's size are zero.
//! - Leaf locks nest in one case only: while a file's pages are locked, the dirty list or an
//!   ordered set may be changed, and never the reverse.

mod ahead;
mod buffered;
mod delayed;
mod direct;
mod exchange;
mod inline;
mod journaled;
mod kept_clusters;
mod large_file;
mod lay_out;
mod live;
mod migrate;
mod orphans;
mod ranges;
mod read;
mod restored;
mod seek;
mod spans;
mod tail;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod touch;
mod truncate;
mod write;

pub(crate) use ahead::settle as settle_reads;
pub(crate) use delayed::{
    allocate_old, before_rename, before_rename_locked, close, settle, sync, sync_all, with_space,
    write_busy,
};
pub use exchange::Defragmented;
pub(crate) use exchange::{Exchange, defragment, exchange};
pub(crate) use journaled::set_journaled;
pub(crate) use lay_out::lay_out;
pub(crate) use live::check_live;
pub(crate) use migrate::use_extents;
pub(crate) use orphans::{clean_up, finish_left};
pub use ranges::RangeChange;
pub(crate) use ranges::{ByteRange, change_range, change_range_or_cut};
pub(crate) use read::{read, read_direct};
pub use restored::Restored;
pub(crate) use seek::{Sought, seek};
pub(crate) use truncate::{
    delete_at_once, delete_left, delete_or_leave, is_deleted_at_once, truncate, with_values,
};
pub(crate) use write::{WriteOptions, write, write_range};
