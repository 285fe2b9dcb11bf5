//! Writeback of dirty pages.
//!
//! Pages are taken from their files in order of age, sorted by block, and submitted in large
//! batches in which neighbours are one request. Unless the log policy has `order=sorted`, they are
//! submitted in the order in which they became dirty, as in Linux 2.4, where only the elevator
//! sorts and sees no more than its queue. Two batches are in flight at a time. The thread that took
//! pages waits for them and records the result in the files; if it panics, it records that they
//! could not be written.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{DeviceError, Request, Ticket};
use layout::{Block, BlockNr, FileBlock, SectorNr};
use rt::Nanos;

use crate::awaited::awaited_with;
use crate::cache::file_pages::{Taken, Which, Written};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::error::Result;

/// Size of the largest request in bytes.
const REQUEST_BYTES_MAX: u64 = 1 << 20;
/// Number of files taken from the dirty list at a time.
const FILES_AT_A_TIME: usize = 64;

/// Pages to be written.
#[derive(Default)]
pub(crate) struct PageBatch {
    items: Vec<Item>,
    files: Vec<FileBatch>,
}

struct Item {
    page: Taken,
    file: usize,
}

impl Item {
    fn written(&self, error: Option<DeviceError>) -> Written {
        Written {
            block: self.page.block,
            ordered: self.page.ordered,
            error,
        }
    }
}

/// The pages of one file in a batch.
struct FileBatch {
    inode: Arc<Inode>,
    id: u64,
}

impl PageBatch {
    /// Index for images that no longer belong to a file.
    const LOOSE: usize = usize::MAX;

    /// Adds a page of a file to its writeback batch, which is the newest one unless this is its
    /// first page.
    fn push(&mut self, inode: &Arc<Inode>, id: u64, page: Taken) {
        let is_newest = |file: &FileBatch| file.id == id && Arc::ptr_eq(&file.inode, inode);
        if !self.files.last().is_some_and(is_newest) {
            self.files.push(FileBatch {
                inode: Arc::clone(inode),
                id,
            });
        }
        self.items.push(Item {
            file: self.files.len() - 1,
            page,
        });
    }

    /// Adds a page of no file.
    pub(crate) fn push_loose(&mut self, nr: BlockNr, image: Arc<Block>) {
        let page = Taken {
            block: FileBlock::new(0),
            nr,
            image,
            ordered: None,
        };
        self.items.push(Item {
            file: Self::LOOSE,
            page,
        });
    }

    /// Returns the number of pages.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    fn submit(mut self, core: &Core) -> Submitted {
        if core.tuning.sorts_pages {
            self.items.sort_by_key(|item| item.page.nr);
        }
        let per_request = (REQUEST_BYTES_MAX / u64::from(core.geometry().block_bytes)) as usize;
        let mut batch = Vec::new();
        let mut spans = Vec::new();
        let mut start = 0;
        while start < self.items.len() {
            let first = self.items[start].page.nr;
            let follows = |(step, item): &(usize, &Item)| item.page.nr == first + *step as u64;
            let rest = self.items[start..].iter().enumerate();
            let count = rest.take(per_request).take_while(follows).count();
            let payload = self.items[start..start + count]
                .iter()
                .map(|item| Arc::clone(&item.page.image));
            let sector = SectorNr::from_byte_offset(core.geometry().byte_offset(first));
            let payload = payload.collect();
            rt::charge(rt::Cost::Request);
            batch.push(Request::Write {
                sector,
                payload,
                force_unit_access: false,
            });
            spans.push(count);
            start += count;
        }
        let submit = |_: &mut Self| core.device.submit(batch);
        Submitted {
            ticket: awaited_with(&mut self, submit, |pages| pages.abandon(core)),
            batch: self,
            spans,
        }
    }

    /// Completes the writeback batches after a panic: the state of their writes is unknown.
    fn abandon(&mut self, core: &Core) {
        for (index, file) in self.files.drain(..).enumerate() {
            let own = self.items.iter().filter(|item| item.file == index);
            let written = own.map(|item| item.written(Some(DeviceError::Gone)));
            core.pages.note_results(&file.inode, file.id, written);
        }
        self.items.clear();
    }
}

/// Pages in flight.
struct Submitted {
    ticket: Ticket,
    batch: PageBatch,
    /// Number of pages in each request.
    spans: Vec<usize>,
}

