//! The pages of one file, behind their leaf lock.

mod delayed;
mod dirty_folios;
mod past_cache;
mod which;

use std::sync::Arc;

use block::DeviceError;
use layout::{Block, BlockNr, FileBlock, InodeNr, Tid};
use rt::{Condvar, Mutex, MutexGuard, Nanos};

use super::flushes::Flushes;
use super::folio::{Backing, FOLIO_PAGES, Folios, Slot};
use super::page_counts::PageCounts;
use super::read_ahead::{Streams, Windows};
pub(crate) use delayed::Delayed;
use delayed::Dropped;
use dirty_folios::DirtyFolios;
use past_cache::PastCache;
pub(crate) use which::Which;

/// The pages of one file.
pub(crate) struct FilePages {
    inner: Mutex<Inner>,
    /// Notified when a write completes, and when one is submitted that any thread may complete.
    written: Condvar,
}

/// The state that the leaf lock protects.
#[derive(Default)]
pub(crate) struct Inner {
    /// The file's number.
    nr: InodeNr,
    folios: Folios,
    dirty_folios: DirtyFolios,
    /// Number of pages with an image: at most the blocks of a file, which have 32-bit numbers.
    resident: u32,
    /// Number of dirty pages.
    dirty: u64,
    /// Pages without a block, and the blocks claimed for them.
    delayed: Delayed,
    /// Writeback batches in flight, oldest first.
    batches: Vec<u64>,
    next_batch: u64,
    /// The key in the dirty list. // Invariant: present while a page is dirty or in flight.
    pub(crate) listed: Option<Nanos>,
    /// The newest transaction with the file in its ordered set.
    pub(crate) ordered_in: Option<Tid>,
    /// Number of failed writes so far, and the last cause.
    errors: u64,
    last_error: Option<DeviceError>,
    /// The moment after the last write completed, as [`Flushes`] counts; 0 if there was none.
    written_at: u64,
    /// Readers without an open file; none for most inodes of a program that opens its files.
    streams: Option<Box<Streams>>,
    /// Windows that are read ahead.
    pub(crate) windows: Windows,
    /// Requests that a direct write must not meet.
    past_cache: PastCache,
}

/// The age of a dirty page, and the transaction that waits for it.
#[derive(Clone, Copy)]
pub(crate) struct Dirt {
    /// The transaction that must not commit before the page is written.
    pub(crate) ordered: Option<Tid>,
    /// The current time.
    pub(crate) since: Nanos,
}

impl FilePages {
    /// Creates the state of a file without pages.
    pub(crate) fn new(nr: InodeNr) -> Self {
        let inner = Inner {
            nr,
            ..Inner::default()
        };
        Self {
            inner: Mutex::new(inner),
            written: Condvar::new(),
        }
    }

    /// Returns the number of failed writes of the file's data so far.
    pub(crate) fn error_count(&self) -> u64 {
        self.inner.lock().errors
    }

    /// Returns the number of failed writes, and the last cause.
    pub(crate) fn last_error(&self) -> (u64, Option<DeviceError>) {
        let inner = self.inner.lock();
        (inner.errors, inner.last_error.clone())
    }

    /// Initializes the flush state of an inode read from the table: writes completed before its
    /// eviction may still need a flush.
    pub(crate) fn note_loaded(&self, flushes: &Flushes) {
        let mut inner = self.inner.lock();
        inner.written_at = flushes.written_by_evicted();
    }

    /// Returns true if no page is dirty, being written or being read ahead.
    pub(crate) fn is_idle(&self) -> bool {
        let inner = self.inner.lock();
        inner.dirty == 0 && inner.batches.is_empty() && inner.windows.is_empty()
    }

    /// Forgets all pages, none of which may be dirty.
    pub(crate) fn evict_all(&self, counts: &PageCounts, flushes: &Flushes) {
        let mut inner = self.inner.lock();
        assert!(
            inner.dirty == 0 && inner.batches.is_empty(),
            "only clean files are evicted"
        );
        inner.folios.remove_from(0);
        inner.set_resident(counts, 0);
        flushes.note_evicted(inner.written_at);
    }

