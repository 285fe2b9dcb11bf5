//! The layout of RAID 5 and 6, left-symmetric: the default of Linux's md. RAID 5 on four members:
//!
//! ```text
//! stripe   member 0  member 1  member 2  member 3
//!   0         D0        D1        D2        P
//!   1         D4        D5        P         D3
//!   2         D8        P         D6        D7
//!   3         P         D9        D10       D11
//! ```
//!
//! The parity moves one member to the left with each stripe; the second one of RAID 6 is to its
//! right, and the data starts behind that and wraps around.

/// The layout of an array.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stripes {
    pub(super) members: usize,
    /// Number of parities of a stripe: 1 or 2.
    pub(super) parities: usize,
    pub(super) chunk_bytes: u64,
}

/// The use of a member in a stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The data chunk with this index.
    Data(usize),
    /// The parity with this index.
    Parity(usize),
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
        self.members - self.parities
    }

    /// Returns the member that holds one of a stripe's parities.
    pub(super) fn parity_member(&self, stripe: u64, parity: usize) -> usize {
        self.at(stripe, parity)
    }

    /// Returns the member that holds a stripe's data chunk.
    pub(super) fn data_member(&self, stripe: u64, index: usize) -> usize {
        self.at(stripe, self.parities + index)
    }

    /// Returns the use of a member in a stripe.
    pub(super) fn role(&self, stripe: u64, member: usize) -> Role {
        let place = (member + self.members - self.at(stripe, 0)) % self.members;
        match place.checked_sub(self.parities) {
            Some(index) => Role::Data(index),
            None => Role::Parity(place),
        }
    }

    /// Returns a member by its place in a stripe, counted from the first parity.
    fn at(&self, stripe: u64, place: usize) -> usize {
        let first = self.members - 1 - (stripe % self.members as u64) as usize;
        (first + place) % self.members
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

    /// Returns each member's use in the first stripes: P and Q, or the number of a data chunk.
    fn drawn(stripes: Stripes) -> Vec<String> {
        let row = |stripe: u64| {
            let uses = (0..stripes.members).map(|member| match stripes.role(stripe, member) {
                Role::Parity(parity) => {
                    assert_eq!(stripes.parity_member(stripe, parity), member);
                    ["P", "Q"][parity].to_owned()
                }
                Role::Data(index) => {
                    assert_eq!(stripes.data_member(stripe, index), member);
                    (stripe as usize * stripes.data_chunks() + index).to_string()
                }
            });
            uses.collect::<Vec<_>>().join(" ")
        };
        (0..stripes.members as u64 + 1).map(row).collect()
    }

    #[test]
    fn the_layout_is_left_symmetric() {
        let with = |parities| {
            drawn(Stripes {
                members: 4,
                parities,
                chunk_bytes: 4096,
            })
        };
        let single = ["0 1 2 P", "4 5 P 3", "8 P 6 7", "P 9 10 11", "12 13 14 P"];
        assert_eq!(with(1), single);
        let double = ["Q 0 1 P", "2 3 P Q", "5 P Q 4", "P Q 6 7", "Q 8 9 P"];
        assert_eq!(with(2), double);
    }

    #[test]
    fn ranges_are_cut_at_chunks() {
        let stripes = Stripes {
            members: 3,
            parities: 1,
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
