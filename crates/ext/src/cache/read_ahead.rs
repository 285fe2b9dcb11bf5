//! The pattern of a file's reads, and the readahead window after them.

use block::Ticket;
use layout::FileBlock;

use crate::disk::run::Run;

/// Blocks of a file that are contiguous on the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    /// The first block of the file.
    pub(crate) first: FileBlock,
    /// Their extent on the device.
    pub(crate) run: Run,
}

/// Size of the first window in bytes.
const WINDOW_BYTES_MIN: u64 = 16 << 10;
/// Size of the largest window in bytes.
const WINDOW_BYTES_MAX: u64 = 128 << 10;

/// The pattern of a file's reads, and the pending readahead.
#[derive(Default)]
pub(crate) struct ReadAhead {
    /// The block after the last read.
    next: FileBlock,
    /// Number of blocks to read ahead; 0 while reads are not sequential.
    window: u64,
    /// The block after the last requested one.
    pub(crate) end: FileBlock,
    pub(crate) pending: Option<Pending>,
}

/// A submitted window.
pub(crate) struct Pending {
    pub(crate) spans: Vec<Span>,
    pub(crate) ticket: Ticket,
}

impl Pending {
    fn first(&self) -> FileBlock {
        let first = self.spans.first();
        first.map_or_else(FileBlock::default, |span| span.first)
    }

    pub(crate) fn end(&self) -> FileBlock {
        let last = self.spans.last();
        last.map_or_else(FileBlock::default, |span| {
            span.first + u64::from(span.run.count)
        })
    }
}

impl ReadAhead {
    /// Returns true if no window is pending.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_none()
    }

    /// Notes the start of a read of these blocks, both ends included.
    pub(crate) fn note(&mut self, first: FileBlock, last: FileBlock, block_bytes: u64) {
        let follows = first == self.next || first + 1 == self.next;
        if !follows {
            self.window = 0;
            self.end = FileBlock::default();
        } else if self.window == 0 {
            self.window = (WINDOW_BYTES_MIN / block_bytes).max(1);
        }
        self.next = last + 1;
    }

    /// Returns the number of blocks to read when `wanted` are needed from `first` on, and grows the
    /// window.
    pub(crate) fn plan(&mut self, first: FileBlock, wanted: u64, block_bytes: u64) -> u64 {
        let count = wanted.max(self.window);
        self.window = (self.window * 2).min(WINDOW_BYTES_MAX / block_bytes);
        self.end = first + count;
        count
    }

    /// Takes the pending window if it covers a block.
    pub(crate) fn take(&mut self, block: FileBlock) -> Option<Pending> {
        let is_among = |pending: &mut Pending| (pending.first()..pending.end()).contains(&block);
        self.pending.take_if(is_among)
    }

    /// Returns the first block and the length of the next window, if it is due.
    pub(crate) fn due(&self) -> Option<(FileBlock, u64)> {
        // The window has already been doubled for the next request.
        let is_due =
            self.window > 0 && self.end.get() > 0 && self.next + self.window / 4 >= self.end;
        (is_due && self.pending.is_none()).then_some((self.end, self.window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(ahead: &mut ReadAhead, block: u64) {
        ahead.note(FileBlock::new(block), FileBlock::new(block), 4096);
    }

    fn plan(ahead: &mut ReadAhead, first: u64, wanted: u64) -> u64 {
        ahead.plan(FileBlock::new(first), wanted, 4096)
    }

    #[test]
    fn the_window_doubles_and_closes() {
        let mut ahead = ReadAhead::default();
        note(&mut ahead, 0);
        assert_eq!(plan(&mut ahead, 0, 1), 4);
        assert_eq!(ahead.due(), None, "three blocks are still unused");
        note(&mut ahead, 1);
        assert_eq!(ahead.due(), Some((FileBlock::new(4), 8)));
        assert_eq!(plan(&mut ahead, 4, 8), 8);
        assert_eq!(plan(&mut ahead, 12, 8), 16);
        assert_eq!(plan(&mut ahead, 20, 1), 32);
        assert_eq!(plan(&mut ahead, 52, 1), 32);
        note(&mut ahead, 1000);
        assert_eq!(plan(&mut ahead, 1000, 1), 1);
        assert_eq!(ahead.due(), None);
    }
}
