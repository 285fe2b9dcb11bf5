//! A slice: part of a device used as a device, such as a journal on a shared disk.

use core::ops::Range;
use std::io::ErrorKind;
use std::sync::Arc;

use layout::{Block, SectorNr};

use crate::device::{BlockDevice, Geometry, Request};
use crate::error::DeviceError;
use crate::forward::forward;
use crate::ticket::{DetachedErrors, Ticket};

/// The bytes `from..to` of a device.
pub struct SliceDevice {
    inner: Arc<dyn BlockDevice>,
    geometry: Geometry,
    first: SectorNr,
    name: String,
    detached: Arc<DetachedErrors>,
}

impl SliceDevice {
    /// Creates a device of the bytes `from..to` of `inner`.
    ///
    /// # Errors
    /// - [`DeviceError::Open`] if the bounds are not ascending sector offsets within the device.
    pub fn new(inner: Arc<dyn BlockDevice>, from: u64, to: u64) -> Result<Self, DeviceError> {
        let mut geometry = inner.geometry();
        let name = format!("slice({},{from}..{to})", inner.name());
        let refuse = |cause: String| {
            Err(DeviceError::Open {
                device: name.clone(),
                kind: ErrorKind::InvalidInput,
                cause,
            })
        };
        let unit = u64::from(geometry.sector_bytes);
        if !from.is_multiple_of(unit) || !to.is_multiple_of(unit) {
            return refuse(format!(
                "a slice begins and ends at sectors of {unit} bytes"
            ));
        }
        if from >= to {
            return refuse("a slice ends after its beginning".to_owned());
        }
        if to > geometry.size_bytes {
            return refuse(format!("the device ends at {} bytes", geometry.size_bytes));
        }
        geometry.size_bytes = to - from;
        let first = SectorNr::from_byte_offset(from);
        Ok(Self {
            inner,
            geometry,
            first,
            name,
            detached: Arc::default(),
        })
    }

    fn shift(&self, request: Request) -> Request {
        let shifted = |sector: SectorNr| self.first + sector.get();
        match request {
            Request::Read {
                sector,
                blocks,
                block_bytes,
            } => Request::Read {
                sector: shifted(sector),
                blocks,
                block_bytes,
            },
            Request::Write {
                sector,
                payload,
                force_unit_access,
            } => Request::Write {
                sector: shifted(sector),
                payload,
                force_unit_access,
            },
            Request::Flush => Request::Flush,
            Request::Discard { sector, sectors } => Request::Discard {
                sector: shifted(sector),
                sectors,
            },
        }
    }
}

impl SliceDevice {
    fn shift_ranges(&self, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let offset = self.first.byte_offset();
        let shifted = ranges
            .iter()
            .map(|range| range.start + offset..range.end + offset);
        shifted.collect()
    }
}

impl BlockDevice for SliceDevice {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        forward(&*self.inner, &self.detached, batch, |request| {
            self.geometry.check(&request).map_err(Err)?;
            Ok(self.shift(request))
        })
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn reserve(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        self.inner.reserve(&self.shift_ranges(ranges))
    }

    fn next_data(&self, range: Range<u64>) -> Range<u64> {
        let offset = self.first.byte_offset();
        let data = self
            .inner
            .next_data(range.start + offset..range.end + offset);
        data.start - offset..data.end - offset
    }

    fn zero(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        let mut ends = ranges.iter().map(|range| (range.start, range.end));
        if let Some((start, end)) = ends.find(|(_, end)| *end > self.geometry.size_bytes) {
            return Err(DeviceError::OutOfRange {
                sector: SectorNr::from_byte_offset(start),
                sectors: (end - start) / SectorNr::SIZE,
            });
        }
        self.inner.zero(&self.shift_ranges(ranges))
    }

    fn intruder(&self) -> Option<String> {
        self.inner.intruder()
    }

    fn read_fresh(&self, byte_offset: u64, block_bytes: u32) -> Result<Arc<Block>, DeviceError> {
        self.inner
            .read_fresh(byte_offset + self.first.byte_offset(), block_bytes)
    }

    fn drop_cached(&self) {
        self.inner.drop_cached();
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.detached
            .take()
            .or_else(|| self.inner.take_detached_error())
    }
}

#[cfg(test)]
mod tests {
    use layout::Block;

    use super::*;
    use crate::memory::MemoryDevice;

    #[test]
    fn a_slice_shifts_and_ends_where_it_ends() {
        let disk = Arc::new(MemoryDevice::new(64 * 1024));
        let slice = SliceDevice::new(Arc::clone(&disk) as _, 4096, 8192).expect("it lies inside");
        let device: &dyn BlockDevice = &slice;
        let mut block = Block::zeroed(512);
        block[0] = 7;
        device
            .write_blocks(512, vec![block.into_arc()])
            .expect("memory does not fail");
        assert_eq!(disk.to_bytes()[4096 + 512], 7);
        assert_eq!(
            device.read_block(512, 512).expect("memory does not fail")[0],
            7
        );
        let beyond = device.read_block(4096, 512);
        assert_eq!(
            beyond,
            Err(DeviceError::OutOfRange {
                sector: SectorNr::new(8),
                sectors: 1
            })
        );
    }

    #[test]
    fn bad_borders_are_refused() {
        for (from, to) in [(100, 4096), (4096, 4096), (8192, 4096), (0, 128 * 1024)] {
            let disk = Arc::new(MemoryDevice::new(64 * 1024));
            assert!(SliceDevice::new(disk, from, to).is_err(), "{from}..{to}");
        }
    }
}
