//! Commit: making the running transaction durable.
//!
//! ```text
//! 1  close it: new handles wait; wait for open handles
//! 2  the client notes its contents; seal and freeze images; the next transaction may start
//! 3  journal superblock, if the log was empty or never had revokes         (log device)
//! 4  revoke blocks, descriptor blocks and images, in one batch             (log device)
//!    ordered data, by the client                                    (file-system device)
//! 5  flush the file-system device, if it is another device with unflushed data
//! 6  flush, then the commit block with forced unit access                  (log device)
//! 7  it is durable: wake all threads that wait for it
//! 8  take over its blocks from older transactions; cancel the writes of blocks that it has
//!    freed, and release these blocks
//! ```
//!
//! An error before 7 aborts the journal; no later commit block is written. A device without room is
//! not such an error: the transaction keeps its place in the log, and 3 to 6 are repeated (see
//! [`hold`](crate::hold)). Step 6 makes everything before it durable, including the superblock of
//! step 3, so that a commit is never acknowledged before the log can be found. Without barriers
//! there is no flush and no forced write; without forced writes there is a second flush.
//!
//! With asynchronous commits, steps 5 and 6 become one with the writes to the log: the commit block
//! is the last block of the batch, which is forced as a whole, and a recovery finds by the checksum
//! of the transaction if all of it is there. A transaction that has to wait for anything else has a
//! commit of two steps all the same: for data, for the superblock of step 3, or for its revoke
//! blocks, which no checksum of this form covers.
//!
//! The first thread that needs a commit leads it: a caller that waits for it, or the daemon. See
//! [`group`].

mod fast;
mod fast_records;
pub(crate) mod group;
pub(crate) mod records;

use block::Request;
use layout::Tid;
use rt::Nanos;

use crate::error::Result;
use crate::policy::{Committer, OrderedData};
use crate::shared::{HANDLE_PATIENCE, Shared, StateGuard};
use crate::state::{Closed, Committing, LogIoPhase};
use crate::transaction::Contents;
use records::Records;

/// Size of the largest request to the log in blocks.
const REQUEST_BLOCKS: usize = 256;

impl Shared {
    /// Commits the held transaction, or the running one. The caller is the committer.
    pub(crate) fn lead_commit<'a>(&'a self, mut state: StateGuard<'a>) -> StateGuard<'a> {
        assert!(
            state.has_committer,
            "the caller has made itself the committer"
        );
        let began = rt::monotonic();
        let lead = || match state.held.take() {
            Some(closed) => {
                drop(state);
                self.write_and_file(closed)
            }
            None => self.close_and_write(state, began),
        };
        let done = self.or_abort("a commit", lead, || self.state.lock().has_committer = false);
        if let Err(error) = done {
            self.abort(error);
        }
        self.end_leading(self.state.lock())
    }

    /// Lets another thread commit. Wakes one if there is something to commit.
    fn end_leading<'a>(&'a self, mut state: StateGuard<'a>) -> StateGuard<'a> {
        state.has_committer = false;
        let Some(running) = &state.running else {
            return state;
        };
        let tid = running.tid;
        if running.callers > 0 && self.config.policy.committer == Committer::Caller {
            // One of the threads that wait for the next transaction leads its commit.
            self.committed(tid).notify_one();
        } else if self.commit_is_due(&state, rt::monotonic()).0 {
            // The daemon did not commit it while another thread was committing.
            self.work.notify_one();
            return state;
        }
        if state.fast.is_possible() && state.commit_wanted == Some(tid) {
            // The callers may wait for a fast commit only.
            self.work.notify_one();
        }
        state
    }

