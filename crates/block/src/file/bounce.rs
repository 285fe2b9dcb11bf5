//! The buffer of direct I/O that is not aligned as the device wants it.

use layout::{Block, SectorNr};

use super::alignment::Alignment;

/// A buffer with the alignment of the device, for a range widened to the device's units.
pub(super) struct Bounce {
    memory: Block,
    /// Offset of the aligned bytes in `memory`.
    start: usize,
    /// Byte offset of the widened range on the device.
    pub(super) from: u64,
    length: usize,
    unit: u64,
}

impl Bounce {
    pub(super) fn around(offset: u64, bytes: u64, direct: Option<Alignment>) -> Self {
        let direct = direct.unwrap_or(Alignment {
            memory: 512,
            offset: SectorNr::SIZE,
        });
        let from = offset - offset % direct.offset;
        let to = (offset + bytes).next_multiple_of(direct.offset);
        let length = usize::try_from(to - from).expect("an operation fits into memory");
        let memory = Block::zeroed((length + direct.memory).next_multiple_of(512));
        let address = memory.as_ptr().addr();
        let start = address.next_multiple_of(direct.memory) - address;
        Self {
            memory,
            start,
            from,
            length,
            unit: direct.offset,
        }
    }

    pub(super) fn whole(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }

    pub(super) fn inner(&mut self, offset: u64, bytes: u64) -> &mut [u8] {
        let skipped = (offset - self.from) as usize;
        &mut self.whole()[skipped..skipped + bytes as usize]
    }

    /// Returns the units that the range covers partially, with their offsets.
    pub(super) fn edges(&mut self, offset: u64, bytes: u64) -> Vec<(u64, &mut [u8])> {
        let (unit, from, to) = (
            self.unit as usize,
            self.from,
            self.from + self.length as u64,
        );
        let has_head = offset != from;
        let has_tail = offset + bytes != to;
        let is_one = self.length == unit;
        let (head, rest) = self.whole().split_at_mut(unit);
        match (has_head, has_tail) {
            (false, false) => Vec::new(),
            _ if is_one => vec![(from, head)],
            (true, false) => vec![(from, head)],
            (has_head, true) => {
                let tail = rest.len() - unit;
                let mut edges = vec![(to - unit as u64, &mut rest[tail..])];
                if has_head {
                    edges.push((from, head));
                }
                edges
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounce_buffer_covers_whole_units_and_knows_its_edges() {
        let direct = Some(Alignment {
            memory: 4096,
            offset: 4096,
        });
        let cases: [(u64, u64, u64, usize, &[u64]); 6] = [
            (0, 4096, 0, 4096, &[]),
            (512, 512, 0, 4096, &[0]),
            (0, 512, 0, 4096, &[0]),
            (3584, 1024, 0, 8192, &[4096, 0]),
            (4096, 4608, 4096, 8192, &[8192]),
            (512, 12_288 - 512, 0, 12_288, &[0]),
        ];
        for (offset, bytes, from, length, expected) in cases {
            let mut bounce = Bounce::around(offset, bytes, direct);
            assert_eq!((bounce.from, bounce.length), (from, length));
            assert_eq!(bounce.whole().as_ptr().addr() % 4096, 0);
            assert_eq!(bounce.inner(offset, bytes).len() as u64, bytes);
            let edges: Vec<u64> = bounce
                .edges(offset, bytes)
                .iter()
                .map(|edge| edge.0)
                .collect();
            assert_eq!(edges, expected, "{offset}+{bytes}");
        }
    }
}
