//! The daemons: one commits transactions that are old or whose commit was requested, one keeps a
//! part of the log free.
//!
//! Each checks for work at least once in a commit interval, so that a missed signal costs time and
//! nothing else; for this reason the start of a transaction need not wake them. A panic in one of
//! them aborts the journal, so that no thread waits for work that will not be done.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use rt::{JoinHandle, Nanos};

use crate::error::Error;
use crate::shared::Shared;
use crate::state::JournalState;

/// Longest time that the checkpointer sleeps.
const CHECKPOINTER_PATIENCE: Nanos = Nanos::from_secs(5);

/// Starts the daemon that commits.
pub(crate) fn spawn_committer(shared: &Arc<Shared>) -> JoinHandle<()> {
    spawn("jbd2-commit", shared, Shared::run_committer)
}

/// Starts the daemon that checkpoints.
pub(crate) fn spawn_checkpointer(shared: &Arc<Shared>) -> JoinHandle<()> {
    spawn("jbd2-checkpoint", shared, Shared::run_checkpointer)
}

fn spawn(name: &'static str, shared: &Arc<Shared>, work: fn(&Shared)) -> JoinHandle<()> {
    let shared = Arc::clone(shared);
    rt::spawn_daemon(name, move || {
        shared.or_abort(name, || work(&shared), || {});
    })
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    fn run_committer(&self) {
        let mut state = self.state.lock();
        while !self.is_stopping() {
            if let Some(tid) = state.abandoned() {
                drop(state);
                self.abort(Error::Abandoned { tid });
                state = self.state.lock();
                continue;
            }
            let now = rt::monotonic();
            let (is_due, deadline) = self.commit_is_due(&state, now);
            if is_due && !state.has_committer && state.error().is_none() {
                state.has_committer = true;
                if let Some(tid) = state.running_tid()
                    && state.held.is_none()
                {
                    self.gather_group(&mut state, tid);
                }
                state = self.lead_commit(state);
                continue;
            }
            self.work.wait_until(&mut state, deadline);
        }
    }

    /// Returns true if the running transaction should be committed now, and the time of the next
    /// check.
    pub(crate) fn commit_is_due(&self, state: &JournalState, now: Nanos) -> (bool, Nanos) {
        if state.held.is_some() {
            return state.commit_hold.is_due(now);
        }
        let interval = self.config.commit_interval;
        let Some(running) = &state.running else {
            return (false, now + interval);
        };
        let due = if rt::mutant!("commit/interval-ignored") {
            now + interval
        } else {
            running.started + interval
        };
        let is_wanted = state.commit_wanted == Some(running.tid);
        let is_due = is_wanted || due <= now;
        // A transaction that another thread is committing is checked again when the commit is done.
        let deadline = if is_due { now + interval } else { due };
        (is_due, deadline)
    }

    fn run_checkpointer(&self) {
        let mut state = self.state.lock();
        while !self.is_stopping() {
            let is_urgent = state.space_waiters > 0;
            let has_debts = self.checkpoint.lock().has_filed();
            let is_tail_behind = is_urgent
                && state.has_settled_blocks()
                && !rt::mutant!("tail/refused-move-forgotten");
            let has_work = has_debts && (is_urgent || self.is_short(&state)) || is_tail_behind;
            let now = rt::monotonic();
            let (is_due, deadline) = if state.checkpoint_hold.is_held() {
                state.checkpoint_hold.is_due(now)
            } else {
                (true, now + CHECKPOINTER_PATIENCE)
            };
            if state.error().is_none() && has_work && is_due {
                drop(state);
                // An error has aborted the journal, or the checkpoint is held.
                drop(self.checkpoint_ahead(is_urgent));
                state = self.state.lock();
                continue;
            }
            self.checkpoint_work.wait_until(&mut state, deadline);
        }
    }

    /// Returns true if less than three eighths of the log are free.
    fn is_short(&self, state: &JournalState) -> bool {
        let capacity = self.limits.ring.capacity();
        state.free() < capacity / 8 * 3
    }

    /// Returns true if the checkpointer has work to do.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.is_short(&self.state.lock())
    }
}
