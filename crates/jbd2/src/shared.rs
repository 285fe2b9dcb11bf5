//! State shared by the handles, callers and daemons of a journal, and the order of its locks.
//!
//! # Locks, in the order in which they may be taken
//!
//! | lock | protects | held across I/O |
//! |---|---|---|
//! | `[superblock]` | the journal's superblock, one write at a time | in its write and flushes |
//! | `[state]` | [`JournalState`]; also opens and shuts the [`Gate`] | no |
//! | `[checkpoint]` | [`CheckpointList`] | no |
//! | `[buffer]` | one block: image and holds; several only in ascending order | no |
//! | `[blocks]` | the running transaction's lists; a leaf | no |
//! | `home_batches` | the list of writes that other threads may wait for; a leaf | no |
//!
//! A handle passes the [`Gate`] to start and to finish, and takes `[state]` there only while the
//! gate is shut. It takes `[buffer]` to change a block that its transaction has; the first access
//! to a block also takes `[blocks]`. The client is called without any of these locks, except that
//! `[superblock]` may be held during [`Client::home_flushed`].

use core::sync::atomic::{AtomicBool, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use block::BlockDevice;
use layout::Tid;
use rt::{Condvar, Mutex, MutexGuard, Nanos};

use crate::checkpoint_list::CheckpointList;
use crate::client::Client;
use crate::config::Config;
use crate::credits::Credits;
use crate::error::{Error, Result};
use crate::gate::Gate;
use crate::home_batch::HomeBatch;
use crate::location::Location;
use crate::policy::{Checkpointer, Closing};
use crate::space::Limits;
use crate::state::{Admission, JournalState, LogIoPhase};
use crate::stats::{Counter, Counters};
use crate::superblock::{LogFormat, Superblock};
use crate::transaction::Transaction;

/// Time that a thread waits for open handles before it checks if one was dropped.
pub(crate) const HANDLE_PATIENCE: Nanos = Nanos::from_secs(1);

/// The state shared by all parts of a journal.
pub(crate) struct Shared {
    pub(crate) log: Location,
    pub(crate) home: Arc<dyn BlockDevice>,
    pub(crate) config: Config,
    pub(crate) format: LogFormat,
    pub(crate) limits: Limits,
    pub(crate) client: Arc<dyn Client>,
    pub(crate) counters: Counters,
    /// True if there may be fast commits.
    pub(crate) has_fast_commits: bool,
    /// The superblock as it is on the device, or is being written.
    pub(crate) superblock: Mutex<Superblock>,
    /// Counts handles in and out.
    pub(crate) gate: Arc<Gate>,
    pub(crate) state: Mutex<JournalState>,
    /// The blocks of the running transaction.
    pub(crate) running: Transaction,
    pub(crate) checkpoint: Mutex<CheckpointList>,
    /// Writes of blocks to their final location in flight, with `home=wait`. A leaf. // Invariant:
    /// while `[checkpoint]` is free, the results of none of them have been recorded.
    pub(crate) home_batches: Mutex<Vec<Arc<HomeBatch>>>,
    /// With `[state]`: the running transaction has been replaced, or its changes were collected, or
    /// the journal has aborted.
    pub(crate) closed: Condvar,
    /// With `[state]`: the last open handle of a closing or paused transaction has ended.
    pub(crate) handles_done: Condvar,
    /// With `[state]`: a transaction is durable, or no thread is committing any more. Transactions
    /// with even numbers use the first condition, so that threads that wait for the next
    /// transaction are not woken.
    committed: [Condvar; 2],
    /// With `[state]`: the transaction that was durable last has been filed for checkpointing.
    pub(crate) filed: Condvar,
    /// With `[state]`: another caller has joined the group that a leader waits for.
    pub(crate) group_grown: Condvar,
    /// With `[state]`: the committing transaction's images are in the log.
    pub(crate) log_io_done: Condvar,
    /// With `[state]`: log space was freed, or may be freed now.
    pub(crate) space_freed: Condvar,
    /// With `[state]`: the committing daemon has work.
    pub(crate) work: Condvar,
    /// With `[state]`: the checkpointing daemon has work.
    pub(crate) checkpoint_work: Condvar,
    /// With `[checkpoint]`: checkpoint writes have completed.
    pub(crate) writes_done: Condvar,
    /// True if daemons have to stop. This flag and the next may be set while a task unwinds, so
    /// they are not scheduling points.
    pub(crate) is_stopping: AtomicBool,
    /// True if a handle was dropped unfinished: nothing may be committed any more.
    has_abandoned: AtomicBool,
}

pub(crate) type StateGuard<'a> = MutexGuard<'a, JournalState>;

impl Shared {
    pub(crate) fn new(
        log: Location,
        home: Arc<dyn BlockDevice>,
        config: Config,
        client: Arc<dyn Client>,
        superblock: Superblock,
        gate: Arc<Gate>,
        state: JournalState,
    ) -> Self {
        Self {
            log,
            home,
            config,
            format: superblock.format(),
            limits: state.limits,
            client,
            counters: Counters::default(),
            has_fast_commits: state.fast.is_possible(),
            superblock: Mutex::new(superblock),
            gate,
            state: Mutex::new(state),
            running: Transaction::default(),
            checkpoint: Mutex::new(CheckpointList::default()),
            home_batches: Mutex::default(),
            closed: Condvar::new(),
            handles_done: Condvar::new(),
            committed: [Condvar::new(), Condvar::new()],
            filed: Condvar::new(),
            group_grown: Condvar::new(),
            log_io_done: Condvar::new(),
            space_freed: Condvar::new(),
            work: Condvar::new(),
            checkpoint_work: Condvar::new(),
            writes_done: Condvar::new(),
            is_stopping: AtomicBool::new(false),
            has_abandoned: AtomicBool::new(false),
        }
    }

    /// Adds a handle to the running transaction. Waits until there is room.
    #[inline]
    pub(crate) fn admit(&self, credits: Credits) -> Result<Tid> {
        match self.gate.enter(credits) {
            Some(tid) => Ok(tid),
            None => self.admit_locked(credits),
        }
    }

    fn admit_locked(&self, credits: Credits) -> Result<Tid> {
        let mut state = self.state.lock();
        // The gate may have been shut for another handle only, which was admitted meanwhile.
        if let Some(tid) = self.gate.enter(credits) {
            return Ok(tid);
        }
        let seen = [
            state.commit_hold.failures(),
            state.checkpoint_hold.failures(),
        ];
        loop {
            let admission = match state.admit(credits) {
                Ok(admission) => admission,
                Err(error) => {
                    drop(state);
                    return Err(self.settle_abandoned(error));
                }
            };
            match admission {
                Admission::In(tid) => {
                    if self.config.policy.closing == Closing::Early && state.is_nearly_full() {
                        self.request(&mut state, tid);
                    }
                    return Ok(tid);
                }
                Admission::Closing => {
                    state.commit_hold.check(seen[0])?;
                    if let Some(tid) = state.running_tid() {
                        self.request(&mut state, tid);
                    }
                    self.timed_wait(&self.closed, &mut state, &self.counters.stalled_closing);
                }
                Admission::Paused => {
                    self.timed_wait(&self.closed, &mut state, &self.counters.stalled_closing);
                }
                Admission::Full => {
                    state.commit_hold.check(seen[0])?;
                    state.checkpoint_hold.check(seen[1])?;
                    state = self.wait_for_space(state);
                }
            }
        }
    }

    /// Adds a handle to the running transaction if there is room without waiting.
    pub(crate) fn try_admit(&self, credits: Credits) -> Result<Option<Tid>> {
        if let Some(tid) = self.gate.enter(credits) {
            return Ok(Some(tid));
        }
        let mut state = self.state.lock();
        match state.admit(credits) {
            Ok(Admission::In(tid)) => Ok(Some(tid)),
            Ok(Admission::Closing | Admission::Full | Admission::Paused) => Ok(None),
            Err(error) => {
                drop(state);
                Err(self.settle_abandoned(error))
            }
        }
    }

    /// Returns the condition, used with `[state]`, that a transaction is durable or that no thread
    /// is committing any more.
    pub(crate) fn committed(&self, tid: Tid) -> &Condvar {
        &self.committed[(tid.get() % 2) as usize]
    }

    /// Waits on a condition with the state's lock, and counts the time.
    pub(crate) fn timed_wait(
        &self,
        condition: &Condvar,
        state: &mut StateGuard<'_>,
        counter: &Counter,
    ) {
        let began = rt::monotonic();
        condition.wait(state);
        counter.add_time(rt::monotonic().saturating_sub(began));
    }

    /// Waits for log space: for the checkpointer, or (with `checkpointer=caller`) by checkpointing.
    fn wait_for_space<'a>(&'a self, mut state: StateGuard<'a>) -> StateGuard<'a> {
        let began = rt::monotonic();
        // The space may be that of a held commit.
        self.want_held(&mut state);
        if self.config.policy.checkpointer == Checkpointer::Caller && !state.has_checkpointer {
            state.has_checkpointer = true;
            drop(state);
            let has_worked = self.checkpoint_for_space();
            state = self.state.lock();
            state.has_checkpointer = false;
            if !has_worked && state.committing.is_some() && state.error().is_none() {
                // All used space belongs to the transaction that is being committed. Its end wakes
                // all threads that wait for space; waking them now would be useless.
                self.space_freed.wait(&mut state);
            } else {
                self.space_freed.notify_all();
            }
        } else {
            state.space_waiters += 1;
            state.checkpoint_hold.want();
            self.checkpoint_work.notify_one();
            self.space_freed.wait(&mut state);
            state.space_waiters -= 1;
        }
        let waited = rt::monotonic().saturating_sub(began);
        self.counters.stalled_log_space.add_time(waited);
        state
    }

    /// Waits until the images of a committing transaction are in the log, for `log_io=wait`.
    pub(crate) fn wait_for_log_io(&self, committing: Tid) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            let is_in_log_io = state.committing.as_ref().is_some_and(|transaction| {
                transaction.tid == committing && transaction.log_io == LogIoPhase::Underway
            });
            if !is_in_log_io {
                return Ok(());
            }
            state.check()?;
            let counter = &self.counters.stalled_log_io;
            self.timed_wait(&self.log_io_done, &mut state, counter);
        }
    }

    /// Waits until a durable transaction has been filed for checkpointing, which follows shortly.
    pub(crate) fn wait_until_filed(&self, tid: Tid) -> Result<()> {
        let mut state = self.state.lock();
        while state
            .committing
            .as_ref()
            .is_some_and(|committing| committing.tid == tid)
        {
            state.check()?;
            self.filed.wait(&mut state);
        }
        Ok(())
    }

    /// Notes, without a lock, that a handle was dropped unfinished after a change.
    pub(crate) fn note_abandoned(&self) {
        self.has_abandoned.store(true, Ordering::Release);
    }

    /// Checks that a commit block may be written.
    pub(crate) fn check_before_record(&self, tid: Tid) -> Result<()> {
        if self.has_abandoned.load(Ordering::Acquire) {
            return Err(Error::Abandoned { tid });
        }
        match self.state.lock().check() {
            Err(Error::Closed) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns true if a handle was dropped unfinished.
    pub(crate) fn has_abandoned(&self) -> bool {
        self.has_abandoned.load(Ordering::Acquire)
    }

    /// Aborts now if the error reports that a handle was dropped unfinished.
    pub(crate) fn settle_abandoned(&self, error: Error) -> Error {
        if matches!(error, Error::Abandoned { .. }) {
            self.abort(error);
            return self.error().unwrap_or(Error::Closed);
        }
        error
    }

    /// Returns the error that aborted the journal.
    pub(crate) fn error(&self) -> Option<Error> {
        let state = self.state.lock();
        let error = state.error();
        error.map(|error| Error::Aborted(Arc::clone(error)))
    }

    /// Runs work for whose results other threads wait. A panic in it, in a device for example,
    /// aborts the journal, so that they do not wait for ever. Then `give_up` is called, and the
    /// panic goes on.
    pub(crate) fn or_abort<T>(
        &self,
        name: &str,
        work: impl FnOnce() -> T,
        give_up: impl FnOnce(),
    ) -> T {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            let error = Error::Stopped(format!("a panic in {name}"));
            // The device may panic again when the error is noted on it.
            let _ = catch_unwind(AssertUnwindSafe(|| self.abort(error)));
            give_up();
            resume_unwind(panic)
        })
    }

    /// Aborts the journal: nothing more is committed, and the log on the device stays as it is.
    pub(crate) fn abort(&self, error: Error) {
        let cause = match error {
            Error::Aborted(cause) => cause,
            error => Arc::new(error),
        };
        let mut state = self.state.lock();
        if state.error().is_some() {
            return;
        }
        state.fail(Arc::clone(&cause));
        // Before the lock is released: when a caller's call fails, the client has already been
        // notified of the abort.
        self.client.aborted(&cause);
        drop(state);
        tracing::error!(error = %cause, "the journal aborts");
        for condition in [
            &self.closed,
            &self.handles_done,
            &self.committed[0],
            &self.committed[1],
            &self.filed,
            &self.group_grown,
            &self.log_io_done,
            &self.space_freed,
            &self.work,
            &self.checkpoint_work,
        ] {
            condition.notify_all();
        }
        self.checkpoint.lock().is_aborted = true;
        self.writes_done.notify_all();
        self.note_error_on_device();
    }
}
