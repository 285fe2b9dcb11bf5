//! Writeback of dirty pages.
//!
//! Pages are taken from their files in order of age, sorted by block, and submitted in large
//! batches in which neighbours are one request. Unless the log policy has `order=sorted`, they are
//! submitted in the order in which they became dirty, as in Linux 2.4, where only the elevator
//! sorts and sees no more than its queue. Two batches are in flight at a time. The thread that took
//! pages waits for them and records the result in the files ([`super::batch`]); with
//! `writers=submit`, other threads may do that.

use std::collections::VecDeque;
use std::sync::Arc;

use block::DeviceError;
use layout::FileBlock;
use rt::Nanos;

use super::batch::{PageBatch, SubmittedBatch};
use crate::awaited::awaited_with;
use crate::cache::file_pages::Which;
use crate::cache::inode::Inode;
use crate::cache::submitted::SubmittedWrite;
use crate::core::Core;
use crate::error::Result;
use crate::tuning::Writers;

/// Number of files taken from the dirty list at a time.
const FILES_AT_A_TIME: usize = 64;

/// Pages that were submitted.
#[derive(Debug)]
pub(crate) struct Sent {
    /// Number of pages, those that failed included.
    pub(crate) pages: usize,
    /// The first failure of writes that were waited for.
    pub(crate) failure: Option<DeviceError>,
}

impl Sent {
    /// Returns the number of pages.
    ///
    /// # Errors
    /// Returns the first failure.
    pub(crate) fn result(self) -> Result<usize, DeviceError> {
        self.failure.map_or(Ok(self.pages), Err)
    }
}

/// A series of batches.
struct Pipeline<'c> {
    core: &'c Core,
    filling: PageBatch,
    /// Full batches that have not been submitted (`writers=submit`).
    unsent: VecDeque<PageBatch>,
    underway: VecDeque<Arc<SubmittedBatch>>,
    error: Option<DeviceError>,
    sent: usize,
}

impl<'c> Pipeline<'c> {
    fn new(core: &'c Core, filling: PageBatch) -> Self {
        Self {
            core,
            filling,
            unsent: VecDeque::new(),
            underway: VecDeque::new(),
            error: None,
            sent: 0,
        }
    }

    /// Runs `work` on a series of batches. If it panics, batches in flight are waited for, and the
    /// rest is not written.
    fn run<T>(core: &'c Core, filling: PageBatch, work: impl FnOnce(&mut Self) -> T) -> T {
        awaited_with(&mut Self::new(core, filling), work, |pipeline| {
            pipeline.filling.abandon(&core.pages);
            for batch in &mut pipeline.unsent {
                batch.abandon(&core.pages);
            }
            pipeline.reap_all();
        })
    }

    /// Takes pages of a file, each at most once, and none after those that are dirty now: the walk
    /// does not follow a writer that appends. Returns true if some of them were in flight and dirty
    /// again.
    fn add(&mut self, inode: &Arc<Inode>, which: Which) -> bool {
        let mut has_busy = false;
        let mut next = Some(FileBlock::default());
        let mut end = None;
        while let Some(from) = next {
            let mut inner = inode.pages.lock();
            let end = *end.get_or_insert_with(|| inner.dirty_end());
            if from >= end {
                break;
            }
            let filling = &mut self.filling;
            let room = self.core.tuning.batch_pages.saturating_sub(filling.len());
            let before = filling.len();
            let collected = inner.collect(which, from, room, |id, page| {
                filling.push(inode, id, page);
            });
            let taken = (filling.len() - before) as i64;
            self.core.pages.counts.count_in_flight(taken);
            self.core.pages.relist(&mut inner, inode);
            drop(inner);
            has_busy |= collected.has_busy;
            if self.filling.len() >= self.core.tuning.batch_pages {
                self.send(false);
            }
            // Pages of a failed batch are dirty again: a walk from the start would take them for
            // ever.
            let is_endless = rt::mutant!("error/failed-pages-taken-again");
            next = collected.next.map(|block| {
                if is_endless {
                    FileBlock::default()
                } else {
                    block
                }
            });
        }
        has_busy
    }

