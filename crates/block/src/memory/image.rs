//! The contents of a memory device as bytes and as an image file, for external tools.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use layout::{Block, SectorNr};

use super::MemoryDevice;
use super::pages::{PAGE_BYTES, Page};

/// Number of bytes of a file read at a time.
const READ_BYTES: usize = 1 << 20;

impl MemoryDevice {
    /// Creates a device with a copy of `bytes`. Pages of zeroes become holes.
    ///
    /// # Panics
    /// Panics if the length is not a multiple of 512 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        assert!(
            (bytes.len() as u64).is_multiple_of(SectorNr::SIZE),
            "a device has whole sectors"
        );
        let device = Self::new(bytes.len() as u64);
        device.fill(0, bytes);
        device
    }

    /// Returns the whole contents.
    pub fn to_bytes(&self) -> Vec<u8> {
        let size = usize::try_from(self.geometry.size_bytes).expect("the device fits into memory");
        let mut bytes = vec![0; size];
        self.for_each_page(|offset, page| {
            let start = usize::try_from(offset).expect("the device fits into memory");
            let length = PAGE_BYTES.min(size - start);
            bytes[start..start + length].copy_from_slice(&page.bytes()[..length]);
            Ok(())
        })
        .expect("copying to memory does not fail");
        bytes
    }

    /// Writes the contents to a file, which is replaced if it exists. Holes stay holes.
    ///
    /// # Errors
    /// Returns the errors of the system.
    pub fn write_to_file(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let mut file = File::create(path)?;
        let size = self.geometry.size_bytes;
        file.set_len(size)?;
        self.for_each_page(|offset, page| {
            let length = (PAGE_BYTES as u64).min(size - offset) as usize;
            file.write_all_at(&page.bytes()[..length], offset)
        })?;
        file.flush()
    }

    /// Creates a device with the contents of a file. The size is rounded down to whole sectors;
    /// pages of zeroes become holes.
    ///
    /// # Errors
    /// Returns the errors of the system.
    pub fn load_from_file(path: impl AsRef<Path>) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let device = Self::new(file.metadata()?.len());
        let size = device.geometry.size_bytes;
        let mut buffer = vec![0; READ_BYTES];
        let mut at = 0;
        while at < size {
            let length = (READ_BYTES as u64).min(size - at) as usize;
            file.read_exact(&mut buffer[..length])?;
            device.fill(at, &buffer[..length]);
            at += length as u64;
        }
        Ok(device)
    }

    /// Returns the memory that the contents take in bytes, without holes.
    pub fn populated_bytes(&self) -> u64 {
        let mut bytes = 0;
        self.for_each_page(|_, _| {
            bytes += PAGE_BYTES as u64;
            Ok(())
        })
        .expect("counting does not fail");
        bytes
    }

    /// Returns the first sector in which the contents differ from those of another device, if any.
    /// Shared pages are skipped, so that a device and its snapshot compare fast.
    ///
    /// # Panics
    /// Panics if the sizes differ.
    pub fn first_difference(&self, other: &Self) -> Option<SectorNr> {
        let size = self.geometry.size_bytes;
        assert_eq!(
            size, other.geometry.size_bytes,
            "devices of one size are compared"
        );
        let zero = Page {
            block: Arc::clone(&self.zero_page),
            offset: 0,
        };
        let count = size.div_ceil(PAGE_BYTES as u64);
        let step = super::REGION_PAGES as u64;
        (0..count).step_by(step as usize).find_map(|first| {
            let region = first / step;
            let (own, others) = (self.region_of(region), other.region_of(region));
            match (&own, &others) {
                (None, None) => return None,
                (Some(own), Some(others)) if Arc::ptr_eq(own, others) => return None,
                _ => {}
            }
            (0..super::REGION_PAGES).find_map(|index| {
                let page = own
                    .as_ref()
                    .and_then(|region| region[index].as_ref())
                    .unwrap_or(&zero);
                let twin = others
                    .as_ref()
                    .and_then(|region| region[index].as_ref())
                    .unwrap_or(&zero);
                let page_start = (first + index as u64) * PAGE_BYTES as u64;
                difference(page, twin)
                    .map(|within| SectorNr::new((page_start + within as u64) / SectorNr::SIZE))
            })
        })
    }

    fn region_of(&self, number: u64) -> Option<Arc<super::pages::Region>> {
        self.shard(number).lock().get(&number).cloned()
    }

    /// Writes bytes, leaving holes where whole pages are zero.
    fn fill(&self, offset: u64, bytes: &[u8]) {
        for (index, page) in bytes.chunks(PAGE_BYTES).enumerate() {
            if page.iter().any(|byte| *byte != 0) {
                let block = Block::copy_from(page).into_arc();
                self.write(offset + (index * PAGE_BYTES) as u64, &[block]);
            }
        }
    }

    /// Calls a function with the byte offset of each present page, in ascending order.
    fn for_each_page(&self, mut visit: impl FnMut(u64, &Page) -> io::Result<()>) -> io::Result<()> {
        let mut numbers: Vec<u64> = self
            .shards
            .iter()
            .flat_map(|shard| shard.lock().keys().copied().collect::<Vec<_>>())
            .collect();
        numbers.sort_unstable();
        for number in numbers {
            let Some(region) = self.region_of(number) else {
                continue;
            };
            for (index, page) in region.iter().enumerate() {
                if let Some(page) = page {
                    visit(
                        number * super::REGION_BYTES + (index * PAGE_BYTES) as u64,
                        page,
                    )?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the first byte offset at which two pages differ.
fn difference(page: &Page, twin: &Page) -> Option<usize> {
    if Arc::ptr_eq(&page.block, &twin.block) && page.offset == twin.offset {
        return None;
    }
    page.bytes()
        .iter()
        .zip(twin.bytes())
        .position(|(left, right)| left != right)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(length: usize) -> Vec<u8> {
        (0..length)
            .map(|index| {
                if index / 8192 % 2 == 0 {
                    0
                } else {
                    index as u8
                }
            })
            .collect()
    }

    #[test]
    fn bytes_survive_a_round_trip_and_zeroes_take_no_memory() {
        for length in [0, 512, 4096, 40_960, 1 << 20, (1 << 20) + 1536] {
            let bytes = pattern(length);
            let device = MemoryDevice::from_bytes(&bytes);
            assert_eq!(device.to_bytes(), bytes);
            assert!(device.populated_bytes() <= (length as u64).div_ceil(2) + 8192);
        }
    }

    #[test]
    fn files_survive_a_round_trip() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("image");
        let bytes = pattern((3 << 20) + 1536);
        MemoryDevice::from_bytes(&bytes)
            .write_to_file(&path)
            .expect("the folder is writable");
        assert_eq!(std::fs::read(&path).expect("it was written"), bytes);
        let loaded = MemoryDevice::load_from_file(&path).expect("it was written");
        assert_eq!(loaded.to_bytes(), bytes);
    }

    #[test]
    fn the_first_difference_is_found_and_snapshots_have_none() {
        let device = MemoryDevice::from_bytes(&pattern(1 << 20));
        let snapshot = device.snapshot();
        assert_eq!(device.first_difference(&snapshot), None);
        snapshot.write(512 * 77, &[Block::copy_from(&[9; 512]).into_arc()]);
        assert_eq!(device.first_difference(&snapshot), Some(SectorNr::new(77)));
        assert_eq!(snapshot.first_difference(&device), Some(SectorNr::new(77)));
        device.restore(&snapshot);
        assert_eq!(device.first_difference(&snapshot), None);
        assert_eq!(device.to_bytes()[512 * 77], 9);
    }
}
