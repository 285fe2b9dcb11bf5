//! The layout of RAID 5, left-symmetric: the default of Linux's md.
//!
//! ```text
//! stripe   member 0  member 1  member 2  member 3
//!   0         D0        D1        D2        P
//!   1         D4        D5        P         D3
//!   2         D8        P         D6        D7
//!   3         P         D9        D10       D11
//! ```
//!
//! The parity moves one member to the left with each stripe; the data starts to its right and wraps
//! around.

/// The layout of an array.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stripes {
    pub(super) members: usize,
    pub(super) chunk_bytes: u64,
}

/// The part of a request that lies in one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkPart {
    pub(super) stripe: u64,
    /// Index of the stripe's data chunk, from 0.
    pub(super) index: usize,
    /// Byte offset within the chunk.
    pub(super) within: u64,
    pub(super) bytes: u64,
}

impl Stripes {
    pub(super) fn data_chunks(&self) -> usize {
        self.members - 1
    }

    /// Returns the member that holds a stripe's parity.
    pub(super) fn parity_member(&self, stripe: u64) -> usize {
        self.members - 1 - (stripe % self.members as u64) as usize
    }

    /// Returns the member that holds a stripe's data chunk.
    pub(super) fn data_member(&self, stripe: u64, index: usize) -> usize {
        (self.parity_member(stripe) + 1 + index) % self.members
    }

    /// Returns the byte offset on a member.
    pub(super) fn member_offset(&self, stripe: u64, within: u64) -> u64 {
        stripe * self.chunk_bytes + within
    }

    /// Returns the parts of a range of the array, chunk by chunk.
    pub(super) fn parts(&self, offset: u64, bytes: u64) -> Vec<ChunkPart> {
        let data_chunks = self.data_chunks() as u64;
        let mut parts = Vec::new();
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let (chunk, within) = (at / self.chunk_bytes, at % self.chunk_bytes);
            let bytes = (self.chunk_bytes - within).min(end - at);
            let index = (chunk % data_chunks) as usize;
            parts.push(ChunkPart {
                stripe: chunk / data_chunks,
                index,
                within,
                bytes,
            });
            at += bytes;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_left_symmetric() {
        let stripes = Stripes {
            members: 4,
            chunk_bytes: 4096,
        };
        let rows: Vec<(usize, Vec<usize>)> = (0..5)
            .map(|stripe| {
                let data = (0..3)
                    .map(|index| stripes.data_member(stripe, index))
                    .collect();
                (stripes.parity_member(stripe), data)
            })
            .collect();
        let expected = vec![
            (3, vec![0, 1, 2]),
            (2, vec![3, 0, 1]),
            (1, vec![2, 3, 0]),
            (0, vec![1, 2, 3]),
            (3, vec![0, 1, 2]),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn ranges_are_cut_at_chunks() {
        let stripes = Stripes {
            members: 3,
            chunk_bytes: 4096,
        };
        let expected = vec![
            ChunkPart {
                stripe: 0,
                index: 1,
                within: 3584,
                bytes: 512,
            },
            ChunkPart {
                stripe: 1,
                index: 0,
                within: 0,
                bytes: 4096,
            },
            ChunkPart {
                stripe: 1,
                index: 1,
                within: 0,
                bytes: 1024,
            },
        ];
        assert_eq!(stripes.parts(4096 + 3584, 512 + 4096 + 1024), expected);
    }
}