impl Submitted {
    /// Waits, and completes the writeback batches.
    fn finish(mut self, core: &Core) -> Result<(), DeviceError> {
        let wait = |_: &mut PageBatch| self.ticket.wait();
        let results = awaited_with(&mut self.batch, wait, |pages| pages.abandon(core));
        let PageBatch { items, files } = self.batch;
        assert_eq!(results.len(), self.spans.len(), "a result for each request");
        let per_request = results.into_iter().map(Result::err).zip(self.spans);
        let mut errors = per_request.flat_map(|(error, count)| vec![error; count]);
        let mut written: Vec<Vec<Written>> = Vec::new();
        written.resize_with(files.len(), Vec::new);
        let mut first_error = None;
        for item in items {
            let error = errors.next().flatten();
            if first_error.is_none() {
                first_error.clone_from(&error);
            }
            match written.get_mut(item.file) {
                Some(list) => list.push(item.written(error)),
                // The image no longer belongs to a file, but a commit may still wait for it.
                None => core.pages.flushes.note_written(rt::monotonic()),
            }
        }
        for (file, list) in files.into_iter().zip(written) {
            core.pages
                .note_results(&file.inode, file.id, list.into_iter());
        }
        first_error.map_or(Ok(()), Err)
    }
}

/// A series of batches.
struct Pipeline<'c> {
    core: &'c Core,
    filling: PageBatch,
    underway: VecDeque<Submitted>,
    error: Option<DeviceError>,
    sent: usize,
}

impl<'c> Pipeline<'c> {
    fn new(core: &'c Core, filling: PageBatch) -> Self {
        Self {
            core,
            filling,
            underway: VecDeque::new(),
            error: None,
            sent: 0,
        }
    }

    /// Runs `work` on a series of batches. If it panics, batches in flight are waited for, and the
    /// rest is not written.
    fn run<T>(core: &'c Core, filling: PageBatch, work: impl FnOnce(&mut Self) -> T) -> T {
        awaited_with(&mut Self::new(core, filling), work, |pipeline| {
            pipeline.filling.abandon(core);
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
            let collected = inner.collect(which, from, room, |id, page| {
                filling.push(inode, id, page);
            });
            self.core.pages.relist(&mut inner, inode);
            drop(inner);
            has_busy |= collected.has_busy;
            if self.filling.len() >= self.core.tuning.batch_pages {
                self.send();
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

    fn send(&mut self) {
        if self.filling.len() == 0 {
            return;
        }
        if self.underway.len() >= self.core.tuning.batches_max {
            self.reap();
        }
        let batch = std::mem::take(&mut self.filling);
        self.sent += batch.len();
        self.underway.push_back(batch.submit(self.core));
    }

    fn reap(&mut self) {
        if let Some(submitted) = self.underway.pop_front()
            && let Err(error) = submitted.finish(self.core)
        {
            self.error.get_or_insert(error);
        }
    }

    /// Submits the rest and waits for all. Returns the number of pages written.
    fn finish(&mut self) -> Result<usize, DeviceError> {
        self.send();
        self.reap_all();
        self.error.take().map_or(Ok(self.sent), Err)
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
/// Returns the first failed write of this call; or the last one of another thread, if it failed in
/// the second pass. The pages stay dirty.
pub(crate) fn write_files(
    core: &Core,
    files: &[Arc<Inode>],
    which: Which,
    loose: PageBatch,
) -> Result<(), DeviceError> {
    let first = Pass::run(core, files.iter(), which, loose);
    let mut left = first.busy;
    left.extend(first.failed_elsewhere);
    if left.is_empty() {
        return first.result;
    }
    let second = Pass::run(core, left.iter().copied(), which, PageBatch::default());
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
            pipeline.finish()
        });
        let mut failed_elsewhere = Vec::new();
        for (inode, before) in files.zip(counts) {
            inode.pages.wait_written();
            let is_busy = || busy.iter().any(|other| Arc::ptr_eq(other, inode));
            let has_failed = written.is_ok() && inode.pages.error_count() != before;
            if has_failed && !is_busy() {
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
        pipeline.finish()
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

/// Writes pages dirty since before a time, oldest files first, until `is_enough` returns true after
/// a batch. Returns the number written.
pub(super) fn write_oldest(
    core: &Core,
    before: Nanos,
    which: Which,
    is_enough: impl Fn(usize) -> bool,
) -> Result<usize, DeviceError> {
    Pipeline::run(core, PageBatch::default(), |pipeline| {
        let mut last = None;
        loop {
            let files = core.pages.list.after(last, before, FILES_AT_A_TIME);
            let Some((key, _)) = files.last() else {
                return pipeline.finish();
            };
            last = Some(*key);
            for (_, inode) in &files {
                pipeline.add(inode, which);
                if is_enough(pipeline.sent + pipeline.filling.len()) {
                    return pipeline.finish();
                }
            }
        }
    })
}

/// Writes approximately `pages` of the oldest dirty pages and waits. Returns the number written.
pub(crate) fn write_some(core: &Core, pages: usize) -> Result<usize, DeviceError> {
    write_oldest(core, Nanos::MAX, Which::All, |count| count >= pages)
}
