//! The computation of a stripe's new parity: the contents that must be read first, and the formula.
//!
//! | method | reads | new parity |
//! |---|---|---|
//! | replace | the data that is not written | exclusive or of all data |
//! | modify | the data that is written, and the parity | old parity, old data and new data |
//! | rebuild | all members but the missing one | as modify, the missing old data computed |
//! | data only | nothing | none: the parity's member has left |
//!
//! | missing | method |
//! |---|---|
//! | nothing | replace or modify, whichever reads less |
//! | the parity's member has left | data only |
//! | the parity cannot be read | replace |
//! | data that is not written | modify |
//! | data that is written over the whole range | replace |
//! | data that is written in part | rebuild |
//!
//! All of it applies to one range of the chunk, the smallest that contains all written data.

use std::sync::Arc;

use layout::Block;
use rt::Cost;

use super::stripes::Stripes;
use crate::payload::Payload;

/// The method of computing the parity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Replace,
    Modify,
    Rebuild,
    DataOnly,
}

/// New data for one data chunk.
pub(super) struct NewData {
    /// Index of the stripe's data chunk.
    pub(super) index: usize,
    /// Byte offset within the chunk.
    pub(super) within: u64,
    pub(super) bytes: u64,
    pub(super) payload: Payload,
    pub(super) is_forced: bool,
    /// Index of the batch's write that this is part of.
    pub(super) write: usize,
}

/// All data that a batch writes to one stripe.
pub(super) struct StripeWrite {
    pub(super) stripe: u64,
    pub(super) data: Vec<NewData>,
    /// Member whose old contents are not available.
    pub(super) missing: Option<usize>,
}

/// Old contents that are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) member: usize,
    pub(super) within: u64,
    pub(super) bytes: u64,
}

impl StripeWrite {
    /// Returns the range of the chunk in which the parity changes: first byte and end.
    pub(super) fn range(&self) -> (u64, u64) {
        let from = self.data.iter().map(|new| new.within).min().unwrap_or(0);
        let to = self
            .data
            .iter()
            .map(|new| new.within + new.bytes)
            .max()
            .unwrap_or(0);
        (from, to)
    }

    /// True if any of the writes must be durable on completion; then the parity must be too.
    pub(super) fn is_forced(&self) -> bool {
        self.data.iter().any(|new| new.is_forced)
    }

    fn is_covered(&self, index: usize) -> bool {
        let (from, to) = self.range();
        let written: u64 = self
            .data
            .iter()
            .filter(|new| new.index == index)
            .map(|new| new.bytes)
            .sum();
        written == to - from
    }

    /// Returns the method; `parity_has_left` is true if the parity's member is no longer in the
    /// array.
    pub(super) fn method(&self, stripes: Stripes, parity_has_left: bool) -> Method {
        let parity = stripes.parity_member(self.stripe);
        let Some(missing) = self.missing else {
            return self.cheapest(stripes);
        };
        if missing == parity {
            return if parity_has_left {
                Method::DataOnly
            } else {
                Method::Replace
            };
        }
        let index = (0..stripes.data_chunks())
            .find(|index| stripes.data_member(self.stripe, *index) == missing)
            .expect("a member holds parity or data");
        if !self.data.iter().any(|new| new.index == index) {
            Method::Modify
        } else if self.is_covered(index) {
            Method::Replace
        } else {
            Method::Rebuild
        }
    }

    fn cheapest(&self, stripes: Stripes) -> Method {
        let bytes = |method| {
            self.needs(stripes, method)
                .iter()
                .map(|need: &Need| need.bytes)
                .sum::<u64>()
        };
        if bytes(Method::Replace) <= bytes(Method::Modify) {
            Method::Replace
        } else {
            Method::Modify
        }
    }

    /// Returns the contents that must be read.
    pub(super) fn needs(&self, stripes: Stripes, method: Method) -> Vec<Need> {
        let (from, to) = self.range();
        let whole = |member| Need {
            member,
            within: from,
            bytes: to - from,
        };
        match method {
            Method::DataOnly => Vec::new(),
            Method::Replace => (0..stripes.data_chunks())
                .filter(|index| !self.is_covered(*index))
                .map(|index| whole(stripes.data_member(self.stripe, index)))
                .collect(),
            Method::Modify => {
                let old = self.data.iter().map(|new| Need {
                    member: stripes.data_member(self.stripe, new.index),
                    within: new.within,
                    bytes: new.bytes,
                });
                old.chain([whole(stripes.parity_member(self.stripe))])
                    .collect()
            }
            Method::Rebuild => (0..stripes.members)
                .filter(|member| Some(*member) != self.missing)
                .map(whole)
                .collect(),
        }
    }

    /// Computes the new parity of the range from the contents that were read.
    pub(super) fn parity(
        &self,
        stripes: Stripes,
        method: Method,
        mut old: Vec<(Need, Arc<Block>)>,
    ) -> Option<Block> {
        let (from, to) = self.range();
        let parity_member = stripes.parity_member(self.stripe);
        let whole = || Block::zeroed((to - from) as usize);
        let mut parity = whole();
        match method {
            Method::DataOnly => return None,
            Method::Replace => old
                .iter()
                .for_each(|(_, bytes)| xor_into(&mut parity, bytes)),
            Method::Modify | Method::Rebuild => old
                .iter()
                .filter(|(need, _)| need.member == parity_member)
                .for_each(|(_, bytes)| xor_into(&mut parity, bytes)),
        }
        if let (Method::Rebuild, Some(member)) = (method, self.missing) {
            let mut computed = whole();
            old.iter()
                .for_each(|(_, bytes)| xor_into(&mut computed, bytes));
            old.push((
                Need {
                    member,
                    within: from,
                    bytes: to - from,
                },
                computed.into_arc(),
            ));
        }
        for new in &self.data {
            let start = (new.within - from) as usize;
            let target = &mut parity[start..start + new.bytes as usize];
            let mut at = 0;
            for block in &new.payload {
                xor_into(&mut target[at..at + block.len()], block);
                at += block.len();
            }
            let member = stripes.data_member(self.stripe, new.index);
            if let Some((need, bytes)) = old.iter().find(|(need, _)| need.holds(member, new)) {
                let skipped = (new.within - need.within) as usize;
                xor_into(target, &bytes[skipped..skipped + new.bytes as usize]);
            }
        }
        Some(parity)
    }
}

