//! The open journal, as the file system uses it.
//!
//! One transaction runs, at most one commits, and any number await checkpoint, all at the same
//! time. A [`Journal`] owns its daemons; [`Journal::close`] stops and joins them. Dropping an
//! unclosed journal only requests them to stop, and so loses uncommitted changes like a power cut.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use block::BlockDevice;
use layout::Tid;
use rt::{JoinHandle, Mutex, Nanos};

use crate::client::Client;
use crate::config::Config;
use crate::credits::Credits;
use crate::daemon;
use crate::error::{Error, Result};
use crate::fast_state::FastState;
use crate::gate::Gate;
use crate::handle::Handle;
use crate::location::Location;
use crate::policy::{Checkpointer, Closing};
use crate::shared::Shared;
use crate::space::Limits;
use crate::state::JournalState;
use crate::stats::Stats;
use crate::superblock::Superblock;

/// An open journal.
pub struct Journal {
    shared: Arc<Shared>,
    daemons: Mutex<Vec<JoinHandle<()>>>,
}

impl Journal {
    /// Opens a recovered log and starts the daemons. Writes nothing before the first commit.
    ///
    /// # Errors
    /// - [`Error::NotRecovered`] if the log is not empty.
    /// - [`Error::Corrupt`], [`Error::Unsupported`] and [`Error::TooSmall`] for the superblock;
    ///   [`Error::Io`] if the device fails.
    pub fn open(
        log: Location,
        home: Arc<dyn BlockDevice>,
        config: Config,
        client: Arc<dyn Client>,
    ) -> Result<Arc<Self>> {
        let shared = open_shared(log, home, config, client)?;
        let mut daemons = vec![daemon::spawn_committer(&shared)];
        if shared.config.policy.checkpointer == Checkpointer::Daemon {
            daemons.push(daemon::spawn_checkpointer(&shared));
        }
        Ok(Arc::new(Self {
            shared,
            daemons: Mutex::new(daemons),
        }))
    }

    /// Opens a journal without daemons: callers commit, and must not fill the log.
    #[cfg(test)]
    pub(crate) fn open_quietly(
        log: Location,
        home: Arc<dyn BlockDevice>,
        config: Config,
        client: Arc<dyn Client>,
    ) -> Result<Arc<Self>> {
        let shared = open_shared(log, home, config, client)?;
        Ok(Arc::new(Self {
            shared,
            daemons: Mutex::default(),
        }))
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Starts a handle. May wait for a closing transaction, or for log space.
    ///
    /// # Errors
    /// - [`Error::TooManyCredits`] if no transaction can hold as many.
    /// - [`Error::Held`] if a commit or checkpoint has to come first, and a device has no room for
    ///   it.
    /// - [`Error::Aborted`] if the journal has aborted, [`Error::Closed`] if it is closed.
    pub fn start(&self, credits: Credits) -> Result<Handle<'_>> {
        let tid = self.shared.admit(credits)?;
        Ok(Handle::new(&self.shared, tid, credits))
    }

