//! A batch of pages, from the files that they are taken from to the results of their writes.
//!
//! Whichever thread needs the results waits for them and records them in the files, once; if it
//! panics, it records that the pages could not be written.

use std::sync::Arc;

use block::{DeviceError, Request, Ticket};
use layout::{Block, BlockNr, FileBlock, SectorNr};
use rt::{Condvar, Mutex};

use crate::awaited::awaited_with;
use crate::cache::file_pages::{Taken, Written};
use crate::cache::inode::Inode;
use crate::cache::pages::Pages;
use crate::cache::submitted::SubmittedWrite;
use crate::core::Core;

/// Size of the largest request in bytes.
const REQUEST_BYTES_MAX: u64 = 1 << 20;

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

/// The pages of one file in a batch, which is a writeback batch of that file.
#[derive(Clone)]
struct FileBatch {
    inode: Arc<Inode>,
    id: u64,
}

impl PageBatch {
    /// Index for images that no longer belong to a file.
    const LOOSE: usize = usize::MAX;

    /// Adds a page of a file to its writeback batch, which is the newest one unless this is its
    /// first page.
    pub(super) fn push(&mut self, inode: &Arc<Inode>, id: u64, page: Taken) {
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

    /// Returns batches of one file each, in their order.
    pub(super) fn by_file(self) -> Vec<Self> {
        let mut batches: Vec<Self> = Vec::with_capacity(self.files.len() + 1);
        let mut last = None;
        let files = self.files;
        for item in self.items {
            if last != Some(item.file) {
                last = Some(item.file);
                let file = files.get(item.file).cloned();
                batches.push(Self {
                    items: Vec::new(),
                    files: file.into_iter().collect(),
                });
            }
            let batch = batches.last_mut().expect("one was added");
            let file = if item.file == Self::LOOSE {
                Self::LOOSE
            } else {
                0
            };
            batch.items.push(Item { file, ..item });
        }
        batches
    }

    /// Submits the pages. `is_awaited_next` is true if the caller then waits for them.
    pub(super) fn submit(mut self, core: &Core, is_awaited_next: bool) -> Arc<SubmittedBatch> {
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
        let submit = |_: &mut Self| core.device.request(batch);
        let ticket = awaited_with(&mut self, submit, |batch| batch.abandon(&core.pages));
        if !is_awaited_next {
            ticket.start();
        }
        Arc::new(SubmittedBatch {
            files: self.files.clone(),
            state: Mutex::new(State::Open(Submission {
                ticket,
                batch: self,
                spans,
            })),
            over: Condvar::new(),
        })
    }

    /// Completes the writeback batches after a panic: the state of their writes is unknown.
    pub(super) fn abandon(&mut self, pages: &Pages) {
        for (index, file) in self.files.drain(..).enumerate() {
            let own = self.items.iter().filter(|item| item.file == index);
            let written = own.map(|item| item.written(Some(DeviceError::Gone)));
            pages.note_results(&file.inode, file.id, written);
        }
        self.items.clear();
    }
}

/// Pages in flight.
struct Submission {
    ticket: Ticket,
    batch: PageBatch,
    /// Number of pages in each request.
    spans: Vec<usize>,
}

impl Submission {
    /// Waits, and completes the writeback batches.
    fn finish(mut self, pages: &Pages) -> Result<(), DeviceError> {
        let wait = |_: &mut PageBatch| self.ticket.wait();
        let results = awaited_with(&mut self.batch, wait, |batch| batch.abandon(pages));
        let PageBatch { items, files } = self.batch;
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
                None => {
                    pages.flushes.note_written();
                }
            }
        }
        for (file, list) in files.into_iter().zip(written) {
            pages.note_results(&file.inode, file.id, list.into_iter());
        }
        first_error.map_or(Ok(()), Err)
    }
}

/// A batch in flight, which any thread may wait for.
pub(crate) struct SubmittedBatch {
    files: Vec<FileBatch>,
    state: Mutex<State>,
    over: Condvar,
}

/// The state of a batch.
enum State {
    /// No thread waits for it.
    Open(Submission),
    /// A thread waits for it.
    Awaited,
    /// Its results have been recorded; the first error, if there is one.
    Completed(Result<(), DeviceError>),
}

impl SubmittedBatch {
    /// Lets other threads complete it.
    pub(super) fn share(self: &Arc<Self>, pages: &Pages) {
        pages.submitted.add(Arc::<Self>::clone(self));
        for file in &self.files {
            // A thread that has looked for the batch in vain sleeps once its lock is free.
            drop(file.inode.pages.lock());
            file.inode.pages.notify_written();
        }
    }
}

impl SubmittedWrite<Pages> for SubmittedBatch {
    fn has_batch_of(&self, inode: &Arc<Inode>, limit: u64) -> bool {
        let mut files = self.files.iter();
        files.any(|file| file.id < limit && Arc::ptr_eq(&file.inode, inode))
    }

    fn is_ready(&self) -> bool {
        match &*self.state.lock() {
            State::Open(submission) => submission.ticket.is_ready(),
            State::Awaited => false,
            State::Completed(_) => true,
        }
    }

    fn complete(&self, pages: &Pages) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        let submission = loop {
            match core::mem::replace(&mut *state, State::Awaited) {
                State::Open(submission) => break submission,
                State::Awaited => self.over.wait(&mut state),
                State::Completed(result) => {
                    *state = State::Completed(result.clone());
                    return result;
                }
            }
        };
        drop(state);
        let end = |result| {
            pages
                .submitted
                .remove(|other| std::ptr::addr_eq(Arc::as_ptr(other), self));
            *self.state.lock() = State::Completed(result);
            self.over.notify_all();
        };
        let abandon = |_: &mut ()| end(Err(DeviceError::Gone));
        let result = awaited_with(&mut (), |()| submission.finish(pages), abandon);
        end(result.clone());
        result
    }
}
