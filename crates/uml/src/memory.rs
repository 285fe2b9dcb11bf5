//! [`GuestMemory`]: the memory of a guest, as far as it is shared with its disks.
//!
//! The kernel passes one file descriptor for each region. Bytes are read and written through it
//! (`pread`, `pwrite`), and not through a mapping: a guest that truncates its memory causes an
//! error, no signal.

use std::os::fd::OwnedFd;

use rustix::io::{Errno, pread, pwrite};

use crate::GuestError;

/// A region of the guest's memory.
#[derive(Debug)]
pub struct Region {
    /// Address in the guest.
    pub guest_address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Offset of the region in the file.
    pub file_offset: u64,
    /// The file.
    pub file: OwnedFd,
}

/// The shared memory of a guest.
#[derive(Debug, Default)]
pub struct GuestMemory {
    regions: Vec<Region>,
}

impl GuestMemory {
    /// Creates memory of regions.
    #[must_use]
    pub fn new(regions: Vec<Region>) -> Self {
        Self { regions }
    }

    /// Reads bytes at an address.
    ///
    /// # Errors
    /// Fails if a byte is not in a region.
    pub fn read(&self, address: u64, mut buffer: &mut [u8]) -> Result<(), GuestError> {
        let (region, mut offset) = self.find(address, buffer.len())?;
        while !buffer.is_empty() {
            match pread(&region.file, &mut *buffer, offset) {
                Ok(0) => return Err(lost(address)),
                Ok(count) => {
                    buffer = &mut buffer[count..];
                    offset += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(GuestError::at("the guest's memory")(error)),
            }
        }
        Ok(())
    }

    /// Writes bytes at an address.
    ///
    /// # Errors
    /// Fails if a byte is not in a region.
    pub fn write(&self, address: u64, mut bytes: &[u8]) -> Result<(), GuestError> {
        let (region, mut offset) = self.find(address, bytes.len())?;
        while !bytes.is_empty() {
            match pwrite(&region.file, bytes, offset) {
                Ok(0) => return Err(lost(address)),
                Ok(count) => {
                    bytes = &bytes[count..];
                    offset += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(GuestError::at("the guest's memory")(error)),
            }
        }
        Ok(())
    }

    /// Returns the region of a range, and the range's offset in the region's file.
    fn find(&self, address: u64, bytes: usize) -> Result<(&Region, u64), GuestError> {
        let end = address.checked_add(bytes as u64);
        let holds = |region: &&Region| {
            let region_end = region.guest_address.checked_add(region.bytes);
            address >= region.guest_address && end.is_some_and(|end| Some(end) <= region_end)
        };
        let found = self.regions.iter().find(holds).and_then(|region| {
            let offset = address - region.guest_address;
            Some((region, region.file_offset.checked_add(offset)?))
        });
        found.ok_or_else(|| lost(address))
    }
}

fn lost(address: u64) -> GuestError {
    GuestError::Protocol(format!("an address outside its memory ({address:#x})"))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;

    /// Returns memory of zeroes at an address.
    pub(crate) fn zeroes(guest_address: u64, bytes: usize) -> GuestMemory {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&vec![0; bytes + 512]).expect("space");
        GuestMemory::new(vec![Region {
            guest_address,
            bytes: bytes as u64,
            file_offset: 512,
            file: file.into(),
        }])
    }

    #[test]
    fn bytes_are_read_where_they_were_written() {
        let memory = zeroes(0x1000, 0x2000);
        memory.write(0x1ffe, b"abcd").expect("inside");
        let mut buffer = [0; 4];
        memory.read(0x1fff, &mut buffer).expect("inside");
        assert_eq!(&buffer, b"bcd\0");
    }

    #[test]
    fn addresses_outside_are_refused() {
        let memory = zeroes(0x1000, 0x1000);
        for (address, bytes) in [(0xfff, 1), (0x1fff, 2), (0x2000, 1), (u64::MAX, 2)] {
            let read = memory.read(address, &mut vec![0; bytes]);
            assert!(read.is_err(), "{address:#x}");
            assert!(memory.write(address, &vec![0; bytes]).is_err());
        }
    }
}