    /// Starts a handle without waiting; returns none if that would have to wait.
    ///
    /// # Errors
    /// - Errors of [`Journal::start`], except for [`Error::Held`].
    pub fn try_start(&self, credits: Credits) -> Result<Option<Handle<'_>>> {
        let tid = self.shared.try_admit(credits)?;
        Ok(tid.map(|tid| Handle::new(&self.shared, tid, credits)))
    }

    /// Makes a transaction durable and waits. Callers for the same transaction share one commit.
    /// The caller has no open handle.
    ///
    /// # Errors
    /// - [`Error::Held`] if a device has no room for it. The transaction stays, and becomes durable
    ///   when there is room.
    /// - [`Error::Aborted`] if the journal has aborted before the transaction was durable.
    pub fn commit(&self, tid: Tid) -> Result<()> {
        self.shared.commit(tid)
    }

    /// Makes a transaction durable like [`commit`](Self::commit), by a fast commit if its changes
    /// allow that: then only the changes so far are durable. `has_changes` is true unless an
    /// earlier [`Client::collect_changes`] has all changes of the caller.
    ///
    /// # Errors
    /// - Errors of [`Journal::commit`].
    pub fn commit_fast(&self, tid: Tid, has_changes: bool) -> Result<()> {
        self.shared.commit_fast(tid, has_changes)
    }

    /// Returns true if there may be fast commits.
    pub fn has_fast_commits(&self) -> bool {
        self.shared.has_fast_commits
    }

    /// Commits the running transaction, and waits for the committing one. Returns the last
    /// transaction that became durable by this, if there was one.
    ///
    /// # Errors
    /// - Errors of [`Journal::commit`].
    pub fn commit_running(&self) -> Result<Option<Tid>> {
        let state = self.shared.state.lock();
        let tid = state
            .running_tid()
            .or_else(|| state.committing.as_ref().map(|committing| committing.tid));
        let checked = state.check();
        drop(state);
        match (checked, tid) {
            (Ok(()), Some(tid)) => self.shared.commit(tid).map(|()| Some(tid)),
            (Ok(()), None) => Ok(None),
            (Err(error), _) => Err(self.shared.settle_abandoned(error)),
        }
    }

    /// Requests a commit of the running transaction, without waiting.
    pub fn request_commit(&self) {
        let mut state = self.shared.state.lock();
        if let Some(tid) = state.running_tid() {
            self.shared.request(&mut state, tid);
        }
    }

    /// Returns true if a transaction's commit block is durable. A number that is not yet assigned
    /// counts as not durable.
    pub fn is_durable(&self, tid: Tid) -> bool {
        self.shared.state.lock().durable.is_at_or_after(tid)
    }

    /// Returns the running transaction, if a handle has started one since the last commit.
    pub fn running(&self) -> Option<Tid> {
        self.shared.state.lock().running_tid()
    }

    /// Returns the running transaction, if there is one, and the number of the one to be started
    /// next, both at the same moment.
    pub fn numbers(&self) -> (Option<Tid>, Tid) {
        let state = self.shared.state.lock();
        (state.running_tid(), state.next)
    }

    /// Writes committed blocks that have awaited checkpoint since before a time to their final
    /// location: oldest transaction first, at most `limit` of them. Returns the number written.
    ///
    /// # Errors
    /// - [`Error::Held`] if the device has no room for a block, which stays pending.
    /// - [`Error::Aborted`] if a write failed otherwise, which aborts the journal.
    pub fn write_back(&self, owed_before: Nanos, limit: usize) -> Result<usize> {
        self.shared.write_back(owed_before, limit)
    }

    /// Returns the number of bytes of committed blocks that await checkpoint.
    pub fn owed_bytes(&self) -> u64 {
        let owed = self.shared.checkpoint.lock().owed_count() as u64;
        owed * u64::from(self.shared.format.block_bytes)
    }

    /// Returns the number of bytes of images that the running and committing transactions and those
    /// awaiting checkpoint hold. Shared images count for each.
    pub fn pinned_bytes(&self) -> u64 {
        let committing = self
            .shared
            .state
            .lock()
            .committing
            .as_ref()
            .map_or(0, |it| it.images);
        let count = (self.shared.running.block_count() + committing) as u64;
        count * u64::from(self.shared.format.block_bytes) + self.owed_bytes()
    }

    /// Commits the running transaction, checkpoints everything, flushes the file-system device, and
    /// makes the moved tail durable. The log is then empty, unless another thread has committed
    /// meanwhile.
    ///
    /// # Errors
    /// - [`Error::Aborted`] if the journal has aborted, now or earlier.
    pub fn checkpoint_all(&self) -> Result<()> {
        if let Some(tid) = self.commit_running()? {
            self.shared.wait_until_filed(tid)?;
        }
        self.shared.checkpoint_all()
    }

    /// Aborts the journal permanently: nothing more is committed.
    pub fn abort(&self, error: Error) {
        self.shared.abort(error);
    }

    /// Returns the error that aborted the journal, if it has aborted.
    pub fn error(&self) -> Option<Error> {
        self.shared.error()
    }

    /// Returns the counts so far.
    pub fn stats(&self) -> Stats {
        self.shared.counters.read(self.shared.gate.handles.get())
    }

    /// Returns the largest number of blocks that a handle may request with no more revokes than
    /// blocks.
    pub fn max_credits(&self) -> u32 {
        self.shared.limits.handle_max()
    }

    /// Commits and checkpoints everything, marks the log as empty on the device, and ends the
    /// daemons. No handle is open, and none will be started.
    ///
    /// # Errors
    /// - [`Error::Held`] if a device has no room, [`Error::Aborted`] if the journal has aborted;
    ///   the log is then left for recovery. The daemons end in any case.
    pub fn close(self: Arc<Self>) -> Result<()> {
        let result = self.checkpoint_all();
        {
            // A daemon that has just looked whether it is to stop sleeps before it is woken.
            let mut state = self.shared.state.lock();
            state.shut_down();
            self.shared.is_stopping.store(true, Ordering::Release);
        }
        self.stop_daemons();
        let daemons = core::mem::take(&mut *self.daemons.lock());
        for daemon in daemons {
            if daemon.join().is_err() {
                tracing::error!("a daemon of the journal panicked");
            }
        }
        // A daemon may have aborted the journal after the last look at it.
        result.and_then(|()| self.error().map_or(Ok(()), Err))
    }

    fn stop_daemons(&self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        self.shared.work.notify_all();
        self.shared.checkpoint_work.notify_all();
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop_daemons();
        }
    }
}

fn open_shared(
    log: Location,
    home: Arc<dyn BlockDevice>,
    config: Config,
    client: Arc<dyn Client>,
) -> Result<Arc<Shared>> {
    let mut superblock = Superblock::load(&log)?;
    if superblock.start().is_some() {
        return Err(Error::NotRecovered);
    }
    superblock.set_async_commit(config.async_commit);
    let format = superblock.format();
    let home_blocks = home.geometry().size_bytes / u64::from(format.block_bytes);
    if home_blocks > u64::from(u32::MAX) && !format.tags.is_64bit {
        return Err(Error::Unsupported(
            "block numbers beyond 32 bits in its log".to_owned(),
        ));
    }
    let area = superblock.possible_fast_commit_area();
    let area = area.filter(|_| config.fast_commits && !config.is_external);
    let limits = Limits::new(&superblock, &format);
    let limits = match &area {
        Some(area) => limits.before_fast_commits(area),
        None => limits,
    };
    let charge_max = match config.policy.closing {
        Closing::Early => limits.nearly_full(),
        Closing::Full => limits.transaction_max,
    };
    let gate = Arc::new(Gate::new(limits, charge_max));
    let needs_headroom = config.policy.checkpointer == Checkpointer::Caller;
    let fast = FastState::new(area.unwrap_or_default());
    let state = JournalState::new(&superblock, limits, Arc::clone(&gate), fast, needs_headroom);
    Ok(Arc::new(Shared::new(
        log, home, config, client, superblock, gate, state,
    )))
}
