//! Group commit: any number of callers wait for one transaction and wake together.
//!
//! A caller that waits for a commit and finds none in progress is the leader; all callers that
//! arrive meanwhile join the running transaction, and one of them leads the next. So groups form
//! while a commit is in progress. A leader waits for others only if they are likely to arrive: if
//! one of the last two groups was larger than the present one. It waits at most the average time of
//! a commit, because a caller that arrives later loses no more than that by waiting for the next
//! commit, and it stops waiting when the group is complete. With one active caller it never waits.
//!
//! With `committer=daemon` the daemon leads all commits.
//!
//! Source of the method: ext3's transaction batching (A. Morton, 2001; J. Bacik, 2008).

use layout::Tid;
use rt::Nanos;

use crate::error::Result;
use crate::policy::Committer;
use crate::shared::{Shared, StateGuard};

/// The kind of thread that wants a transaction to be durable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Membership {
    /// Is counted. Its commit may wait for others.
    Caller,
    /// Is counted. A fast commit of this collection of changes, or a later one, suffices.
    Fast(u64),
    /// Is not counted. Its commit starts at once.
    Checkpoint,
}

impl Shared {
    /// Makes a transaction durable for a caller, and waits.
    pub(crate) fn commit(&self, tid: Tid) -> Result<()> {
        let mut state = self.state.lock();
        if state.durable.is_at_or_after(tid) {
            return Ok(());
        }
        self.join_group(&mut state, tid);
        self.commit_for_caller(state, tid, Membership::Caller)
    }

    /// Makes the changes that a caller has made so far in a transaction durable, and waits.
    pub(crate) fn commit_fast(&self, tid: Tid, has_changes: bool) -> Result<()> {
        let mut state = self.state.lock();
        if state.durable.is_at_or_after(tid) {
            return Ok(());
        }
        let may_be_fast = state.fast.is_possible() && state.running_tid() == Some(tid);
        if may_be_fast && !has_changes && state.fast.has_completed() {
            // All of it is durable; a journal that has failed since accepts nothing all the same.
            let checked = state.check();
            drop(state);
            return checked.map_err(|error| self.settle_abandoned(error));
        }
        let membership = match may_be_fast {
            true => Membership::Fast(state.fast.join(has_changes)),
            false => Membership::Caller,
        };
        self.join_group(&mut state, tid);
        self.commit_for_caller(state, tid, membership)
    }

    fn commit_for_caller(
        &self,
        state: StateGuard<'_>,
        tid: Tid,
        membership: Membership,
    ) -> Result<()> {
        let began = rt::monotonic();
        self.counters.sync_callers.add(1);
        let result = self.commit_or_wait(state, tid, membership);
        self.counters
            .stalled_commit
            .add_time(rt::monotonic().saturating_sub(began));
        result
    }

    /// Makes a transaction durable for a checkpoint, and waits. It is a member of the group, so
    /// that it is woken to lead, but waits for no other.
    pub(crate) fn commit_for_checkpoint(&self, tid: Tid) -> Result<()> {
        let mut state = self.state.lock();
        if state.durable.is_at_or_after(tid) {
            return Ok(());
        }
        self.join_group(&mut state, tid);
        self.commit_or_wait(state, tid, Membership::Checkpoint)
    }

    fn commit_or_wait<'a>(
        &'a self,
        mut state: StateGuard<'a>,
        tid: Tid,
        membership: Membership,
    ) -> Result<()> {
        let seen = state.commit_hold.failures();
        loop {
            if state.durable.is_at_or_after(tid) {
                break Ok(());
            }
            if let Membership::Fast(number) = membership
                && state.fast.completed >= number
            {
                break Ok(());
            }
            if let Err(error) = state.check() {
                drop(state);
                break Err(self.settle_abandoned(error));
            }
            let is_running = state.running_tid() == Some(tid);
            let is_committing = state.committing.as_ref().is_some_and(|it| it.tid == tid);
            if !is_running && !is_committing {
                // No handle was part of it.
                break Ok(());
            }
            if let Err(held) = state.commit_hold.check(seen) {
                leave_group(&mut state, tid, membership);
                break Err(held);
            }
            let is_held = state.held.is_some();
            match self.config.policy.committer {
                Committer::Caller if (is_running || is_held) && !state.has_committer => {
                    state.has_committer = true;
                    if !is_held && membership != Membership::Checkpoint {
                        self.gather_group(&mut state, tid);
                    }
                    state = match membership {
                        Membership::Fast(_) => self.lead_fast_commit(state),
                        _ => self.lead_commit(state),
                    };
                    continue;
                }
                Committer::Daemon if is_running => self.request(&mut state, tid),
                Committer::Daemon => self.want_held(&mut state),
                Committer::Caller => {}
            }
            self.committed(tid).wait(&mut state);
        }
    }

    /// Requests an attempt at a held commit now, by the daemon.
    pub(crate) fn want_held(&self, state: &mut StateGuard<'_>) {
        if state.commit_hold.want() {
            self.work.notify_one();
        }
    }

    /// Requests a commit of the running transaction, without waiting.
    pub(crate) fn request(&self, state: &mut StateGuard<'_>, tid: Tid) {
        self.want_held(state);
        if state.commit_wanted == Some(tid) {
            return;
        }
        state.commit_wanted = Some(tid);
        if !state.has_committer {
            self.work.notify_one();
        }
    }

    /// Adds a caller that waits for a transaction.
    fn join_group(&self, state: &mut StateGuard<'_>, tid: Tid) {
        let wanted = expected(state.groups);
        if let Some(running) = &mut state.running
            && running.tid == tid
        {
            running.callers += 1;
            if running.callers >= wanted {
                self.group_grown.notify_one();
            }
        } else if let Some(committing) = &mut state.committing
            && committing.tid == tid
        {
            committing.callers += 1;
        }
    }

    /// Waits for other callers to join the leader's commit, if they are likely to arrive.
    pub(crate) fn gather_group(&self, state: &mut StateGuard<'_>, tid: Tid) {
        let wanted = expected(state.groups);
        let usual = Nanos::new(self.counters.commit_average.get());
        let began = rt::monotonic();
        let deadline = began + usual.min(self.config.batch_wait_max);
        let mut has_waited = false;
        loop {
            let running = state.running.as_ref().filter(|it| it.tid == tid);
            let callers = running.map_or(u32::MAX, |running| running.callers);
            if callers == 0 || callers >= wanted || state.check().is_err() {
                break;
            }
            has_waited = true;
            if self.group_grown.wait_until(state, deadline) {
                break;
            }
        }
        if has_waited {
            let waited = rt::monotonic().saturating_sub(began);
            self.counters.waited_for_group.add_time(waited);
        }
    }
}

/// Removes a caller that gives up waiting for a transaction.
fn leave_group(state: &mut StateGuard<'_>, tid: Tid, membership: Membership) {
    if let Some(running) = &mut state.running
        && running.tid == tid
    {
        running.callers = running.callers.saturating_sub(1);
        if let Membership::Fast(number) = membership {
            state.fast.leave(number);
        }
    } else if let Some(committing) = &mut state.committing
        && committing.tid == tid
    {
        committing.callers = committing.callers.saturating_sub(1);
    }
}

/// Returns the likely number of callers in the next group.
fn expected(groups: [u32; 2]) -> u32 {
    groups[0].max(groups[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_of_the_last_two_groups_is_expected() {
        assert_eq!(expected([0, 0]), 0);
        assert_eq!(expected([1, 7]), 7);
        assert_eq!(expected([8, 1]), 8);
    }
}