    /// Locks the pages.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Waits until a write completes, or one is submitted that any thread may complete.
    pub(crate) fn wait(&self, inner: &mut MutexGuard<'_, Inner>) {
        self.written.wait(inner);
    }

    /// Wakes the threads that [`wait`](Self::wait).
    pub(crate) fn notify_written(&self) {
        self.written.notify_all();
    }
}

impl Inner {
    /// Returns the state of the readers without an open file.
    pub(crate) fn streams(&mut self) -> &mut Streams {
        self.streams.get_or_insert_default()
    }

    /// Returns the slot of a page, if it has one.
    pub(crate) fn slot(&self, block: FileBlock) -> Option<&Slot> {
        let (folio, place) = split(block);
        self.folios.get(folio)?.get(place)
    }

    /// Returns the image of a page and marks its folio as used.
    pub(crate) fn image(&mut self, block: FileBlock) -> Option<Arc<Block>> {
        let (folio, place) = split(block);
        let folio = self.folios.get_mut(folio)?;
        folio.is_referenced = true;
        folio.get(place)?.image.clone()
    }

    /// Copies the images of consecutive pages into `into`, up to the first absent one. Returns the
    /// number copied.
    pub(crate) fn images(&mut self, first: FileBlock, into: &mut [Option<Arc<Block>>]) -> usize {
        for (count, place) in into.iter_mut().enumerate() {
            *place = self.image(first + count as u64);
            if place.is_none() {
                return count;
            }
        }
        into.len()
    }

    /// Returns the block of a mapped page that is in memory.
    pub(crate) fn block_of(&self, block: FileBlock) -> Option<BlockNr> {
        let slot = self.slot(block)?;
        slot.image.as_ref()?;
        match slot.backing()? {
            Backing::Mapped(nr) => Some(nr),
            Backing::Delayed => None,
        }
    }

    /// Returns the number of consecutive pages that are neither in memory nor read ahead, at most
    /// `count_max`.
    pub(crate) fn absent(&self, first: FileBlock, count_max: u64) -> u64 {
        let count_max = self.windows.clear_of(first, count_max);
        let is_there = |step: &u64| {
            let slot = self.slot(first + *step);
            slot.is_some_and(|slot| slot.image.is_some())
        };
        (0..count_max).find(is_there).unwrap_or(count_max)
    }

    /// Fills an absent page with contents read from the device. A page already present is newer and
    /// stays.
    pub(crate) fn fill(
        &mut self,
        counts: &PageCounts,
        block: FileBlock,
        nr: BlockNr,
        image: &Arc<Block>,
        has_masked_tail: bool,
    ) {
        let (index, place) = split(block);
        let folio = self.folios.entry(index);
        folio.is_referenced = true;
        let slot = folio.entry(place);
        if slot.image.is_some() {
            return;
        }
        slot.image = Some(Arc::clone(image));
        slot.set_backing(Backing::Mapped(nr));
        slot.has_masked_tail = has_masked_tail;
        folio.resident += 1;
        self.set_resident(counts, self.resident + 1);
    }

    /// Changes a page: `change` gets the old image, if there is one, and returns the new one. With
    /// `dirt` the page is dirty from then on; without, its contents are safe elsewhere (in the
    /// journal). Returns the new image.
    pub(crate) fn change(
        &mut self,
        counts: &PageCounts,
        block: FileBlock,
        backing: Backing,
        dirt: Option<Dirt>,
        change: impl FnOnce(Option<Arc<Block>>) -> Arc<Block>,
    ) -> Arc<Block> {
        debug_assert!(
            self.windows.is_empty(),
            "a window that is read after the page is evicted would have the contents before the change"
        );
        let pieces = self.pieces_of(counts, block);
        let (index, place) = split(block);
        let folio = self.folios.entry(index);
        folio.is_referenced = true;
        let slot = folio.entry(place);
        let old = slot.image.take();
        let is_new = old.is_none();
        let image = change(old);
        slot.image = Some(Arc::clone(&image));
        let was_delayed = slot.is_delayed();
        slot.set_backing(backing);
        let more = i64::from(slot.is_delayed()) - i64::from(was_delayed);
        self.delayed.count(counts, more, more * pieces);
        slot.has_masked_tail = false;
        let mut newly_dirty = None;
        if let Some(dirt) = dirt {
            slot.ordered = slot.ordered.or(dirt.ordered);
            if !slot.is_dirty {
                slot.is_dirty = true;
                slot.dirty_since = dirt.since;
                newly_dirty = Some(dirt.since);
            }
        }
        if is_new {
            folio.resident += 1;
        }
        if let Some(since) = newly_dirty {
            self.dirty += 1;
            folio.dirty += 1;
            self.dirty_folios.add(index, since);
            counts.count_dirty(1);
        }
        if is_new {
            self.set_resident(counts, self.resident + 1);
        }
        image
    }