impl Need {
    fn holds(&self, member: usize, new: &NewData) -> bool {
        self.member == member
            && self.within <= new.within
            && new.within + new.bytes <= self.within + self.bytes
    }
}

/// Computes the exclusive or of bytes into others of the same length.
pub(super) fn xor_into(target: &mut [u8], source: &[u8]) {
    assert_eq!(
        target.len(),
        source.len(),
        "parity is computed byte by byte"
    );
    rt::charge(Cost::Checksum(source.len() as u64));
    target
        .iter_mut()
        .zip(source)
        .for_each(|(target, source)| *target ^= source);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (data chunk, first sector, sectors) of each piece that is written.
    type Pieces = &'static [(usize, u64, u64)];

    const STRIPES: Stripes = Stripes {
        members: 4,
        chunk_bytes: 4096,
    };

    /// Returns writes of (data chunk, first sector, sectors) to stripe 0, whose parity is on member
    /// 3.
    fn write(pieces: &[(usize, u64, u64)], missing: Option<usize>) -> StripeWrite {
        let data = pieces
            .iter()
            .map(|(index, sector, sectors)| NewData {
                index: *index,
                within: sector * 512,
                bytes: sectors * 512,
                payload: vec![Block::copy_from(&vec![0xA5; (sectors * 512) as usize]).into_arc()],
                is_forced: false,
                write: 0,
            })
            .collect();
        StripeWrite {
            stripe: 0,
            data,
            missing,
        }
    }

    #[test]
    fn the_method_follows_the_table() {
        let cases: [(Pieces, Option<usize>, bool, Method); 10] = [
            (
                &[(0, 0, 8), (1, 0, 8), (2, 0, 8)],
                None,
                false,
                Method::Replace,
            ),
            (&[(0, 0, 8)], None, false, Method::Replace),
            (&[(0, 0, 1), (0, 1, 1)], None, false, Method::Replace),
            (&[(0, 0, 1), (1, 7, 1)], None, false, Method::Modify),
            (&[(0, 0, 8)], Some(3), true, Method::DataOnly),
            (&[(0, 0, 8)], Some(3), false, Method::Replace),
            (&[(0, 0, 8)], Some(1), false, Method::Modify),
            (&[(0, 0, 8)], Some(0), false, Method::Replace),
            (&[(0, 0, 4), (1, 0, 8)], Some(0), false, Method::Rebuild),
            (&[(0, 0, 8), (1, 0, 4)], Some(0), false, Method::Replace),
        ];
        for (pieces, missing, has_left, expected) in cases {
            let write = write(pieces, missing);
            assert_eq!(
                write.method(STRIPES, has_left),
                expected,
                "{pieces:?} {missing:?}"
            );
        }
    }

    /// Every method must give the exclusive or of the data after the write.
    #[test]
    fn every_method_gives_the_parity_of_the_new_data() {
        let old: Vec<Vec<u8>> = (0..3)
            .map(|chunk| (0..4096).map(|at| (at * 7 + chunk * 31) as u8).collect())
            .collect();
        let old_parity: Vec<u8> = (0..4096)
            .map(|at| old[0][at] ^ old[1][at] ^ old[2][at])
            .collect();
        let shapes: [Pieces; 4] = [
            &[(0, 0, 8)],
            &[(0, 1, 2), (1, 4, 2)],
            &[(2, 0, 8), (1, 0, 8), (0, 0, 8)],
            &[(1, 3, 1)],
        ];
        for pieces in shapes {
            for missing in [None, Some(0), Some(1), Some(2)] {
                let write = write(pieces, missing);
                let method = write.method(STRIPES, false);
                let had: Vec<(Need, Arc<Block>)> = write
                    .needs(STRIPES, method)
                    .into_iter()
                    .map(|need| {
                        assert_ne!(Some(need.member), missing, "what is missing is not read");
                        let image = if need.member == 3 {
                            &old_parity
                        } else {
                            &old[need.member]
                        };
                        let range = need.within as usize..(need.within + need.bytes) as usize;
                        (need, Block::copy_from(&image[range]).into_arc())
                    })
                    .collect();
                let parity = write
                    .parity(STRIPES, method, had)
                    .expect("there is a parity");
                let mut new = old.clone();
                for (index, sector, sectors) in pieces {
                    new[*index][*sector as usize * 512..(sector + sectors) as usize * 512]
                        .fill(0xA5);
                }
                let (from, to) = write.range();
                let expected: Vec<u8> = (from as usize..to as usize)
                    .map(|at| new[0][at] ^ new[1][at] ^ new[2][at])
                    .collect();
                assert_eq!(*parity, expected[..], "{pieces:?} {missing:?} {method:?}");
            }
        }
    }
}
