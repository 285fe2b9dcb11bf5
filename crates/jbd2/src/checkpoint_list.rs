//! The checkpoint list: the committed transactions in the log, and the blocks that have yet to
//! reach their final location.
//!
//! At most one transaction has yet to write a block: the newest committed one that holds it. When a
//! transaction becomes durable, it takes over its blocks from older ones ([`crate::lifecycle`]). A
//! transaction without blocks to write leaves the list at the next move of the log's tail.
//!
//! This is the state under the lock `[checkpoint]`; [`crate::checkpoint`] writes the blocks and
//! moves the tail.

mod choose;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use layout::{Block, BlockNr, Tid};
use rt::Nanos;

pub(crate) use choose::{Candidate, Chosen, Outlook};

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::lifecycle::{Debt, DebtEvent, Next};
use crate::transaction::Logged;

/// Committed transactions that are still in the log, and their blocks to write. // [checkpoint]
#[derive(Default)]
pub(crate) struct CheckpointList {
    /// The blocks that await checkpoint.
    owed: BTreeMap<BlockNr, Owed>,
    /// The transactions in the log, oldest first, with consecutive numbers.
    filed: VecDeque<Filed>,
    /// Number of completed writes of blocks to their final location.
    pub(crate) written: u64,
    /// Number of these that a flush of the file-system device covers.
    pub(crate) flushed: u64,
    /// True if the journal has aborted.
    pub(crate) is_aborted: bool,
}

/// A block that awaits checkpoint.
struct Owed {
    /// The transaction that has to write it.
    tid: Tid,
    image: Arc<Block>,
    buffer: Arc<Buffer>,
    debt: Debt,
}

/// A committed transaction in the log.
struct Filed {
    tid: Tid,
    /// Its first block in the log.
    start: u32,
    /// Number of log blocks that it takes.
    log_blocks: u32,
    /// The time of its commit.
    since: Nanos,
    /// Number of its blocks that await checkpoint.
    owed: usize,
    /// Blocks whose write has not started. Some of them may have been taken over by a later
    /// transaction, or cancelled.
    unchosen: Vec<BlockNr>,
}

impl CheckpointList {
    /// Returns the number of blocks that await checkpoint.
    pub(crate) fn owed_count(&self) -> usize {
        self.owed.len()
    }

    /// Returns true if a committed transaction is in the log.
    pub(crate) fn has_filed(&self) -> bool {
        !self.filed.is_empty()
    }

    /// Returns the newest transaction in the log.
    pub(crate) fn newest(&self) -> Option<Tid> {
        self.filed.back().map(|filed| filed.tid)
    }

    /// Removes checkpointed transactions, oldest first. Returns the first block and the number of
    /// the oldest one that is left.
    pub(crate) fn oldest(&mut self) -> Option<(u32, Tid)> {
        let is_early = rt::mutant!("tail/past-unwritten-blocks") && self.filed.len() > 1;
        if is_early {
            return self.filed.back().map(|filed| (filed.start, filed.tid));
        }
        while self.filed.front().is_some_and(|filed| filed.owed == 0) {
            self.filed.pop_front();
        }
        self.filed.front().map(|filed| (filed.start, filed.tid))
    }

    /// Adds a durable transaction with these blocks to write. Each has to be taken over
    /// ([`Self::take_over`]) next.
    pub(crate) fn file(&mut self, tid: Tid, start: u32, log_blocks: u32, blocks: Vec<BlockNr>) {
        self.filed.push_back(Filed {
            tid,
            start,
            log_blocks,
            since: rt::monotonic(),
            owed: blocks.len(),
            unchosen: blocks,
        });
    }

    /// Returns the oldest transaction with a block to write.
    pub(crate) fn oldest_unsettled(&self) -> Option<Tid> {
        let mut filed = self.filed.iter();
        filed.find(|filed| filed.owed > 0).map(|filed| filed.tid)
    }

    /// Returns the last of the oldest transactions that together fill the wanted number of log
    /// blocks; the newest one if all of them do not.
    pub(crate) fn end_of_oldest(&self, wanted: u32) -> Option<Tid> {
        let mut log_blocks = 0;
        let last = self.filed.iter().find(|filed| {
            log_blocks += filed.log_blocks;
            log_blocks >= wanted
        });
        last.or(self.filed.back()).map(|filed| filed.tid)
    }

    /// Fails if the journal has aborted.
    pub(crate) fn check(&self) -> Result<()> {
        // The journal has the reason; this only ends waits.
        if self.is_aborted {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// Removes one block from those that a transaction has to write.
    fn settle(&mut self, tid: Tid) {
        let front = self
            .filed
            .front()
            .expect("a transaction that owes is in the log")
            .tid;
        let filed = &mut self.filed[tid.distance_from(front) as usize];
        assert_eq!(
            filed.tid, tid,
            "transactions in the log have consecutive numbers"
        );
        filed.owed -= 1;
    }

    /// Makes a durable transaction the one that writes a block. Returns true if an older
    /// transaction had to write it until now.
    pub(crate) fn take_over(&mut self, tid: Tid, logged: Logged) -> bool {
        let Logged { buffer, image } = logged;
        let mut state = buffer.lock();
        assert_eq!(
            state.holds.committing,
            Some(tid),
            "it was frozen by this transaction"
        );
        state.holds.committing = None;
        state.holds.owed = Some(tid);
        drop(state);
        let Some(owed) = self.owed.get_mut(&buffer.nr()) else {
            let debt = Debt::Awaiting;
            self.owed.insert(
                buffer.nr(),
                Owed {
                    tid,
                    image,
                    buffer,
                    debt,
                },
            );
            return false;
        };
        let Next::Become(debt) = owed.debt.after(DebtEvent::Commit) else {
            unreachable!("a commit never waits for a checkpoint")
        };
        if rt::mutant!("checkpoint/older-image-kept") {
            self.settle(tid);
            return true;
        }
        let older = core::mem::replace(
            owed,
            Owed {
                tid,
                image,
                buffer,
                debt,
            },
        );
        if !Arc::ptr_eq(&older.buffer, &owed.buffer) {
            older.buffer.lock().holds.owed = None;
        }
        self.settle(older.tid);
        true
    }

    /// Cancels the write of a freed block. Returns true if one was pending, or `None` if a write in
    /// flight has to complete first.
    pub(crate) fn cancel(&mut self, nr: BlockNr) -> Option<bool> {
        let Some(owed) = self.owed.get(&nr) else {
            return Some(false);
        };
        match owed.debt.after(DebtEvent::Free) {
            Next::Become(_) => {
                let owed = self.owed.remove(&nr).expect("it is there");
                owed.buffer.lock().holds.owed = None;
                self.settle(owed.tid);
                Some(true)
            }
            _ => None,
        }
    }
}
