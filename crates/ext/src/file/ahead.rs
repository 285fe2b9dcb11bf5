//! Readahead: while a file is read sequentially, the following blocks are requested before a caller
//! needs them.
//!
//! The window doubles with every step from 16 KiB to 128 KiB and is reset by a read that is not
//! sequential. The first window is read together with the requested blocks. When half of it is used
//! up, the next window is submitted without waiting. A pending window belongs to the file: a reader
//! that needs a part of it waits for all of it, and a writer waits for it before it changes the
//! file (two requests for one block must not be in flight).

use std::sync::Arc;

use block::Outcome;

use crate::cache::inode::Inode;
use crate::cache::read_ahead::Pending;
use crate::core::Core;
use crate::disk::inode::InodeState;
use crate::file::spans::{map_spans, mask_tail};

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

/// Waits for the pending window and drops it, before a change. The caller holds the inode lock
/// exclusively.
pub(super) fn settle(inode: &Inode) {
    let pending = inode.pages.lock().ahead.pending.take();
    if let Some(pending) = pending {
        drop(pending.ticket.wait());
    }
}

/// Submits the next window after a read, if it is due. Errors of the block map are left for a
/// reader to find.
pub(super) fn extend(core: &Core, inode: &Arc<Inode>, state: &InodeState) {
    let blocks = state.size.div_ceil(u64::from(core.geometry().block_bytes));
    let due = {
        let inner = inode.pages.lock();
        let due = inner.ahead.due();
        let due = due.filter(|(first, _)| first.get() < blocks);
        due.map(|(first, count)| {
            let count = count.min(blocks - first.get());
            (first, inner.absent(first, count))
        })
    };
    let Some((first, count)) = due else { return };
    if count == 0 {
        inode.pages.lock().ahead.end = first + 1;
        return;
    }
    let Ok(spans) = map_spans(core, inode, state, first, count) else {
        return;
    };
    if spans.is_empty() {
        inode.pages.lock().ahead.end = first + count;
        return;
    }
    let batch = spans.iter().map(|span| span.request(core)).collect();
    let pending = Pending {
        ticket: core.device.submit(batch),
        spans,
    };
    let mut inner = inode.pages.lock();
    let end = pending.end();
    if inner.ahead.pending.is_none() {
        inner.ahead.plan(
            first,
            end.get() - first.get(),
            u64::from(core.geometry().block_bytes),
        );
        inner.ahead.end = end;
        inner.ahead.pending = Some(pending);
        return;
    }
    drop(inner);
    complete(core, inode, state, pending);
}
