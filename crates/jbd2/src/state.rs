//! State under the journal's one central lock: the running and committing transactions, the waiting
//! threads, and the used part of the log.

use std::sync::Arc;

use layout::Tid;
use rt::Nanos;

use crate::credits::Credits;
use crate::error::{Error, Result};
use crate::fast_state::FastState;
use crate::hold::Hold;
use crate::space::Limits;
use crate::transaction::{Contents, Transaction};

/// Log blocks that a 2.4 kernel reserves for descriptors and similar.
const HEADROOM_BLOCKS: u32 = 32;

/// The central state. // [state]
pub(crate) struct JournalState {
    pub(crate) limits: Limits,
    pub(crate) running: Option<Running>,
    pub(crate) committing: Option<Committing>,
    /// The committing transaction while its commit is held.
    pub(crate) held: Option<Closed>,
    /// The hold of a commit for which a device had no room at the last attempt.
    pub(crate) commit_hold: Hold,
    /// The same for checkpoint writes and those of the journal's superblock.
    pub(crate) checkpoint_hold: Hold,
    /// True if a thread commits, or waits for callers to join its commit.
    pub(crate) has_committer: bool,
    /// The number of the next transaction to be started.
    pub(crate) next: Tid,
    /// The last transaction whose commit block is durable.
    pub(crate) durable: Tid,
    /// The place of the next transaction in the log.
    pub(crate) head: u32,
    /// Number of blocks before the head that are in use. The tail that this implies is durable.
    pub(crate) used: u32,
    /// True if the superblock on the device shows an empty log.
    pub(crate) is_log_empty: bool,
    /// True if the superblock was written for a commit, and no commit block has made it durable.
    pub(crate) has_new_superblock: bool,
    /// True if the superblock on the device allows revoke blocks.
    pub(crate) can_revoke: bool,
    /// The running transaction, if a commit of it was requested without waiting for it.
    pub(crate) commit_wanted: Option<Tid>,
    /// The fast commits of the running transaction.
    pub(crate) fast: FastState,
    /// Number of callers that wait for log space.
    pub(crate) space_waiters: u32,
    /// True if a caller checkpoints (`checkpointer=caller`).
    pub(crate) has_checkpointer: bool,
    /// Numbers of callers served by the last two commits, the latest first.
    pub(crate) groups: [u32; 2],
    /// Number of requests for more credits, counted if some of them are to be refused.
    pub(crate) extensions: u32,
    /// The reason for the abort.
    pub(crate) error: Option<Arc<Error>>,
    /// The transaction in which a handle was dropped unfinished; the journal has to abort.
    pub(crate) abandoned: Option<Tid>,
    pub(crate) is_closed: bool,
}

/// The running transaction, which handles join.
pub(crate) struct Running {
    pub(crate) transaction: Arc<Transaction>,
    /// Number of open handles.
    pub(crate) updates: u32,
    /// The credits that open handles have reserved and finished ones have used.
    pub(crate) reserved: Credits,
    /// True if no further handle may join.
    pub(crate) is_closing: bool,
    pub(crate) started: Nanos,
    /// Number of callers that wait for its commit.
    pub(crate) callers: u32,
}

/// A closed transaction with its place in the log.
pub(crate) struct Closed {
    pub(crate) contents: Contents,
    /// Its first block in the log.
    pub(crate) start: u32,
    /// Number of blocks that it takes there.
    pub(crate) log_blocks: u32,
    /// The time at which its commit began.
    pub(crate) began: Nanos,
}

/// The transaction that is being written.
pub(crate) struct Committing {
    pub(crate) tid: Tid,
    /// Its first block in the log.
    pub(crate) start: u32,
    /// Number of blocks that it takes there.
    pub(crate) log_blocks: u32,
    /// The part of the size limit that its credits count as.
    pub(crate) charge: u32,
    /// Number of images that it holds.
    pub(crate) images: usize,
    /// The phase of their I/O.
    pub(crate) log_io: LogIoPhase,
    pub(crate) callers: u32,
}

/// The phase of the log I/O of a committing transaction's images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogIoPhase {
    /// Still in memory.
    Ahead,
    /// Being written to the log.
    Underway,
    /// In the log.
    Over,
}

/// The outcome of an attempt to start a handle.
pub(crate) enum Admission {
    /// The handle has joined the transaction.
    In(Arc<Transaction>),
    /// The transaction is closing, or full and has to close.
    Closing,
    /// The log has no room for the requested credits.
    Full,
    /// The changes of the transaction are collected for a fast commit.
    Paused,
}

impl JournalState {
    /// Returns true if a transaction of `need` blocks fits into the log beside all that is in use.
    pub(crate) fn fits(&self, need: u32) -> bool {
        self.used + need < self.limits.ring.capacity()
    }

    /// Returns the number of free log blocks, including those that the running transaction has
    /// reserved.
    pub(crate) fn free(&self) -> u32 {
        self.limits.ring.capacity() - self.used
    }

