//! The journal: Linux's JBD and JBD2 on disk, byte for byte, and a simpler machine in memory.
//!
//! On disk: superblock versions 1 and 2, descriptor, commit and revoke blocks, tags of 32 and 64
//! bits, checksums v1, v2 and v3, escaping, internal logs and external journal devices. Linux,
//! e2fsck and debugfs replay what this crate writes, and it replays what they write. It knows
//! nothing of ext.
//!
//! In memory: a *transaction* is a list of buffers. The running transaction changes their images in
//! place; when it closes, the images freeze (an `Arc` is cloned), and a later change takes its own
//! copy. Frozen, committed and checkpointing copies are nothing but further references to the
//! `Arc`. When a transaction becomes durable it takes its blocks over from older ones, so that each
//! block is owed at most once.
//!
//! # Map
//!
//! | module | contents |
//! |---|---|
//! | [`journal`] | the open journal: what a file system holds |
//! | [`handle`] | one step of an operation |
//! | [`credits`] | the log space that a handle reserves |
//! | [`buffer`] | one block in memory |
//! | `transaction` | the running transaction, and what a closed one is made of |
//! | `state`, `shared` | running and committing transactions, waiting threads; locks and order |
//! | `space` | the ring of log blocks and what a transaction may take of it |
//! | `commit` | closing, logging, the commit record, group commit |
//! | [`lifecycle`] | the places of a block, and the events there |
//! | `checkpoint_list` | the committed transactions in the log, and the blocks that they owe |
//! | `checkpoint` | the writes of these blocks, the log's tail |
//! | `daemon` | the two daemons |
//! | `hold` | work that a device has no room for |
//! | [`recovery`] | scan, revoke, replay; looking at logs |
//! | [`format`](mod@format) | making logs, and external journal devices |
//! | [`client`], [`config`], [`location`] | the parts that a file system provides |
//! | [`stats`], [`error`] | the figures and errors that it gets |
//!
//! # Invariants
//!
//! - All blocks of a transaction are in the log before its commit record is issued, with a flush
//!   before it and forced.
//! - No block is written home before the commit record of its transaction is durable.
//! - The log's tail never passes a transaction whose blocks are not home and flushed, or taken over
//!   by a durable one.
//! - Log space is used again only when the superblock with the new tail is durable.
//! - At most one write of a block is in flight.
//! - After an error in the log nothing more is committed. A write without room is no error: it is
//!   held and tried again.

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
pub mod format;
pub mod handle;
mod hold;
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

pub use buffer::{Buffer, BufferRead, BufferWrite, Label};
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
