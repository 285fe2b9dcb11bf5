//! Reading ahead: while a file is read from front to back, what comes next is asked for before it is wanted.
//!
//! The window doubles with every step from 16 KiB to 128 KiB and closes when a read does not follow the one before. The
//! first part is read together with what was asked for; then, when half of what has been read ahead is used up, the next
//! window is asked for without waiting. What is under way belongs to the file: whoever wants a part of it waits for all of
//! it, and whoever is about to change the file waits first (two requests on one block must not be in flight).

use std::sync::Arc;

use block::{Outcome, Request, Ticket};
use layout::SectorNr;

use super::read::{Span, map_spans, mask_tail};
use crate::cache::inode::{Inode, InodeState};
use crate::core::Core;

/// The first window, in bytes.
const WINDOW_BYTES_MIN: u64 = 16 << 10;
/// The largest window, in bytes.
const WINDOW_BYTES_MAX: u64 = 128 << 10;

/// What a file's reads look like, and what is under way.
#[derive(Default)]
pub(super) struct ReadAhead {
    /// The block after the last read.
    next: u64,
    /// Blocks to read ahead; 0 while reads do not follow each other.
    window: u64,
    /// The block after the last that was asked for.
    end: u64,
    pending: Option<Pending>,
}

/// A window under way.
pub(super) struct Pending {
    spans: Vec<Span>,
    ticket: Ticket,
}

impl Pending {
    fn first(&self) -> u64 {
        self.spans.first().map_or(0, |span| span.first)
    }

    fn end(&self) -> u64 {
        self.spans
            .last()
            .map_or(0, |span| span.first + u64::from(span.run.count))
    }
}

impl ReadAhead {
    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_none()
    }

    /// A read of these blocks, both ends included, begins.
    pub(super) fn note(&mut self, first: u64, last: u64, block_bytes: u64) {
        let follows = first == self.next || first + 1 == self.next;
        if !follows {
            self.window = 0;
            self.end = 0;
        } else if self.window == 0 {
            self.window = (WINDOW_BYTES_MIN / block_bytes).max(1);
        }
        self.next = last + 1;
    }

    /// Blocks to read when `wanted` are wanted from one on; the window grows.
    pub(super) fn plan(&mut self, first: u64, wanted: u64, block_bytes: u64) -> u64 {
        let count = wanted.max(self.window);
        self.window = (self.window * 2).min(WINDOW_BYTES_MAX / block_bytes);
        self.end = first + count;
        count
    }

    /// Takes what is under way if a block is among it.
    pub(super) fn take(&mut self, block: u64) -> Option<Pending> {
        let is_among = |pending: &mut Pending| (pending.first()..pending.end()).contains(&block);
        self.pending.take_if(is_among)
    }

    /// The next window, if it is time to ask for it: first block and count.
    fn due(&self) -> Option<(u64, u64)> {
        // The window to come is twice the one that is being used up.
        let is_due = self.window > 0 && self.end > 0 && self.next + self.window / 4 >= self.end;
        (is_due && self.pending.is_none()).then_some((self.end, self.window))
    }
}

/// Waits for a window and puts it into the cache. A failed read is nobody's error yet: whoever wants the block reads again.
pub(super) fn land(core: &Core, inode: &Inode, state: &InodeState, pending: Pending) {
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
                &core.pages,
                block,
                span.run.first + step as u64,
                &image,
                is_masked,
            );
        }
    }
}

/// Before a change: waits for what is under way and forgets it. The caller holds the inode lock exclusively.
pub(super) fn settle(inode: &Inode) {
    let pending = inode.pages.lock().ahead.pending.take();
    if let Some(pending) = pending {
        drop(pending.ticket.wait());
    }
}

/// After a read: asks for the next window if it is time. Failures to look the map up are left to the reader to find.
pub(super) fn extend(core: &Core, inode: &Arc<Inode>, state: &InodeState) {
    let blocks = state.size.div_ceil(u64::from(core.geometry.block_bytes));
    let due = {
        let inner = inode.pages.lock();
        let due = inner.ahead.due().filter(|(first, _)| *first < blocks);
        due.map(|(first, count)| (first, inner.absent(first, count.min(blocks - first))))
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
        inner
            .ahead
            .plan(first, end - first, u64::from(core.geometry.block_bytes));
        inner.ahead.end = end;
        inner.ahead.pending = Some(pending);
        return;
    }
    drop(inner);
    land(core, inode, state, pending);
}

impl Span {
    /// The request that reads the span.
    pub(super) fn request(&self, core: &Core) -> Request {
        rt::charge(rt::Cost::Request);
        Request::Read {
            sector: SectorNr::from_byte_offset(core.geometry.byte_offset(self.run.first)),
            blocks: self.run.count,
            block_bytes: core.geometry.block_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_doubles_and_closes() {
        let mut ahead = ReadAhead::default();
        ahead.note(0, 0, 4096);
        assert_eq!(ahead.plan(0, 1, 4096), 4);
        assert_eq!(ahead.due(), None, "three blocks are still unused");
        ahead.note(1, 1, 4096);
        assert_eq!(ahead.due(), Some((4, 8)));
        assert_eq!(ahead.plan(4, 8, 4096), 8);
        assert_eq!(ahead.plan(12, 8, 4096), 16);
        assert_eq!(ahead.plan(20, 1, 4096), 32);
        assert_eq!(ahead.plan(52, 1, 4096), 32);
        ahead.note(1000, 1000, 4096);
        assert_eq!(ahead.plan(1000, 1, 4096), 1);
        assert_eq!(ahead.due(), None);
    }
}
