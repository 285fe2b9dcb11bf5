//! Checkpointing: what committed transactions owe to the blocks' homes, and who writes it.
//!
//! Each block has at most one debt, that of the newest committed transaction that holds it: when a transaction becomes
//! durable it takes its blocks over from older ones, which then owe nothing for them ([`crate::lifecycle`]). A transaction
//! whose blocks all are home, or taken over, leaves the log at the next move of the tail ([`tail`]).
//!
//! Who writes how much, and how, is a matter of policy ([`crate::policy`]): a daemon, or whoever finds the log too full;
//! beside them the age-based writer, and a close. They may do so at the same time: a block is written by one at a time.

pub(crate) mod home;
pub(crate) mod tail;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use layout::{Block, BlockNr, Tid};
use rt::{Cost, Nanos};

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::lifecycle::{Debt, DebtEvent, Next};
use crate::policy::{Batch, Batches, Checkpointer, Extent};
use crate::shared::Shared;
use crate::transaction::{Contents, Logged};

/// What committed transactions owe. // [checkpoint]
#[derive(Default)]
pub(crate) struct Checkpoint {
    /// The debts, by block.
    owed: BTreeMap<BlockNr, Owed>,
    /// The transactions in the log, oldest first, with consecutive numbers.
    filed: VecDeque<Filed>,
    /// Writes home that have completed, and how many of them a flush of the home device covers.
    written: u64,
    flushed: u64,
    pub(crate) is_aborted: bool,
}

/// A block's debt.
struct Owed {
    /// The transaction that owes it.
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
    /// How many log blocks it takes.
    log_blocks: u32,
    /// When it was committed.
    since: Nanos,
    /// How many blocks it owes.
    owed: usize,
    /// Blocks that nobody has chosen to write yet; some of them may be owed by later transactions, or nobody, by now.
    unchosen: Vec<BlockNr>,
}

impl Checkpoint {
    /// How many blocks are owed.
    pub(crate) fn owed_count(&self) -> usize {
        self.owed.len()
    }

    /// Whether a committed transaction is in the log.
    pub(crate) fn has_filed(&self) -> bool {
        !self.filed.is_empty()
    }

    /// The oldest transaction that owes something.
    fn oldest_unsettled(&self) -> Option<Tid> {
        let mut filed = self.filed.iter();
        filed.find(|filed| filed.owed > 0).map(|filed| filed.tid)
    }

    /// The last of the oldest transactions that together fill so many blocks of the log, or all of them.
    fn end_of_oldest(&self, wanted: u32) -> Option<Tid> {
        let mut log_blocks = 0;
        let last = self.filed.iter().find(|filed| {
            log_blocks += filed.log_blocks;
            log_blocks >= wanted
        });
        last.or(self.filed.back()).map(|filed| filed.tid)
    }

