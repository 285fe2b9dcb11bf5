//! State under the journal's one central lock: the running and committing transactions, the waiting
//! threads, and the used part of the log.

use std::sync::Arc;

use layout::Tid;
use rt::Nanos;

use crate::credits::Credits;
use crate::error::{Error, Result};
use crate::fast_state::FastState;
use crate::gate::Gate;
use crate::hold::Hold;
use crate::space::Limits;
use crate::superblock::Superblock;
use crate::transaction::Contents;

/// Log blocks that a 2.4 kernel reserves for descriptors and similar.
const HEADROOM_BLOCKS: u32 = 32;

/// The central state. // [state]
pub(crate) struct JournalState {
    pub(crate) limits: Limits,
    /// Counts the handles of the running transaction.
    gate: Arc<Gate>,
    /// True if handles are admitted only with headroom in the log (`checkpointer=caller`), for
    /// which each of them takes the lock.
    needs_headroom: bool,
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
    /// True if no handle may start because the tracked changes are collected.
    is_paused: bool,
    /// The reason for the abort.
    error: Option<Arc<Error>>,
    /// The transaction in which a handle was dropped unfinished; the journal has to abort.
    abandoned: Option<Tid>,
    is_closed: bool,
}

/// The running transaction, which handles join. The gate has their number and credits.
pub(crate) struct Running {
    pub(crate) tid: Tid,
    /// True if no further handle may join.
    is_closing: bool,
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
    In(Tid),
    /// The transaction is closing, or full and has to close.
    Closing,
    /// The log has no room for the requested credits.
    Full,
    /// The changes of the transaction are collected for a fast commit.
    Paused,
}

impl JournalState {
    /// Creates the state of a journal with an empty log.
    pub(crate) fn new(
        superblock: &Superblock,
        limits: Limits,
        gate: Arc<Gate>,
        fast: FastState,
        needs_headroom: bool,
    ) -> Self {
        Self {
            limits,
            gate,
            needs_headroom,
            running: None,
            committing: None,
            held: None,
            commit_hold: Hold::default(),
            checkpoint_hold: Hold::default(),
            has_committer: false,
            next: superblock.sequence().next(),
            durable: superblock.sequence(),
            head: limits.ring.first(),
            used: 0,
            is_log_empty: true,
            has_new_superblock: false,
            can_revoke: superblock.has_revoke(),
            commit_wanted: None,
            fast,
            space_waiters: 0,
            has_checkpointer: false,
            groups: [0; 2],
            extensions: 0,
            is_paused: false,
            error: None,
            abandoned: None,
            is_closed: false,
        }
    }

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

    /// Returns true if every handle that fits may join without the lock: see the
    /// [`gate`](crate::gate).
    fn is_open(&self) -> bool {
        let is_running = self.running.as_ref().is_some_and(|it| !it.is_closing);
        is_running
            && !self.is_paused
            && !self.needs_headroom
            && self.fits(self.limits.need_max())
            && self.check().is_ok()
    }

    /// Opens the gate if every handle that fits may join, and shuts it otherwise. Follows every
    /// change of what this depends on.
    fn settle_gate(&self) {
        if self.is_open() {
            self.gate.open();
        } else {
            self.gate.shut();
        }
    }

    /// Lets no further handle join the running transaction.
    pub(crate) fn close(&mut self) {
        if let Some(running) = &mut self.running {
            running.is_closing = true;
        }
        self.settle_gate();
    }

    /// Ends the running transaction, which is closing and has no handle. Returns it and the credits
    /// that it has used.
    pub(crate) fn end_running(&mut self) -> (Running, Credits) {
        let running = self
            .running
            .take()
            .expect("it is closing, and only the committer takes it");
        let used = self.gate.count().credits();
        self.gate.end();
        (running, used)
    }

    /// Lets no handle start until [`resume`](Self::resume).
    pub(crate) fn pause(&mut self) {
        self.is_paused = true;
        self.settle_gate();
    }

    /// Lets handles start again.
    pub(crate) fn resume(&mut self) {
        self.is_paused = false;
        self.settle_gate();
    }

    /// Ends all work for a reason.
    pub(crate) fn fail(&mut self, error: Arc<Error>) {
        self.error = Some(error);
        self.settle_gate();
    }

    /// Returns the reason for the abort.
    pub(crate) fn error(&self) -> Option<&Arc<Error>> {
        self.error.as_ref()
    }

    /// Notes that a handle of a transaction was dropped unfinished.
    pub(crate) fn abandon(&mut self, tid: Tid) {
        self.abandoned.get_or_insert(tid);
        self.settle_gate();
    }

    /// Returns the transaction of which a handle was dropped unfinished, until the journal has
    /// aborted for it.
    pub(crate) fn abandoned(&self) -> Option<Tid> {
        self.abandoned.filter(|_| self.error.is_none())
    }

    /// Notes that the journal is closed.
    pub(crate) fn shut_down(&mut self) {
        self.is_closed = true;
        self.settle_gate();
    }