    /// Takes pages dirty since before a time, oldest files first, until `is_enough` returns true
    /// after a file.
    fn add_oldest(&mut self, before: Nanos, which: Which, is_enough: impl Fn(usize) -> bool) {
        let mut last = None;
        loop {
            let files = self.core.pages.list.after(last, before, FILES_AT_A_TIME);
            let Some((key, _)) = files.last() else { return };
            last = Some(*key);
            for (_, inode) in &files {
                self.add(inode, which);
                if is_enough(self.sent + self.filling.len()) {
                    return;
                }
            }
        }
    }

    /// Submits the pages taken so far. `is_last` is true if the caller then waits for all.
    fn send(&mut self, is_last: bool) {
        if self.filling.len() == 0 {
            return;
        }
        if self.underway.len() >= self.core.tuning.batches_max {
            self.reap();
        }
        let batch = std::mem::take(&mut self.filling);
        self.sent += batch.len();
        if self.core.tuning.writeback.writers == Writers::Wait {
            let is_awaited_next = is_last && self.underway.is_empty();
            let batch = batch.submit(self.core, is_awaited_next);
            self.underway.push_back(batch);
            return;
        }
        self.unsent.extend(batch.by_file());
        while let Some(batch) = self.unsent.pop_front() {
            let batch = batch.submit(self.core, false);
            batch.share(&self.core.pages);
            self.underway.push_back(batch);
        }
    }

    fn reap(&mut self) {
        if let Some(batch) = self.underway.pop_front()
            && let Err(error) = batch.complete(&self.core.pages)
        {
            self.error.get_or_insert(error);
        }
    }

    /// Submits the rest and waits for all.
    fn finish(&mut self) -> Sent {
        self.send(true);
        self.reap_all();
        self.sent()
    }

    /// Submits the rest and leaves all to the threads that need their results.
    fn leave(&mut self) -> Sent {
        self.send(false);
        self.underway.clear();
        self.sent()
    }

    fn sent(&mut self) -> Sent {
        Sent {
            pages: self.sent,
            failure: self.error.take(),
        }
    }

    fn reap_all(&mut self) {
        while !self.underway.is_empty() {
            self.reap();
        }
    }
}

/// Writes pages of files and loose images, and waits, also for writes by other threads.
///
/// Takes at most two passes. The second one writes pages that the first one found in flight: pages
/// dirtied again meanwhile, and pages whose write by another thread failed. A page that is in
/// flight in the second pass was taken after this call started, so that waiting for it is enough.
///
/// # Errors
/// Returns the first failed write of this call, unless the second pass has repaired all of them; or
/// the last one of another thread, if it failed in the second pass. The pages stay dirty.
pub(crate) fn write_files(
    core: &Core,
    files: &[Arc<Inode>],
    which: Which,
    loose: PageBatch,
) -> Result<(), DeviceError> {
    let has_loose = loose.len() > 0;
    let mut first = Pass::run(core, files.iter(), which, loose);
    let mut left = first.busy;
    for inode in first.failed_elsewhere {
        if !left.iter().any(|other| Arc::ptr_eq(other, inode)) {
            left.push(inode);
        }
    }
    if left.is_empty() {
        return first.result;
    }
    let second = Pass::run(core, left.iter().copied(), which, PageBatch::default());
    let is_failed = |inode: &Arc<Inode>| inode.pages.lock().has_failed(which);
    // The second pass does not write images that belong to no file.
    if first.result.is_err() && !has_loose && !files.iter().any(is_failed) {
        first.result = Ok(());
    }
    let last = second.failed_elsewhere.first();
    let failure = last.and_then(|inode| inode.pages.last_error().1);
    first
        .result
        .and(second.result)
        .and(failure.map_or(Ok(()), Err))
}

/// One pass over the pages of files.
struct Pass<'f> {
    result: Result<(), DeviceError>,
    /// Files with pages that were in flight and dirty again.
    busy: Vec<&'f Arc<Inode>>,
    /// Files with pages whose write by another thread failed.
    failed_elsewhere: Vec<&'f Arc<Inode>>,
}