    /// Takes up to `room` dirty pages from block `from` on for writing, and passes them to `take`
    /// with the number of their writeback batch. Pages in flight are skipped and reported as busy.
    pub(crate) fn collect(
        &mut self,
        which: Which,
        from: FileBlock,
        room: usize,
        mut take: impl FnMut(u64, Taken),
    ) -> Collected {
        let mut collected = Collected::default();
        if self.dirty == self.delayed.pages() {
            return collected;
        }
        let mut changed = Vec::new();
        let mut count = 0;
        for index in self.dirty_folios.range(which.folios_from(from)) {
            let folio = self.folios.get_mut(index).expect("a dirty folio is there");
            let (mut taken, mut is_full) = (0, false);
            let first = FileBlock::new(index * FOLIO_PAGES);
            for (place, slot) in folio.slots_mut(from.get().saturating_sub(first.get())) {
                let block = first + place;
                if !slot.is_dirty || !which.wants(block, slot) {
                    continue;
                }
                let backing = slot.backing().expect("a dirty page has a backing");
                // A page without a block waits until it gets one.
                let Backing::Mapped(nr) = backing else {
                    continue;
                };
                if slot.is_in_flight {
                    collected.has_busy = true;
                } else if count >= room {
                    is_full = true;
                    collected.next = Some(block);
                    break;
                } else {
                    let page = Taken {
                        block,
                        nr,
                        image: slot.image.clone().expect("a dirty page has an image"),
                        ordered: slot.ordered,
                    };
                    take(self.next_batch, page);
                    (slot.is_dirty, slot.is_in_flight, slot.ordered) = (false, true, None);
                    taken += 1;
                    count += 1;
                }
            }
            folio.dirty -= taken;
            folio.in_flight += taken;
            self.dirty -= u64::from(taken);
            if taken > 0 {
                changed.push((index, folio.oldest_dirt()));
            }
            if is_full {
                break;
            }
        }
        for (index, oldest) in changed {
            self.dirty_folios.set(index, oldest);
        }
        if count > 0 {
            self.batches.push(self.next_batch);
            self.next_batch += 1;
        }
        collected
    }

    /// Returns the number of the next writeback batch.
    pub(crate) fn next_batch(&self) -> u64 {
        self.next_batch
    }

    /// Returns true if a writeback batch with a number below a limit is in flight.
    pub(crate) fn has_batch_before(&self, limit: u64) -> bool {
        self.batches.first().is_some_and(|batch| *batch < limit)
    }

    /// Completes a writeback batch: marks its pages clean, or dirty again if they failed. Returns
    /// true if some have.
    pub(crate) fn note_results(
        &mut self,
        counts: &PageCounts,
        batch: u64,
        written: impl Iterator<Item = Written>,
    ) -> bool {
        let (mut cleaned, mut count) = (0, 0);
        let errors = self.errors;
        for page in written {
            cleaned += i64::from(self.note_result(counts, page));
            count += 1;
        }
        counts.count_in_flight(-count);
        self.batches.retain(|other| *other != batch);
        counts.count_dirty(-cleaned);
        self.errors != errors
    }

