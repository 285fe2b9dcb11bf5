//! The location of a log: its blocks on a device.

use std::sync::Arc;

use block::BlockDevice;
use layout::{BlockNr, SectorNr};

/// The location of a log. Block 0 of the log is the journal's superblock.
#[derive(Clone)]
pub struct Location {
    /// The device that holds the log.
    pub device: Arc<dyn BlockDevice>,
    /// Size of a block in bytes.
    pub block_bytes: u32,
    /// The log's blocks on the device, in the log's order.
    pub extents: Vec<LogExtent>,
}

/// An extent of a log's blocks on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogExtent {
    /// The first block on the device.
    pub first: BlockNr,
    /// Number of blocks.
    pub count: u32,
}

/// An extent of the log on the device, in sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The first sector on the device.
    pub(crate) sector: SectorNr,
    /// Number of blocks.
    pub(crate) count: u32,
}

impl Location {
    /// Returns the number of mapped blocks.
    pub fn block_count(&self) -> u64 {
        self.extents
            .iter()
            .map(|extent| u64::from(extent.count))
            .sum()
    }

    /// Returns the pieces on the device of `count` log blocks from `first` on, as far as they are
    /// mapped.
    pub(crate) fn pieces(&self, first: u32, count: u32) -> impl Iterator<Item = Piece> + '_ {
        let wanted = u64::from(first)..u64::from(first) + u64::from(count);
        let mut start = 0u64;
        self.extents.iter().filter_map(move |extent| {
            let range = start..start + u64::from(extent.count);
            let (from, to) = (range.start.max(wanted.start), range.end.min(wanted.end));
            start = range.end;
            (from < to).then(|| {
                let block = extent.first.get() + (from - range.start);
                let byte_offset = block * u64::from(self.block_bytes);
                Piece {
                    sector: SectorNr::from_byte_offset(byte_offset),
                    count: u32::try_from(to - from).expect("a part of a 32-bit count"),
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use block::memory::MemoryDevice;

    use super::*;

    #[test]
    fn pieces_follow_the_extents() {
        let location = Location {
            device: Arc::new(MemoryDevice::new(1 << 20)),
            block_bytes: 1024,
            extents: vec![
                LogExtent {
                    first: BlockNr::new(10),
                    count: 4,
                },
                LogExtent {
                    first: BlockNr::new(100),
                    count: 2,
                },
            ],
        };
        assert_eq!(location.block_count(), 6);
        let pieces = |first, count| -> Vec<(u64, u32)> {
            location
                .pieces(first, count)
                .map(|piece| (piece.sector.get(), piece.count))
                .collect()
        };
        assert_eq!(pieces(0, 6), [(20, 4), (200, 2)]);
        assert_eq!(pieces(3, 2), [(26, 1), (200, 1)]);
        assert_eq!(pieces(4, 1), [(200, 1)]);
        assert_eq!(pieces(5, 9), [(202, 1)]);
    }
}
