//! The journal: on disk that of Linux's JBD and JBD2, byte for byte, and in memory a simpler
//! design.
//!
//! On disk: superblock versions 1 and 2, descriptor, commit and revoke blocks, tags of 32 and 64
//! bits, checksums v1, v2 and v3, escaping, internal logs and external journal devices. Linux,
//! e2fsck and debugfs replay the logs of this crate, and it replays theirs. It does not depend on
//! ext.
//!
//! In memory: a *transaction* is a list of buffers. The running transaction changes their images in
//! place. When it closes, the images freeze (an `Arc` is cloned), and a later change makes a copy.
//! Frozen, committed and checkpointing images are further references to the same `Arc`. When a
//! transaction becomes durable, it takes over its blocks from older ones, so that each block is
//! checkpointed by at most one transaction.
//!
//! # Map
//!
//! | module | contents |
//! |---|---|
//! | [`journal`] | the open journal, as a file system uses it |
//! | [`handle`] | one step of an operation |
//! | [`credits`] | the log space that a handle reserves |
//! | [`buffer`] | one block in memory |
//! | `transaction` | the running transaction, and the contents of a closed one |
//! | `gate` | the count of open handles and their credits |
//! | `state`, `shared` | running and committing transactions, waiting threads; locks and order |
//! | `space` | the ring of log blocks, and the space that a transaction may take of it |
//! | `commit` | closing, logging, the commit block, group commit, fast commits |
//! | `fast_state` | the area of fast commits, and the callers that wait for them |
//! | [`lifecycle`] | the places of a block, and the events there |
//! | `checkpoint_list` | the committed transactions in the log, and their blocks to write |
//! | `home_batch` | one such write while it is on its way |
//! | `checkpoint` | the writes of these blocks, the log's tail |
//! | `daemon` | the two daemons |
//! | `hold` | commits and checkpoints that a device has no room for |
//! | [`recovery`] | scan, revoke, replay; inspecting logs |
//! | [`format`](mod@format) | creating logs, and external journal devices |
//! | [`client`], [`config`], [`location`] | the parts that a file system provides |
//! | [`stats`], [`error`] | counters and errors |
//!
//! # Invariants
//!
//! - All blocks of a transaction are in the log before its commit block is submitted, which follows
//!   a flush and is a forced write.
//! - No block is checkpointed before the commit block of its transaction is durable.
//! - The log's tail never passes a transaction whose blocks are not checkpointed and flushed, or
//!   taken over by a durable transaction.
//! - Log space is reused only when the superblock with the new tail is durable.
//! - At most one write of a block is in flight.
//! - After an error in the log nothing more is committed. A write without room is not an error: it
//!   is held and retried.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "tests stop at what they do not expect")
)]

pub mod buffer;
mod checkpoint;
mod checkpoint_list;
pub mod client;
mod commit;
pub mod config;
pub mod credits;
mod daemon;
pub mod error;
mod fast_state;
pub mod format;
mod gate;
pub mod handle;
mod hold;
mod home_batch;
pub mod journal;
pub mod lifecycle;
pub mod location;
pub mod policy;
pub mod recovery;
mod shared;
mod space;
mod state;
pub mod stats;
mod superblock;
mod transaction;

pub use buffer::{Buffer, BufferRead, BufferWrite, Derived, Label};
pub use client::Client;
pub use config::Config;
pub use credits::Credits;
pub use error::{Corrupt, Error};
pub use handle::Handle;
pub use journal::Journal;
pub use location::{Location, LogExtent};
pub use policy::LogPolicy;
pub use recovery::Recovered;
pub use stats::Stats;