impl<'f> Pass<'f> {
    fn run(
        core: &Core,
        files: impl Iterator<Item = &'f Arc<Inode>> + Clone,
        which: Which,
        loose: PageBatch,
    ) -> Self {
        let mut busy: Vec<&Arc<Inode>> = Vec::new();
        let counts = files.clone().map(|inode| inode.pages.error_count());
        let counts: Vec<u64> = counts.collect();
        let written = Pipeline::run(core, loose, |pipeline| {
            busy.extend(files.clone().filter(|inode| pipeline.add(inode, which)));
            pipeline.finish().result()
        });
        let mut failed_elsewhere = Vec::new();
        for (inode, before) in files.zip(counts) {
            wait_written(core, inode);
            if written.is_ok() && inode.pages.error_count() != before {
                failed_elsewhere.push(inode);
            }
        }
        Self {
            result: written.map(drop),
            busy,
            failed_elsewhere,
        }
    }
}

/// Writes some dirty pages of a file, and waits for them, but not for writes by other threads.
pub(crate) fn write_pages(
    core: &Core,
    inode: &Arc<Inode>,
    which: Which,
) -> Result<usize, DeviceError> {
    Pipeline::run(core, PageBatch::default(), |pipeline| {
        pipeline.add(inode, which);
        pipeline.finish().result()
    })
}

/// Writes pages of one file and waits.
pub(crate) fn write_file(core: &Core, inode: &Arc<Inode>, which: Which) -> Result<(), DeviceError> {
    write_files(
        core,
        std::slice::from_ref(inode),
        which,
        PageBatch::default(),
    )
}

/// Writes every page of the volume that is dirty or in flight now, and waits. Pages that become
/// dirty meanwhile may be left.
pub(crate) fn write_everything(core: &Core) -> Result<(), DeviceError> {
    let mut result = Ok(());
    loop {
        let files = core.pages.list.all();
        for files in files.chunks(FILES_AT_A_TIME * 16) {
            result = result.and(write_files(core, files, Which::All, PageBatch::default()));
        }
        if files.is_empty() || !rt::mutant!("sync/follows-writers") {
            return result;
        }
    }
}

/// Waits until every write of the file's pages now in flight has completed.
pub(crate) fn wait_written(core: &Core, inode: &Arc<Inode>) {
    let mut inner = inode.pages.lock();
    let limit = inner.next_batch();
    while inner.has_batch_before(limit) {
        // Looked up under the lock: `share` wakes a thread that sleeps since then.
        if let Some(batch) = core.pages.submitted.of(inode, limit) {
            drop(inner);
            // The file has the error.
            let _ = batch.complete(&core.pages);
            inner = inode.pages.lock();
        } else {
            inode.pages.wait(&mut inner);
        }
    }
}

/// Records the results of the writes that have completed, if no thread waits for them.
///
/// # Errors
/// Returns their first error. The pages of failed writes are dirty again.
pub(crate) fn complete_ready(core: &Core) -> Result<(), DeviceError> {
    let ready = core.pages.submitted.ready().into_iter();
    let completed = ready.map(|batch| batch.complete(&core.pages));
    completed.fold(Ok(()), Result::and)
}

/// Writes pages dirty since before a time, oldest files first, until `is_enough` returns true after
/// a batch, and waits.
pub(super) fn write_oldest(
    core: &Core,
    before: Nanos,
    which: Which,
    is_enough: impl Fn(usize) -> bool,
) -> Sent {
    Pipeline::run(core, PageBatch::default(), |pipeline| {
        pipeline.add_oldest(before, which, is_enough);
        pipeline.finish()
    })
}

/// Submits writes of approximately `pages` pages dirty since before a time, oldest files first.
pub(super) fn submit_oldest(core: &Core, before: Nanos, which: Which, pages: usize) -> Sent {
    Pipeline::run(core, PageBatch::default(), |pipeline| {
        pipeline.add_oldest(before, which, |count| count >= pages);
        if core.tuning.writeback.writers == Writers::Wait {
            return pipeline.finish();
        }
        pipeline.leave()
    })
}

/// Writes approximately `pages` of the oldest dirty pages and waits. Leaves out those that could
/// not be written.
pub(crate) fn write_some(core: &Core, pages: usize) -> Sent {
    write_oldest(core, Nanos::MAX, Which::NotFailed, |count| count >= pages)
}
