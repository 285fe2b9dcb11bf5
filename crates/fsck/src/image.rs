//! The image under check: bytes in memory, or a device that is read a page at a time and never
//! written.
//!
//! A page is 4096 bytes, or one block if that is larger. The most recent pages are kept in a
//! direct-mapped cache. Pages that are certainly needed (bitmaps, inode tables) are read in
//! batches, the others on demand. A device in memory returns its pages by reference, without a
//! copy.

use std::ops::{Deref, Range};
use std::sync::Arc;

use block::{BlockDevice, DeviceError, Outcome, Request};
use layout::{Block, SectorNr};

use crate::error::Error;

/// Size of a page in bytes, unless blocks are larger.
const PAGE_BYTES: usize = 4096;
/// Size of the cache in bytes: 4096 pages of the usual size.
const CACHE_BYTES_MAX: usize = 16 << 20;
/// Maximum size of one read in bytes.
const READ_BYTES_MAX: u64 = 1 << 20;

/// A page and its number.
type Slot = Option<(u64, Arc<Block>)>;

/// The source of the bytes.
enum Source<'a> {
    Bytes(&'a [u8]),
    Device {
        device: &'a dyn BlockDevice,
        /// Cache slots, a power of two of them.
        slots: Vec<Slot>,
    },
}

/// An image.
pub(crate) struct Image<'a> {
    source: Source<'a>,
    size_bytes: u64,
    page_bytes: usize,
}

/// A byte range of an image.
pub(crate) enum Bytes<'a> {
    Slice(&'a [u8]),
    Shared {
        page: Arc<Block>,
        range: Range<usize>,
    },
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Slice(bytes) => bytes,
            Self::Shared { page, range } => &page[range.clone()],
        }
    }
}

impl<'a> Image<'a> {
    pub(crate) fn of_bytes(bytes: &'a [u8]) -> Self {
        Self {
            size_bytes: bytes.len() as u64,
            source: Source::Bytes(bytes),
            page_bytes: PAGE_BYTES,
        }
    }

    pub(crate) fn of_device(device: &'a dyn BlockDevice) -> Self {
        let mut image = Self {
            size_bytes: device.geometry().size_bytes,
            source: Source::Device {
                device,
                slots: Vec::new(),
            },
            page_bytes: PAGE_BYTES,
        };
        image.drop_pages();
        image
    }

    /// Returns the size of the image in bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the number of whole blocks of a size.
    pub(crate) fn block_count(&self, block_bytes: usize) -> u64 {
        self.size_bytes / block_bytes as u64
    }

    /// Sets the block size, so that each block lies in one page.
    pub(crate) fn set_block_bytes(&mut self, block_bytes: usize) {
        let page_bytes = block_bytes.max(PAGE_BYTES);
        if page_bytes != self.page_bytes {
            self.page_bytes = page_bytes;
            self.drop_pages();
        }
    }