    /// Returns true if log blocks are in use that the committing transaction does not take. If no
    /// transaction is filed, nothing needs them: the tail is about to move past them.
    pub(crate) fn has_settled_blocks(&self) -> bool {
        let committing = self.committing.as_ref().map_or(0, |it| it.log_blocks);
        self.used > committing
    }

    /// Returns the first block of the log in use.
    pub(crate) fn tail(&self) -> u32 {
        let ring = self.limits.ring;
        ring.advance(self.head, ring.capacity() - self.used)
    }

    /// Checks that the journal works.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(error) = &self.error {
            return Err(Error::Aborted(Arc::clone(error)));
        }
        if let Some(tid) = self.abandoned {
            return Err(Error::Abandoned { tid });
        }
        if self.is_closed {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// Returns true if the log has less free space than a 2.4 kernel requires to admit a handle:
    /// seven eighths of the free blocks beyond [`HEADROOM_BLOCKS`] have to hold a whole transaction
    /// and, once more, the one that is being committed, which is subtracted only when it is written
    /// to the log. An empty log is never short.
    pub(crate) fn is_short_of_headroom(&self) -> bool {
        let (unlogged, promised) = match &self.committing {
            Some(it) if it.log_io == LogIoPhase::Ahead => (it.log_blocks, it.charge),
            Some(it) => (0, it.charge),
            None => (0, 0),
        };
        let free = (self.free() + unlogged).saturating_sub(HEADROOM_BLOCKS);
        self.used > 0 && free - free / 8 < self.limits.transaction_max + promised
    }

    /// Lets a handle join the running transaction, or start the next one, if there is room for it.
    pub(crate) fn admit(&mut self, credits: Credits, needs_headroom: bool) -> Result<Admission> {
        self.check()?;
        if self.fast.is_paused {
            return Ok(Admission::Paused);
        }
        let limits = self.limits;
        let asked = limits.charge(credits);
        if asked > limits.transaction_max {
            return Err(Error::TooManyCredits {
                asked,
                most: limits.transaction_max,
            });
        }
        if needs_headroom && self.is_short_of_headroom() {
            return Ok(Admission::Full);
        }
        let Some(running) = &self.running else {
            if !self.fits(limits.need(credits)) {
                return Ok(Admission::Full);
            }
            let transaction = Transaction::new(self.next);
            self.next = self.next.next();
            self.running = Some(Running {
                transaction: Arc::clone(&transaction),
                updates: 1,
                reserved: credits,
                is_closing: false,
                started: rt::monotonic(),
                callers: 0,
            });
            return Ok(Admission::In(transaction));
        };
        let reserved = running.reserved.plus(credits);
        if running.is_closing || limits.charge(reserved) > limits.transaction_max {
            return Ok(Admission::Closing);
        }
        if !self.fits(limits.need(reserved)) {
            return Ok(Admission::Full);
        }
        let running = self.running.as_mut().expect("there is one");
        running.reserved = reserved;
        running.updates += 1;
        Ok(Admission::In(Arc::clone(&running.transaction)))
    }

    /// Adds credits to an open handle of the running transaction, if there is room.
    pub(crate) fn extend(&mut self, more: Credits) -> bool {
        let limits = self.limits;
        let Some(running) = &self.running else {
            return false;
        };
        let reserved = running.reserved.plus(more);
        let has_room = limits.charge(reserved) <= limits.transaction_max
            && self.fits(limits.need(reserved))
            && !running.is_closing;
        if let (true, Some(running)) = (has_room, &mut self.running) {
            running.reserved = reserved;
        }
        has_room
    }

    /// Counts a request for more credits. Returns true if it is to be refused; the running
    /// transaction is then closing.
    pub(crate) fn is_to_restart(&mut self, every: u32) -> bool {
        if every == 0 {
            return false;
        }
        self.extensions = self.extensions.wrapping_add(1);
        let is_chosen = self.extensions.is_multiple_of(every);
        if let (true, Some(running)) = (is_chosen, &mut self.running) {
            running.is_closing = true;
        }
        is_chosen
    }

    /// Removes a handle that has ended from its transaction and returns its unused credits. Returns
    /// true if the committer waits for that.
    pub(crate) fn leave(&mut self, tid: Tid, unused: Credits) -> bool {
        match &mut self.running {
            Some(running) if running.transaction.tid == tid => {
                running.updates -= 1;
                running.reserved = running.reserved.minus(unused);
                (running.is_closing || self.fast.is_paused) && running.updates == 0
            }
            _ => false,
        }
    }

    /// Returns the running transaction's number.
    pub(crate) fn running_tid(&self) -> Option<Tid> {
        self.running.as_ref().map(|running| running.transaction.tid)
    }

    /// Returns true if the running transaction takes no further handle.
    pub(crate) fn is_closing(&self) -> bool {
        self.running
            .as_ref()
            .is_some_and(|running| running.is_closing)
    }

    /// Returns the number of the next commit block.
    pub(crate) fn next_committed(&self) -> Tid {
        self.running_tid().unwrap_or(self.next)
    }

    /// Returns true if the running transaction is so full that it should be committed soon.
    pub(crate) fn is_nearly_full(&self) -> bool {
        let most = self.limits.transaction_max;
        self.running
            .as_ref()
            .is_some_and(|running| self.limits.charge(running.reserved) > most - most / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::Superblock;

    fn state() -> JournalState {
        let superblock = Superblock::new(1024, 65, 1, [0; 16]);
        JournalState {
            limits: Limits::new(&superblock, &superblock.format()),
            running: None,
            committing: None,
            held: None,
            commit_hold: Hold::default(),
            checkpoint_hold: Hold::default(),
            has_committer: false,
            next: Tid::new(0xFFFF_FFFF),
            durable: Tid::new(0xFFFF_FFFE),
            head: 60,
            used: 0,
            is_log_empty: true,
            has_new_superblock: false,
            can_revoke: true,
            commit_wanted: None,
            fast: FastState::default(),
            space_waiters: 0,
            has_checkpointer: false,
            groups: [0; 2],
            extensions: 0,
            error: None,
            abandoned: None,
            is_closed: false,
        }
    }

    fn blocks(blocks: u32) -> Credits {
        Credits { blocks, revokes: 0 }
    }

    fn kind(result: Result<Admission>) -> &'static str {
        match result {
            Ok(Admission::In(_)) => "in",
            Ok(Admission::Closing) => "closing",
            Ok(Admission::Full) => "full",
            Ok(Admission::Paused) => "paused",
            Err(_) => "error",
        }
    }

    #[test]
    fn handles_join_until_the_transaction_is_full() {
        let mut state = state();
        assert_eq!(kind(state.admit(blocks(10), false)), "in");
        assert_eq!(state.running_tid(), Some(Tid::new(0xFFFF_FFFF)));
        assert_eq!(state.next, Tid::new(0));
        assert_eq!(kind(state.admit(blocks(6), false)), "in");
        assert_eq!(kind(state.admit(blocks(1), false)), "closing");
        assert_eq!(kind(state.admit(blocks(17), false)), "error");
        assert!(!state.extend(blocks(1)));
        assert!(!state.leave(Tid::new(0xFFFF_FFFF), blocks(4)));
        assert!(state.extend(blocks(1)));
        assert_eq!(kind(state.admit(blocks(3), false)), "in");
    }

    #[test]
    fn a_log_without_room_is_full() {
        let mut state = state();
        state.used = 52;
        assert_eq!(kind(state.admit(blocks(10), false)), "full");
        assert_eq!(kind(state.admit(blocks(9), false)), "in");
        assert_eq!(kind(state.admit(blocks(1), false)), "full");
        assert_eq!(state.tail(), 8);
    }

    #[test]
    fn handles_wait_while_changes_are_collected() {
        let mut state = state();
        assert_eq!(kind(state.admit(blocks(2), false)), "in");
        state.fast.is_paused = true;
        assert_eq!(kind(state.admit(blocks(1), false)), "paused");
        assert!(state.extend(blocks(1)), "an open handle goes on");
        assert!(state.leave(Tid::new(0xFFFF_FFFF), blocks(0)));
        state.fast.is_paused = false;
        assert_eq!(kind(state.admit(blocks(1), false)), "in");
    }

    #[test]
    fn a_forced_restart_closes_the_running_transaction() {
        let mut state = state();
        assert_eq!(kind(state.admit(blocks(1), false)), "in");
        assert!(!state.is_to_restart(0) && !state.is_to_restart(3) && !state.is_to_restart(3));
        assert_eq!(kind(state.admit(blocks(1), false)), "in");
        assert!(state.is_to_restart(3));
        assert_eq!(kind(state.admit(blocks(1), false)), "closing");
    }

    #[test]
    fn headroom_counts_what_is_being_committed_twice() {
        let superblock = Superblock::new(1024, 1025, 1, [0; 16]);
        let mut state = JournalState {
            limits: Limits::new(&superblock, &superblock.format()),
            ..state()
        };
        assert_eq!((state.free(), state.limits.transaction_max), (1024, 256));
        // Seven eighths of (free - 32) are 256 from 324 free blocks on.
        for (used, expect) in [(0, false), (700, false), (701, true)] {
            state.used = used;
            assert_eq!(state.is_short_of_headroom(), expect, "{used}");
        }
        for (phase, used, expect) in [
            (LogIoPhase::Ahead, 567, false),
            (LogIoPhase::Ahead, 568, true),
            (LogIoPhase::Underway, 467, false),
            (LogIoPhase::Over, 468, true),
        ] {
            state.used = used;
            state.committing = Some(Committing {
                tid: Tid::new(1),
                start: 1,
                log_blocks: 100,
                charge: 204,
                images: 98,
                log_io: phase,
                callers: 0,
            });
            assert_eq!(state.is_short_of_headroom(), expect, "{phase:?} {used}");
        }
    }
}