    fn close_and_write(&self, state: StateGuard<'_>, began: Nanos) -> Result<()> {
        let contents = self.close_running(state, began)?;
        let tid = contents.tid;
        let (start, log_blocks) = self.switch(&contents);
        if rt::mutant!("commit/acknowledged-before-record") {
            self.mark_durable(tid, rt::monotonic().saturating_sub(began));
        }
        if rt::mutant!("free/released-before-record") {
            self.client.committed(tid);
        }
        self.write_and_file(Closed {
            contents,
            start,
            log_blocks,
            began,
        })
    }

    /// Writes a closed transaction, and files it for checkpointing. Holds it if a device has no
    /// room.
    fn write_and_file(&self, closed: Closed) -> Result<()> {
        let tid = closed.contents.tid;
        match self.write_transaction(&closed.contents, closed.start, closed.log_blocks) {
            Ok(()) => self.set_log_io(LogIoPhase::Over),
            Err(error) => {
                let cause = error
                    .no_room()
                    .inspect_err(|_| self.set_log_io(LogIoPhase::Over))?;
                self.hold_commit(closed, cause);
                return Ok(());
            }
        }
        self.mark_durable(tid, rt::monotonic().saturating_sub(closed.began));
        self.file(closed.contents, closed.start, closed.log_blocks)?;
        self.client.committed(tid);
        let mut state = self.state.lock();
        state.committing = None;
        if state.commit_hold.release() {
            tracing::warn!(%tid, "the device has room again; the commit is done");
        }
        let has_waiters = state.space_waiters > 0;
        drop(state);
        self.filed.notify_all();
        self.space_freed.notify_all();
        if has_waiters || self.wants_checkpoint() {
            self.checkpoint_work.notify_one();
        }
        Ok(())
    }

    /// Keeps a transaction that a device has no room for. Every caller that waits for it gets an
    /// error.
    fn hold_commit(&self, closed: Closed, cause: block::DeviceError) {
        let tid = closed.contents.tid;
        let mut state = self.state.lock();
        if let Some(committing) = &mut state.committing {
            committing.log_io = LogIoPhase::Ahead;
        }
        state.held = Some(closed);
        let text = cause.to_string();
        if state.commit_hold.fail(cause, rt::monotonic()) {
            tracing::warn!(%tid, error = text, "the commit is held until there is room");
        }
        drop(state);
        self.log_io_done.notify_all();
        self.notify_refused();
    }

    /// Wakes all callers that a failed attempt may concern, and the daemon that retries.
    pub(crate) fn notify_refused(&self) {
        self.closed.notify_all();
        self.committed(Tid::new(0)).notify_all();
        self.committed(Tid::new(1)).notify_all();
        self.space_freed.notify_all();
        self.work.notify_all();
    }

    /// Closes the running transaction and freezes it.
    fn close_running(&self, mut state: StateGuard<'_>, began: Nanos) -> Result<Contents> {
        state.close();
        let tid = state.running_tid().expect("there is something to commit");
        self.wait_for_handles(&mut state)?;
        drop(state);
        let waited = rt::monotonic().saturating_sub(began);
        self.counters.waited_for_handles.add_time(waited);
        self.client.commit_begins(tid);
        let seal = |label, nr, image: &mut _| self.client.seal(label, nr, image);
        Ok(self.running.freeze(tid, seal))
    }

    /// Waits for the open handles of the running transaction; no other can start.
    fn wait_for_handles(&self, state: &mut StateGuard<'_>) -> Result<()> {
        while state.has_handles() {
            self.check_open(state)?;
            let deadline = rt::monotonic() + HANDLE_PATIENCE;
            self.handles_done.wait_until(state, deadline);
        }
        self.check_open(state)
    }