    /// Completes the write of one page. Returns true if the page no longer counts as dirty.
    fn note_result(&mut self, counts: &PageCounts, page: Written) -> bool {
        let block = page.block;
        let index = block.get() / FOLIO_PAGES;
        let folio = self.folios.get_mut(index).expect("a page in flight stays");
        folio.in_flight -= 1;
        let slot = folio
            .get_mut(block.get() % FOLIO_PAGES)
            .expect("a page in flight stays");
        slot.is_in_flight = false;
        let Some(error) = page.error else {
            counts.count_failed(-i64::from(slot.has_failed));
            slot.has_failed = false;
            return true;
        };
        if rt::mutant!("error/failed-page-marked-clean") {
            return true;
        }
        // The transaction still must not commit before the page is written.
        if !rt::mutant!("error/ordered-pin-lost") {
            slot.ordered = page.ordered.or(slot.ordered);
        }
        self.errors += 1;
        self.last_error = Some(error);
        counts.count_failed(i64::from(!slot.has_failed));
        slot.has_failed = true;
        if slot.is_dirty {
            return true;
        }
        slot.is_dirty = true;
        let since = slot.dirty_since;
        folio.dirty += 1;
        self.dirty += 1;
        self.dirty_folios.add(index, since);
        false
    }

    /// Returns the cause of the last failed write.
    pub(crate) fn last_error(&self) -> &Option<DeviceError> {
        &self.last_error
    }

    /// Returns true if the last write of a page among these has failed, or that of any page in
    /// flight: whether it belongs to them is known again when its write has ended.
    pub(crate) fn has_failed(&mut self, which: Which) -> bool {
        let folios = which.folios_from(FileBlock::default());
        let all = self.folios.range_mut(*folios.start());
        let mut folios = all.take_while(|(index, _)| index <= folios.end());
        folios.any(|(index, folio)| {
            let first = FileBlock::new(index * FOLIO_PAGES);
            let mut slots = folio.slots_mut(0);
            slots.any(|(place, slot)| {
                slot.has_failed && (slot.is_in_flight || which.wants(first + place, slot))
            })
        })
    }

    /// Returns the time since which the oldest page is dirty, or was when the writes in flight
    /// started; none if no page is dirty or in flight.
    pub(crate) fn oldest(&self) -> Option<Nanos> {
        if self.dirty > 0 {
            self.dirty_folios.oldest()
        } else if self.batches.is_empty() {
            None
        } else {
            self.listed
        }
    }

    /// Notes that a write of data has completed.
    pub(crate) fn note_written(&mut self, flushes: &Flushes) {
        self.written_at = flushes.note_written();
    }

    /// Returns true unless data may still be in the device's cache.
    pub(crate) fn is_flushed(&self, flushes: &Flushes) -> bool {
        flushes.covers(self.written_at)
    }

    /// Returns true if pages are dirty, at most as many as given, and the file is in the ordered
    /// set of a transaction.
    pub(crate) fn waits_for(&self, tid: Tid, pages_max: u64) -> bool {
        self.ordered_in == Some(tid) && (1..=pages_max).contains(&self.dirty)
    }

    /// Returns the block after the last folio with dirty pages.
    pub(crate) fn dirty_end(&self) -> FileBlock {
        let last = self.dirty_folios.last();
        FileBlock::new(last.map_or(0, |index| (index + 1) * FOLIO_PAGES))
    }

    /// Returns true if a page at or after a block is in flight.
    pub(crate) fn is_busy(&mut self, from: FileBlock) -> bool {
        let from = from.get();
        !self.batches.is_empty()
            && self
                .folios
                .range_mut(from / FOLIO_PAGES)
                .any(|(index, folio)| {
                    folio.in_flight > 0
                        && folio.slots_mut(0).any(|(place, slot)| {
                            slot.is_in_flight && index * FOLIO_PAGES + place >= from
                        })
                })
    }

