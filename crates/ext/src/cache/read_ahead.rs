//! The patterns of reads, and the readahead windows after them.

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

/// Number of readers without an open file that an inode tells apart.
const STREAMS: usize = 4;
/// Maximum number of pending windows of an inode.
const PENDING_MAX: usize = 8;

/// The pattern of a reader's reads: of an open file, or of a stream of an inode.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReadAhead {
    /// The block after the last read.
    next: FileBlock,
    /// Number of blocks to read ahead; 0 while reads are not sequential.
    window: u64,
    /// The block after the last requested one.
    pub(crate) end: FileBlock,
}

impl ReadAhead {
    /// Returns true if a read from this block on continues the last one.
    fn is_followed_by(&self, first: FileBlock) -> bool {
        first == self.next || first + 1 == self.next
    }

    /// Notes the start of a read of these blocks, both ends included.
    pub(crate) fn note(&mut self, first: FileBlock, last: FileBlock, block_bytes: u64) {
        if !self.is_followed_by(first) {
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

    /// Returns the first block and the length of the next window, if it is due.
    pub(crate) fn due(&self) -> Option<(FileBlock, u64)> {
        // The next window is twice the one being used up.
        let is_due =
            self.window > 0 && self.end.get() > 0 && self.next + self.window / 4 >= self.end;
        is_due.then_some((self.end, self.window))
    }
}

/// The patterns of reads without an open file, as of a network or FUSE server: a read belongs to
/// the stream that it continues, or else replaces the oldest one.
#[derive(Default)]
pub(crate) struct Streams {
    all: [ReadAhead; STREAMS],
    /// The stream that is replaced next.
    oldest: usize,
}

impl Streams {
    /// Notes the start of a read of these blocks, both ends included. Returns its stream.
    pub(crate) fn note(&mut self, first: FileBlock, last: FileBlock, block_bytes: u64) -> usize {
        let found = self.all.iter().position(|one| one.is_followed_by(first));
        let index = found.unwrap_or(self.oldest);
        if found.is_none() {
            self.oldest = (self.oldest + 1) % STREAMS;
        }
        self.all[index].note(first, last, block_bytes);
        index
    }

    /// Returns a stream.
    pub(crate) fn get_mut(&mut self, index: usize) -> &mut ReadAhead {
        &mut self.all[index]
    }
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

    fn covers(&self, block: FileBlock) -> bool {
        (self.first()..self.end()).contains(&block)
    }
}

/// The pending windows of a file, oldest first.
#[derive(Default)]
pub(crate) struct Windows(Vec<Pending>);

impl Windows {
    /// Returns true if no window is pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the window that covers a block, if one does.
    pub(crate) fn take(&mut self, block: FileBlock) -> Option<Pending> {
        let index = self.0.iter().position(|pending| pending.covers(block))?;
        Some(self.0.remove(index))
    }

    /// Takes all windows.
    pub(crate) fn take_all(&mut self) -> Vec<Pending> {
        core::mem::take(&mut self.0)
    }

    /// Adds a window. Returns the oldest one if there are too many: it may have no
    /// reader any more.
    pub(crate) fn add(&mut self, pending: Pending) -> Option<Pending> {
        self.0.push(pending);
        (self.0.len() > PENDING_MAX).then(|| self.0.remove(0))
    }

    /// Returns true if a window ends at a block.
    pub(crate) fn has_end(&self, end: FileBlock) -> bool {
        self.0.iter().any(|pending| pending.end() == end)
    }

    /// Returns the end of the window that covers a block, if one does.
    pub(crate) fn end_over(&self, block: FileBlock) -> Option<FileBlock> {
        let found = self.0.iter().find(|pending| pending.covers(block));
        found.map(Pending::end)
    }

    /// Returns the number of consecutive blocks that no window covers, at most `count_max`.
    pub(crate) fn clear_of(&self, first: FileBlock, count_max: u64) -> u64 {
        let behind = self.0.iter().filter(|pending| pending.end() > first);
        let until = behind.map(|pending| pending.first().get().saturating_sub(first.get()));
        until.min().map_or(count_max, |until| until.min(count_max))
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

    #[test]
    fn a_read_belongs_to_the_stream_that_it_continues() {
        let mut streams = Streams::default();
        let mut note = |block| {
            let block = FileBlock::new(block);
            streams.note(block, block, 4096)
        };
        let first = [100, 200, 300, 400].map(&mut note);
        assert_eq!([101, 201, 301, 401].map(&mut note), first);
        assert_eq!(note(500), first[0], "the oldest is replaced");
        assert_eq!(
            [202, 501, 302].map(&mut note),
            [first[1], first[0], first[2]]
        );
    }
}