    /// Lets a handle join the running transaction, or start the next one, if there is room for it.
    pub(crate) fn admit(&mut self, credits: Credits) -> Result<Admission> {
        // Nothing else counts handles meanwhile.
        self.gate.shut();
        let admission = self.admit_shut(credits);
        self.settle_gate();
        admission
    }

    fn admit_shut(&mut self, credits: Credits) -> Result<Admission> {
        self.check()?;
        if self.is_paused {
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
        if self.needs_headroom && self.is_short_of_headroom() {
            return Ok(Admission::Full);
        }
        let Some(running) = &self.running else {
            if !self.fits(limits.need(credits)) {
                return Ok(Admission::Full);
            }
            let tid = self.next;
            self.next = tid.next();
            self.gate.begin(tid, credits);
            self.running = Some(Running {
                tid,
                is_closing: false,
                started: rt::monotonic(),
                callers: 0,
            });
            return Ok(Admission::In(tid));
        };
        let count = self.gate.count();
        let reserved = count.credits().plus(credits);
        let has_room = limits.charge(reserved) <= limits.transaction_max && count.has_room();
        if running.is_closing || !has_room {
            return Ok(Admission::Closing);
        }
        if !self.fits(limits.need(reserved)) {
            return Ok(Admission::Full);
        }
        Ok(Admission::In(self.gate.join(credits)))
    }

    /// Adds credits to an open handle of the running transaction, if there is room.
    pub(crate) fn extend(&mut self, more: Credits) -> bool {
        let limits = self.limits;
        if self.is_closing() {
            return false;
        }
        let reserved = self.gate.shut().credits().plus(more);
        let has_room =
            limits.charge(reserved) <= limits.transaction_max && self.fits(limits.need(reserved));
        if has_room {
            self.gate.add(more);
        }
        self.settle_gate();
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
        if is_chosen {
            self.close();
        }
        is_chosen
    }

    /// Removes a handle that has ended from its transaction and returns its unused credits. Returns
    /// true if the committer waits for that.
    pub(crate) fn leave(&mut self, unused: Credits) -> bool {
        self.gate.depart(unused);
        (self.is_closing() || self.is_paused) && !self.has_handles()
    }

    /// Returns true if the running transaction has an open handle.
    pub(crate) fn has_handles(&self) -> bool {
        self.gate.count().handles() > 0
    }

    /// Returns the running transaction's number.
    pub(crate) fn running_tid(&self) -> Option<Tid> {
        self.running.as_ref().map(|running| running.tid)
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
        self.limits.charge(self.gate.count().credits()) > self.limits.nearly_full()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state_of(log_blocks: u32) -> JournalState {
        let superblock = Superblock::new(1024, log_blocks, 1, [0; 16]);
        let limits = Limits::new(&superblock, &superblock.format());
        let gate = Arc::new(Gate::new(limits, limits.transaction_max));
        JournalState::new(&superblock, limits, gate, FastState::default(), false)
    }

    /// The numbers of transactions are about to wrap.
    fn state() -> JournalState {
        JournalState {
            next: Tid::new(0xFFFF_FFFF),
            durable: Tid::new(0xFFFF_FFFE),
            head: 60,
            ..state_of(65)
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
        assert_eq!(kind(state.admit(blocks(10))), "in");
        assert_eq!(state.running_tid(), Some(Tid::new(0xFFFF_FFFF)));
        assert_eq!(state.next, Tid::new(0));
        assert_eq!(kind(state.admit(blocks(6))), "in");
        assert_eq!(kind(state.admit(blocks(1))), "closing");
        assert_eq!(kind(state.admit(blocks(17))), "error");
        assert!(!state.extend(blocks(1)));
        assert!(!state.leave(blocks(4)));
        assert!(state.extend(blocks(1)));
        assert_eq!(kind(state.admit(blocks(3))), "in");
    }

    #[test]
    fn a_log_without_room_is_full() {
        let mut state = state();
        state.used = 52;
        assert_eq!(kind(state.admit(blocks(10))), "full");
        assert_eq!(kind(state.admit(blocks(9))), "in");
        assert_eq!(kind(state.admit(blocks(1))), "full");
        assert_eq!(state.tail(), 8);
    }

    #[test]
    fn handles_wait_while_changes_are_collected() {
        let mut state = state();
        assert_eq!(kind(state.admit(blocks(2))), "in");
        state.pause();
        assert_eq!(kind(state.admit(blocks(1))), "paused");
        assert!(state.extend(blocks(1)), "an open handle goes on");
        assert!(state.leave(blocks(0)));
        state.resume();
        assert_eq!(kind(state.admit(blocks(1))), "in");
    }

    #[test]
    fn a_forced_restart_closes_the_running_transaction() {
        let mut state = state();
        assert_eq!(kind(state.admit(blocks(1))), "in");
        assert!(!state.is_to_restart(0) && !state.is_to_restart(3) && !state.is_to_restart(3));
        assert_eq!(kind(state.admit(blocks(1))), "in");
        assert!(state.is_to_restart(3));
        assert_eq!(kind(state.admit(blocks(1))), "closing");
    }

    #[test]
    fn headroom_counts_what_is_being_committed_twice() {
        let mut state = state_of(1025);
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
