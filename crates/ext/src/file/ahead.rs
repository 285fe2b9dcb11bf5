//! Readahead: while a file is read sequentially, the following blocks are requested before a caller
//! needs them.
//!
//! The window doubles with every step from 16 KiB to 128 KiB and is reset by a read that is not
//! sequential. The first window is read together with the requested blocks. When half of it is used
//! up, the next window is submitted without waiting.
//!
//! The pattern of reads and the size of the window belong to the open file, so that several readers
//! of a file do not disturb each other. Pending windows belong to the inode: a reader that needs a
//! part of one waits for all of it, whichever open file submitted it, and a writer waits for all of
//! them before it changes the file (two requests for one block must not be in flight).

use std::sync::Arc;

use block::Outcome;
use layout::FileBlock;
use rt::Mutex;

use crate::cache::inode::Inode;
use crate::cache::read_ahead::{Pending, ReadAhead};
use crate::core::Core;
use crate::disk::inode::InodeState;
use crate::file::spans::{map_spans, mask_tail};

/// The readahead state of a read.
#[derive(Clone, Copy)]
pub(super) enum Reader<'r> {
    /// The state of an open file.
    Open(&'r Mutex<ReadAhead>),
    /// A stream of the inode, for a reader without an open file.
    Stream(usize),
}

impl<'r> Reader<'r> {
    /// Notes the start of a read of these blocks, both ends included. Returns its reader.
    pub(super) fn note(
        inode: &Inode,
        open: Option<&'r Mutex<ReadAhead>>,
        (first, last): (FileBlock, FileBlock),
        block_bytes: u64,
    ) -> Self {
        if let Some(open) = open {
            open.lock().note(first, last, block_bytes);
            return Self::Open(open);
        }
        let mut inner = inode.pages.lock();
        Self::Stream(inner.streams().note(first, last, block_bytes))
    }

    /// Changes the state.
    pub(super) fn change<T>(self, inode: &Inode, change: impl FnOnce(&mut ReadAhead) -> T) -> T {
        match self {
            Self::Open(open) => change(&mut open.lock()),
            Self::Stream(index) => change(inode.pages.lock().streams().get_mut(index)),
        }
    }
}

/// Waits for a window and puts it into the cache. Ignores failed reads: a caller that needs the
/// block reads it again.
pub(super) fn complete(core: &Core, inode: &Inode, state: &InodeState, pending: Pending) {
    let results = pending.ticket.wait();
    let mut inner = inode.pages.lock();
    for (span, result) in pending.spans.iter().zip(results) {
        let Ok(Outcome::Read(images)) = result else {
            continue;
        };
        for (step, mut image) in images.into_iter().enumerate() {
            let block = span.first + step as u64;
            let is_masked = mask_tail(core, state, block, &mut image);
            inner.fill(
                &core.pages.counts,
                block,
                span.run.first + step as u64,
                &image,
                is_masked,
            );
        }
    }
}

/// Waits for all pending windows and drops them, before a change. The caller holds the inode lock
/// exclusively.
pub(crate) fn settle(inode: &Inode) {
    let pending = inode.pages.lock().windows.take_all();
    for pending in pending {
        drop(pending.ticket.wait());
    }
}

/// Submits the reader's next window after a read, if it is due. Errors of the block map are left
/// for a reader to find.
pub(super) fn extend(core: &Core, inode: &Arc<Inode>, state: &InodeState, reader: Reader<'_>) {
    let blocks = state.size.div_ceil(u64::from(core.geometry().block_bytes));
    let due = reader.change(inode, |ahead| ahead.due());
    let Some((first, count)) = due.filter(|(first, _)| first.get() < blocks) else {
        return;
    };
    let (absent, covered_to) = {
        let mut inner = inode.pages.lock();
        if inner.windows.has_end(first) || inner.has_direct_writes() {
            // The reader's last window is still pending, or the window might be written.
            return;
        }
        let count = count.min(blocks - first.get());
        let absent = inner.absent(first, count);
        let covered_to = inner.windows.end_over(first);
        inner.begin_read();
        (absent, covered_to)
    };
    inode.pages.end_read_after(|| {
        submit(core, inode, state, reader, (first, absent), covered_to);
    });
}

/// Submits a window of absent blocks, if there are any.
fn submit(
    core: &Core,
    inode: &Arc<Inode>,
    state: &InodeState,
    reader: Reader<'_>,
    (first, absent): (FileBlock, u64),
    covered_to: Option<FileBlock>,
) {
    let skip_to = |end| reader.change(inode, |ahead| ahead.end = end);
    if absent == 0 {
        return skip_to(covered_to.unwrap_or(first + 1));
    }
    let Ok(spans) = map_spans(core, inode, state, first, absent) else {
        return;
    };
    if spans.is_empty() {
        return skip_to(first + absent);
    }
    let batch = spans.iter().map(|span| span.request(core)).collect();
    let ticket = core.device.request(batch);
    ticket.start();
    let pending = Pending { ticket, spans };
    let end = pending.end();
    let oldest = inode.pages.lock().windows.add(pending);
    let block_bytes = u64::from(core.geometry().block_bytes);
    reader.change(inode, |ahead| {
        ahead.plan(first, end.get() - first.get(), block_bytes);
        ahead.end = end;
    });
    if let Some(oldest) = oldest {
        complete(core, inode, state, oldest);
    }
}
