//! Random batches, and the plain model that devices are compared with.

use std::sync::Arc;

use block::payload::{payload_from_bytes, payload_to_bytes};
use block::{BlockDevice, Outcome, Request};
use layout::SectorNr;
use testkit::Random;

/// Sizes of pieces in batches.
const PIECES: [u64; 8] = [512, 512, 1024, 1024, 1536, 4096, 8192, 65_536];

/// A device and its expected contents.
pub(crate) struct Modelled {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) bytes: Vec<u8>,
    random: Random,
}

impl Modelled {
    /// Creates a model of a device of zeroes.
    pub(crate) fn new(device: Arc<dyn BlockDevice>, seed: u64) -> Self {
        let size = device.geometry().size_bytes as usize;
        Self {
            device,
            bytes: vec![0; size],
            random: Random::new(seed),
        }
    }

    /// Returns a random range of sectors, in pieces of one size: offset, piece size, count.
    fn range(&mut self) -> (u64, u64, u64) {
        let size = self.bytes.len() as u64;
        loop {
            let piece = *self.random.pick(&PIECES);
            let count = 1 + self.random.below(6);
            let room = size.saturating_sub(piece * count) / 512;
            if room > 0 {
                // Half of the offsets are aligned to the piece, as a file system's are.
                let offset = self.random.below(room) * 512;
                let offset = if self.random.below(2) == 0 {
                    offset - offset % piece
                } else {
                    offset
                };
                return (offset, piece, count);
            }
        }
    }

    /// Submits a random batch in which nothing overlaps a write, waits, and compares the data that
    /// was read.
    pub(crate) fn step(&mut self) {
        let mut taken: Vec<(u64, u64)> = Vec::new();
        let mut batch = Vec::new();
        let mut expected = Vec::new();
        for _ in 0..1 + self.random.below(6) {
            let (offset, piece, count) = self.range();
            let end = offset + piece * count;
            if taken.iter().any(|(from, to)| offset < *to && *from < end) {
                continue;
            }
            taken.push((offset, end));
            let sector = SectorNr::from_byte_offset(offset);
            match self.random.below(8) {
                0 => {
                    batch.push(Request::Flush);
                    expected.push(None);
                }
                1..4 => {
                    let (blocks, block_bytes) = (count as u32, piece as u32);
                    batch.push(Request::Read {
                        sector,
                        blocks,
                        block_bytes,
                    });
                    expected.push(Some(self.bytes[offset as usize..end as usize].to_vec()));
                }
                kind => {
                    let bytes = self.random.bytes((piece * count) as usize);
                    let payload = payload_from_bytes(&bytes, piece as usize);
                    let force_unit_access = kind == 7;
                    batch.push(Request::Write {
                        sector,
                        payload,
                        force_unit_access,
                    });
                    expected.push(None);
                    self.bytes[offset as usize..end as usize].copy_from_slice(&bytes);
                }
            }
        }
        let name = self.device.name();
        let results = self.device.submit(batch).wait();
        assert_eq!(results.len(), expected.len());
        for (result, expected) in results.into_iter().zip(expected) {
            match (
                result.unwrap_or_else(|error| panic!("{name}: {error}")),
                expected,
            ) {
                (Outcome::Read(payload), Some(bytes)) => {
                    assert!(
                        payload_to_bytes(&payload) == bytes,
                        "{name} reads what was written"
                    );
                }
                (Outcome::Done, None) => {}
                (outcome, _) => panic!("{name}: {outcome:?} answers another request"),
            }
        }
    }

    /// Reads everything in pieces of a size that fits, and compares.
    pub(crate) fn compare(&self) {
        let device = &*self.device;
        for (at, expected) in self.bytes.chunks(65_536).enumerate() {
            let piece = if expected.len().is_multiple_of(4096) {
                4096
            } else {
                512
            };
            let count = (expected.len() / piece) as u32;
            let read = device
                .read_blocks(at as u64 * 65_536, count, piece as u32)
                .unwrap_or_else(|error| panic!("{}: {error}", device.name()));
            assert!(
                payload_to_bytes(&read) == expected,
                "{} at {at} x 64 KiB",
                device.name()
            );
        }
    }
}