    /// Returns bytes that lie in one page.
    ///
    /// # Errors
    /// - The error of the device; beyond its end it is [`DeviceError::OutOfRange`].
    #[inline]
    pub(crate) fn bytes(&mut self, offset: u64, length: usize) -> Result<Bytes<'a>, Error> {
        match &mut self.source {
            Source::Bytes(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let found = bytes.get(start..start.saturating_add(length));
                found.map(Bytes::Slice).ok_or_else(|| out_of_range(offset))
            }
            Source::Device { .. } => {
                let page_bytes = self.page_bytes as u64;
                let start = (offset % page_bytes) as usize;
                let page = self.page(offset / page_bytes)?;
                if start + length > page.len() {
                    return Err(out_of_range(offset));
                }
                Ok(Bytes::Shared {
                    page,
                    range: start..start + length,
                })
            }
        }
    }

    /// Returns the maximum number of bytes worth a prefetch: later pages must not evict earlier
    /// ones.
    pub(crate) fn prefetch_bytes_max(&self) -> u64 {
        CACHE_BYTES_MAX as u64 / 2
    }

    /// Returns the first part of a byte range that may contain nonzero bytes.
    pub(crate) fn next_data(&self, range: Range<u64>) -> Range<u64> {
        match &self.source {
            Source::Bytes(_) => range,
            Source::Device { device, .. } => device.next_data(range),
        }
    }

    /// Reads byte ranges, given as offset and length, in one batch, so that [`Image::bytes`] finds
    /// them in the cache. Bytes beyond the end are skipped.
    pub(crate) fn prefetch(&mut self, runs: &[(u64, u64)]) -> Result<(), Error> {
        if matches!(self.source, Source::Bytes(_)) {
            return Ok(());
        }
        let page_bytes = self.page_bytes as u64;
        let whole_pages = self.size_bytes / page_bytes;
        let mut left = self.prefetch_bytes_max() / page_bytes;
        let mut wanted: Vec<Range<u64>> = Vec::with_capacity(runs.len());
        for (offset, length) in runs {
            let end = offset.saturating_add(*length).div_ceil(page_bytes);
            let (mut first, end) = (offset / page_bytes, end.min(whole_pages));
            if let Some(run) = wanted.last().filter(|run| run.contains(&first)) {
                first = run.end;
            }
            while first < end && self.held_page(first).is_some() {
                first += 1;
            }
            if first >= end || end - first > left {
                continue;
            }
            left -= end - first;
            match wanted.last_mut() {
                Some(run) if run.end == first => run.end = end,
                _ => wanted.push(first..end),
            }
        }
        self.fetch(&wanted)
    }

    fn page(&mut self, number: u64) -> Result<Arc<Block>, Error> {
        if let Some(page) = self.held_page(number) {
            return Ok(page);
        }
        let offset = number * self.page_bytes as u64;
        if offset + self.page_bytes as u64 <= self.size_bytes {
            self.fetch(std::slice::from_ref(&(number..number + 1)))?;
        } else {
            self.fetch_last(number, offset)?;
        }
        self.held_page(number).ok_or_else(|| out_of_range(offset))
    }

    #[inline]
    fn held_page(&self, number: u64) -> Option<Arc<Block>> {
        let Source::Device { slots, .. } = &self.source else {
            return None;
        };
        match &slots[slot_of(number, slots.len())] {
            Some((held, page)) if *held == number => Some(Arc::clone(page)),
            _ => None,
        }
    }

    /// Reads whole pages in one batch.
    fn fetch(&mut self, runs: &[Range<u64>]) -> Result<(), Error> {
        let Source::Device { device, .. } = &self.source else {
            return Ok(());
        };
        let device = *device;
        let step = (READ_BYTES_MAX / self.page_bytes as u64).max(1);
        let mut starts = Vec::with_capacity(runs.len());
        let mut batch = Vec::with_capacity(runs.len());
        for run in runs {
            for first in run.clone().step_by(step as usize) {
                let blocks = step.min(run.end - first) as u32;
                starts.push(first);
                batch.push(Request::Read {
                    sector: SectorNr::from_byte_offset(first * self.page_bytes as u64),
                    blocks,
                    block_bytes: self.page_bytes as u32,
                });
            }
        }
        for (first, result) in starts.into_iter().zip(device.submit(batch).wait()) {
            let Outcome::Read(pages) = result? else {
                return Err(DeviceError::Gone.into());
            };
            for (number, page) in (first..).zip(pages) {
                self.hold(number, page);
            }
        }
        Ok(())
    }

    /// Reads the existing part of the last page, if the device ends inside it.
    fn fetch_last(&mut self, number: u64, offset: u64) -> Result<(), Error> {
        let length = self.size_bytes.saturating_sub(offset);
        let Source::Device { device, .. } = &self.source else {
            return Ok(());
        };
        if length < SectorNr::SIZE {
            return Err(out_of_range(offset));
        }
        let length = (length - length % SectorNr::SIZE) as u32;
        let page = device.read_block(offset, length)?;
        self.hold(number, page);
        Ok(())
    }

    fn hold(&mut self, number: u64, page: Arc<Block>) {
        if let Source::Device { slots, .. } = &mut self.source {
            let slot = slot_of(number, slots.len());
            slots[slot] = Some((number, page));
        }
    }

    fn drop_pages(&mut self) {
        let there_are = self.size_bytes.div_ceil(self.page_bytes as u64).max(1);
        let most = (CACHE_BYTES_MAX / self.page_bytes) as u64;
        let count = there_are.next_power_of_two().min(most) as usize;
        if let Source::Device { slots, .. } = &mut self.source {
            *slots = vec![None; count];
        }
    }
}

/// Returns the slot of a page. Bitmaps of groups are equidistant, often by a power of two; mixing
/// in the upper bits separates them.
#[inline]
fn slot_of(number: u64, count: usize) -> usize {
    (number ^ (number >> 12)) as usize & (count - 1)
}

fn out_of_range(offset: u64) -> Error {
    Error::Device(DeviceError::OutOfRange {
        sector: SectorNr::new(offset / SectorNr::SIZE),
        sectors: 1,
    })
}