    fn check_open(&self, state: &StateGuard<'_>) -> Result<()> {
        if self.has_abandoned() {
            let tid = state.running_tid().unwrap_or(state.next);
            return Err(crate::Error::Abandoned { tid });
        }
        match state.check() {
            Err(crate::Error::Closed) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Gives the transaction its place in the log and lets the next one start. Returns its first
    /// block and number of blocks there.
    fn switch(&self, contents: &Contents) -> (u32, u32) {
        let blocks = records::block_count(contents, &self.limits);
        let mut state = self.state.lock();
        let (running, used) = state.end_running();
        assert!(
            blocks <= self.limits.need(used),
            "a transaction takes no more than it has reserved"
        );
        assert!(state.fits(blocks), "what was reserved is free");
        let start = state.head;
        state.fast.reset();
        state.committing = Some(Committing {
            tid: contents.tid,
            start,
            log_blocks: blocks,
            charge: self.limits.charge(used),
            images: contents.logged.len(),
            log_io: LogIoPhase::Ahead,
            callers: running.callers,
        });
        state.head = self.limits.ring.advance(start, blocks);
        state.used += blocks;
        if state.commit_wanted == Some(contents.tid) {
            state.commit_wanted = None;
        }
        drop(state);
        self.closed.notify_all();
        (start, blocks)
    }

    fn write_transaction(&self, contents: &Contents, start: u32, blocks: u32) -> Result<()> {
        let tid = contents.tid;
        self.prepare_superblock(tid, start, !contents.revokes.is_empty())?;
        let record_at = self.limits.ring.advance(start, blocks - 1);
        let records = Records::build(&self.format, &self.limits, contents);
        assert_eq!(
            records.blocks.len() as u64 + 1,
            u64::from(blocks),
            "the records fill the place"
        );
        self.count_records(&records, contents);
        let crc = records.crc;
        if rt::mutant!("commit/record-before-images") {
            self.write_commit_block(tid, crc, record_at)?;
        }
        if self.may_be_async(contents)
            && (!self.client.write_ordered_data(tid)? || rt::mutant!("commit/async-before-flush"))
        {
            return self.write_at_once(tid, start, records);
        }
        let requests = self.log_requests(start, records.blocks);
        self.counters.log_requests.add(requests.len() as u64 + 1);
        let needs_home_flush = match self.config.policy.data {
            OrderedData::Before => {
                let needs_flush = self.client.write_ordered_data(tid)?;
                self.set_log_io(LogIoPhase::Underway);
                self.log.device.request(requests).wait_all()?;
                needs_flush
            }
            OrderedData::Beside => {
                self.set_log_io(LogIoPhase::Underway);
                let logging = self.log.device.request(requests);
                logging.start();
                let needs_flush = if rt::mutant!("commit/data-after-record") {
                    Ok(false)
                } else {
                    self.client.write_ordered_data(tid)
                };
                let logged = logging.wait_all();
                if !rt::mutant!("abort/log-error-ignored") {
                    logged?;
                }
                needs_flush?
            }
        };
        let is_external = self.config.is_external && !rt::mutant!("commit/home-not-flushed");
        if is_external && needs_home_flush && self.config.barrier {
            self.flush_home()?;
        }
        self.write_commit_block(tid, crc, record_at)?;
        if rt::mutant!("commit/data-after-record") {
            self.client.write_ordered_data(tid)?;
        }
        Ok(())
    }

    /// Returns true if a transaction may be written together with its commit block.
    fn may_be_async(&self, contents: &Contents) -> bool {
        if !self.format.is_async {
            return false;
        }
        let has_revokes = !contents.revokes.is_empty();
        let has_new_superblock = self.state.lock().has_new_superblock;
        (!has_revokes || rt::mutant!("commit/async-with-revokes"))
            && (!has_new_superblock || rt::mutant!("commit/async-before-superblock"))
    }

    /// Writes a transaction and its commit block as one forced batch: an asynchronous commit.
    fn write_at_once(&self, tid: Tid, start: u32, records: Records) -> Result<()> {
        let mut blocks = records.blocks;
        blocks.push(records::commit_block(
            &self.format,
            tid,
            records.crc,
            rt::wall(),
        ));
        self.check_before_record(tid)?;
        let mut requests = self.log_requests(start, blocks);
        self.counters.log_requests.add(requests.len() as u64);
        self.counters.commit_blocks.add(1);
        self.force(&mut requests);
        self.set_log_io(LogIoPhase::Underway);
        self.log.device.request(requests).wait_all()?;
        self.flush_if_not_forced()
    }

    fn write_commit_block(&self, tid: Tid, crc: u32, at: u32) -> Result<()> {
        let block = records::commit_block(&self.format, tid, crc, rt::wall());
        let mut requests = self.log_requests(at, vec![block]);
        if self.config.barrier && !rt::mutant!("commit/no-flush-before-record") {
            self.flush_log()?;
        }
        self.check_before_record(tid)?;
        self.counters.commit_blocks.add(1);
        if rt::mutant!("commit/record-not-forced") {
            return Ok(self.log.device.request(requests).wait_all()?);
        }
        self.force(&mut requests);
        self.log.device.request(requests).wait_all()?;
        self.flush_if_not_forced()?;
        self.state.lock().has_new_superblock = false;
        Ok(())
    }

    /// Returns the requests that write blocks to the log from a place on.
    fn log_requests(&self, start: u32, blocks: block::Payload) -> Vec<Request> {
        let count = u32::try_from(blocks.len()).expect("less than the log");
        let first_part = self.limits.ring.before_wrap(start, count);
        let parts = [
            (start, first_part),
            (self.limits.ring.first(), count - first_part),
        ];
        self.requests_at(&parts, blocks)
    }

    /// Returns the requests that write blocks to parts of the journal, each given by its first
    /// block and its number of blocks.
    fn requests_at(&self, parts: &[(u32, u32)], blocks: block::Payload) -> Vec<Request> {
        let mut blocks = blocks.into_iter();
        let mut requests = Vec::new();
        for (first, count) in parts.iter().copied() {
            for piece in self.log.pieces(first, count) {
                let (mut sector, mut left) = (piece.sector, piece.count as usize);
                while left > 0 {
                    let taken = left.min(REQUEST_BLOCKS);
                    let payload: block::Payload = blocks.by_ref().take(taken).collect();
                    requests.push(Request::Write {
                        sector,
                        payload,
                        force_unit_access: false,
                    });
                    sector = sector + taken as u64 * u64::from(self.format.block_bytes) / 512;
                    left -= taken;
                }
            }
        }
        assert!(
            blocks.next().is_none(),
            "the log is mapped as far as its superblock says"
        );
        requests
    }

    fn set_log_io(&self, phase: LogIoPhase) {
        if let Some(committing) = &mut self.state.lock().committing {
            committing.log_io = phase;
        }
        if phase == LogIoPhase::Over {
            self.log_io_done.notify_all();
        }
    }

    /// Notes that the commit block is durable and wakes all threads that wait for it.
    fn mark_durable(&self, tid: Tid, took: Nanos) {
        self.counters.commits.add(1);
        self.counters.committing.add_time(took);
        let average = &self.counters.commit_average;
        average.set(match average.get() {
            0 => took.get(),
            before => before / 4 * 3 + took.get() / 4,
        });
        let mut state = self.state.lock();
        state.durable = tid;
        let callers = state
            .committing
            .as_ref()
            .map_or(0, |committing| committing.callers);
        if callers > 0 {
            state.groups = [callers, state.groups[0]];
            self.counters.group_size_max.raise_to(callers.into());
        }
        drop(state);
        self.committed(tid).notify_all();
    }

    fn count_records(&self, records: &Records, contents: &Contents) {
        self.counters
            .logged_blocks
            .add(contents.logged.len() as u64);
        self.counters.escaped_blocks.add(records.escaped_count);
        self.counters
            .descriptor_blocks
            .add(records.descriptor_count);
        self.counters.revoke_blocks.add(records.revoke_count);
        self.counters
            .revoke_records
            .add(contents.revokes.len() as u64);
    }
}