    /// Drops the pages from a block on, up to a block or to the end; none may be in flight. `keep`
    /// is called with the dirty ones. Returns the number of claimed blocks that they no longer
    /// need.
    #[must_use = "claimed blocks are given back"]
    pub(crate) fn drop_range(
        &mut self,
        counts: &PageCounts,
        from: FileBlock,
        to: Option<FileBlock>,
        keep: impl Fn(&Slot),
    ) -> u64 {
        let from = from.get();
        let end = to.map_or(u64::MAX, FileBlock::get);
        let (mut resident, mut dirty, mut failed) = (0, 0, 0);
        let mut dropped = Dropped::new(self, from);
        for (index, folio) in self.folios.range_mut(from / FOLIO_PAGES) {
            let first = index * FOLIO_PAGES;
            if first >= end {
                break;
            }
            let mut folio_dirty = 0;
            let mut folio_resident = 0;
            for (place, slot) in folio.slots_mut(from.saturating_sub(first)) {
                if first + place >= end {
                    break;
                }
                assert!(
                    !slot.is_in_flight,
                    "pages in flight are waited for before they are dropped"
                );
                let slot = std::mem::take(slot);
                folio_resident += u8::from(slot.image.is_some());
                folio_dirty += u8::from(slot.is_dirty);
                failed += i64::from(slot.has_failed);
                dropped.note(counts, first + place, slot.is_delayed());
                if slot.is_dirty {
                    keep(&slot);
                }
            }
            folio.resident -= folio_resident;
            folio.dirty -= folio_dirty;
            resident += u32::from(folio_resident);
            dirty += i64::from(folio_dirty);
            if folio_dirty > 0 {
                self.dirty_folios.set(index, folio.oldest_dirt());
            }
        }
        if to.is_none() {
            self.folios.remove_from(from.div_ceil(FOLIO_PAGES));
            if let Some(folio) = self.folios.get_mut(from / FOLIO_PAGES) {
                folio.truncate(from % FOLIO_PAGES);
            }
        }
        self.set_resident(counts, self.resident - resident);
        self.dirty -= dirty as u64;
        counts.count_dirty(-dirty);
        counts.count_failed(-failed);
        dropped.end(counts, self, end)
    }

    /// Evicts clean folios not used since the last sweep, looking at up to `steps` folios from a
    /// folio on. Returns the number of evicted pages, and the folio at which to continue (`None` at
    /// the end).
    pub(crate) fn sweep(
        &mut self,
        counts: &PageCounts,
        from: u64,
        steps: usize,
    ) -> (u32, Option<u64>) {
        let mut evicted = Vec::new();
        let mut next = None;
        let mut count = 0;
        for (step, (index, folio)) in self.folios.range_mut(from).enumerate() {
            if step == steps {
                next = Some(index);
                break;
            }
            if folio.is_referenced {
                folio.is_referenced = false;
            } else if folio.is_clean() && folio.resident > 0 {
                count += u32::from(folio.resident);
                evicted.push(index);
            }
        }
        for index in evicted {
            self.folios.remove(index);
        }
        self.set_resident(counts, self.resident - count);
        (count, next)
    }

    fn set_resident(&mut self, counts: &PageCounts, resident: u32) {
        counts.count_resident(self.nr, self.resident, resident);
        self.resident = resident;
    }
}

/// Returns the folio of a page and its place there.
fn split(block: FileBlock) -> (u64, u64) {
    (block.get() / FOLIO_PAGES, block.get() % FOLIO_PAGES)
}

/// The outcome of a collection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Collected {
    /// The first block left out for lack of room.
    pub(crate) next: Option<FileBlock>,
    /// True if some pages were dirty again while an earlier write of them was in flight.
    pub(crate) has_busy: bool,
}

/// A page taken for writing.
pub(crate) struct Taken {
    pub(crate) block: FileBlock,
    /// Its block on the device.
    pub(crate) nr: BlockNr,
    pub(crate) image: Arc<Block>,
    /// The transaction that must not commit before the page is written.
    pub(crate) ordered: Option<Tid>,
}

/// A page whose write has completed.
pub(crate) struct Written {
    pub(crate) block: FileBlock,
    /// The transaction that must not commit before the page is written.
    pub(crate) ordered: Option<Tid>,
    pub(crate) error: Option<DeviceError>,
}