    /// That writes home make sense.
    fn check(&self) -> Result<()> {
        // The journal says why; this only ends waits.
        if self.is_aborted {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// A transaction has one debt less.
    fn settle(&mut self, tid: Tid) {
        let front = self.filed.front().expect("whoever owes is in the log").tid;
        let filed = &mut self.filed[tid.distance_from(front) as usize];
        assert_eq!(
            filed.tid, tid,
            "transactions in the log have consecutive numbers"
        );
        filed.owed -= 1;
    }

    /// A durable transaction takes a block over. Whether an older one owed it.
    fn take_over(&mut self, tid: Tid, logged: Logged) -> bool {
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

    /// Cancels the debt of a freed block. `Some(true)`: there was one; `None`: the write in flight has to end first.
    fn cancel(&mut self, nr: BlockNr) -> Option<bool> {
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

impl Shared {
    /// Files a durable transaction: it takes its blocks over, and cancels the debts of what it has freed.
    pub(crate) fn file(&self, contents: Contents, start: u32, log_blocks: u32) -> Result<()> {
        let tid = contents.tid;
        let mut checkpoint = self.checkpoint.lock();
        let unchosen: Vec<BlockNr> = contents
            .logged
            .iter()
            .map(|logged| logged.buffer.nr())
            .collect();
        checkpoint.filed.push_back(Filed {
            tid,
            start,
            log_blocks,
            since: rt::monotonic(),
            owed: unchosen.len(),
            unchosen,
        });
        let mut superseded = 0;
        for logged in contents.logged {
            rt::charge(Cost::BlockAccess);
            superseded += u64::from(checkpoint.take_over(tid, logged));
        }
        self.counters.superseded_blocks.add(superseded);
        for nr in contents.forgotten {
            loop {
                if let Some(was_owed) = checkpoint.cancel(nr) {
                    self.counters.cancelled_blocks.add(u64::from(was_owed));
                    break;
                }
                checkpoint.check()?;
                self.writes_done.wait(&mut checkpoint);
            }
        }
        drop(checkpoint);
        // Whoever waits until older transactions owe nothing may have got it without a write.
        self.writes_done.notify_all();
        Ok(())
    }

    /// The daemon: writes what a part of the log owes, and moves the tail.
    pub(crate) fn checkpoint_ahead(&self, is_urgent: bool) -> Result<()> {
        let quarter = self.limits.ring.capacity() / 4;
        let least = if is_urgent { 1 } else { quarter };
        let result = self
            .checkpoint_extent()
            .and_then(|()| self.advance_tail(least));
        self.settle_checkpoint(result).map(drop)
    }

    /// Frees log space on the caller's time. Whether there was anything to do.
    pub(crate) fn checkpoint_for_space(&self) -> bool {
        let result = self.advance_tail(1).and_then(|freed| {
            if freed > 0 {
                return Ok(freed);
            }
            self.checkpoint_extent()?;
            self.advance_tail(1)
        });
        self.settle_checkpoint(result)
            .map_or(true, |freed| freed > 0)
    }

    /// Writes home as much at a time as the policy says, and waits for it.
    fn checkpoint_extent(&self) -> Result<()> {
        let quarter = self.limits.ring.capacity() / 4;
        match self.config.policy.extent {
            Extent::Oldest => self.write_home_of(Checkpoint::oldest_unsettled),
            Extent::Quarter => self.write_home_of(|checkpoint| checkpoint.end_of_oldest(quarter)),
            Extent::All => {
                let end = self.state.lock().next_committed();
                loop {
                    let oldest = self.checkpoint.lock().oldest_unsettled();
                    match oldest {
                        Some(oldest) if !oldest.is_after(end) => self.write_home_through(oldest)?,
                        _ => return Ok(()),
                    }
                }
            }
        }
    }

    /// Writes home what transactions owe up to one that is chosen, if there is one.
    fn write_home_of(&self, choose: impl Fn(&Checkpoint) -> Option<Tid>) -> Result<()> {
        let last = choose(&self.checkpoint.lock());
        last.map_or(Ok(()), |last| self.write_home_through(last))
    }

    /// The age-based writer.
    pub(crate) fn write_back(&self, owed_before: Nanos, limit: usize) -> Result<usize> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        let candidates = self.checkpoint.lock().choose_aged(owed_before, limit);
        let written = self
            .write_candidates(candidates, Batch::Large, Batches::Wait)
            .and_then(|written| {
                if self.config.policy.checkpointer == Checkpointer::Daemon {
                    self.advance_tail(self.limits.ring.capacity() / 4)?;
                }
                Ok(written)
            });
        self.settle_checkpoint(written)
    }

    /// Writes home all that is owed by what was committed up to now, and moves the tail; if nothing is left, the log is
    /// durably empty.
    pub(crate) fn checkpoint_all(&self) -> Result<()> {
        let newest = |checkpoint: &Checkpoint| checkpoint.filed.back().map(|filed| filed.tid);
        let result = self.write_home_of(newest).and_then(|()| self.empty_log());
        self.settle_checkpoint(result)
    }

    /// Ends an attempt to checkpoint: without room on a device it is held, and any other error aborts the journal.
    fn settle_checkpoint<T>(&self, result: Result<T>) -> Result<T> {
        let error = match result {
            Ok(value) => {
                if self.state.lock().checkpoint_hold.release() {
                    tracing::warn!("the device has room again; checkpointing goes on");
                }
                return Ok(value);
            }
            Err(error) => error,
        };
        let cause = error.no_room().map_err(|error| self.fail(error))?;
        let mut state = self.state.lock();
        if state.checkpoint_hold.fail(cause.clone(), rt::monotonic()) {
            tracing::warn!(error = %cause, "checkpointing is held until there is room");
        }
        drop(state);
        self.notify_refused();
        self.checkpoint_work.notify_all();
        Err(Error::Held(cause))
    }

    /// Aborts because of an error, unless the journal has aborted already; the error for the caller.
    fn fail(&self, error: Error) -> Error {
        self.abort(error.clone());
        self.error().unwrap_or(error)
    }
}
