//! The computation of a stripe's new parities: the contents that must be read first, and the
//! formula. The first parity P is the sum of the data chunks, the second one Q of RAID 6 the sum of
//! each chunk times a power of 2 with its index; sums are exclusive ors.
//!
//! | method | reads | new parities |
//! |---|---|---|
//! | replace | the data that is not written | the sums of all data |
//! | modify | the data that is written, and the parities | old parity, old data and new data |
//! | rebuild | all data there is, a parity for each missing chunk | as replace, the rest computed |
//! | data only | nothing | none: the members with parities have left |
//!
//! | missing | method |
//! |---|---|
//! | nothing, or a parity whose member has left | replace or modify, whichever reads less |
//! | all parities, whose members have left | data only |
//! | a parity that cannot be read | replace |
//! | data that is not written | modify |
//! | data that is written over the whole range | replace |
//! | data that is written in part; or not written, and a parity cannot be read | rebuild |
//!
//! All of it applies to one range of the chunk, the smallest that contains all written data.

use std::sync::Arc;

use layout::Block;

use super::galois::{add_multiple, inverse, power, scale};
use super::stripes::{Role, Stripes};
use crate::payload::Payload;

/// The method of computing the parities.
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
    /// Members that have left, or whose old contents cannot be read; at most one for each parity.
    pub(super) missing: Vec<usize>,
}

/// Old contents that are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) member: usize,
    pub(super) within: u64,
    pub(super) bytes: u64,
}

/// Contents read from members.
pub(super) type OldContents = Vec<(Need, Arc<Block>)>;

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

    fn is_written(&self, index: usize) -> bool {
        self.data.iter().any(|new| new.index == index)
    }

    /// Returns the method; `left` are the members that are no longer in the array, all of them
    /// missing.
    pub(super) fn method(&self, stripes: Stripes, left: &[usize]) -> Method {
        let lost = missing_data(stripes, self.stripe, &self.missing);
        let missing_parities =
            |members: &[usize]| members.len() - missing_data(stripes, self.stripe, members).len();
        if missing_parities(left) == stripes.parities {
            return Method::DataOnly;
        }
        let is_stale = missing_parities(&self.missing) > missing_parities(left);
        if lost.iter().all(|index| self.is_covered(*index)) {
            return match lost.is_empty() && !is_stale {
                true => self.cheapest(stripes),
                false => Method::Replace,
            };
        }
        match is_stale || lost.iter().any(|index| self.is_written(*index)) {
            true => Method::Rebuild,
            false => Method::Modify,
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
                let parities = (0..stripes.parities)
                    .map(|parity| stripes.parity_member(self.stripe, parity))
                    .filter(|member| !self.missing.contains(member));
                old.chain(parities.map(whole)).collect()
            }
            Method::Rebuild => needs_of_missing(stripes, self.stripe, &self.missing)
                .into_iter()
                .map(whole)
                .collect(),
        }
    }

    /// Computes the new parities of the range from the contents that were read. Those that are not
    /// returned belong to members that have left.
    pub(super) fn parities(
        &self,
        stripes: Stripes,
        method: Method,
        mut old: OldContents,
    ) -> Vec<(usize, Block)> {
        let (from, to) = self.range();
        let role = |need: &Need| stripes.role(self.stripe, need.member);
        if method == Method::Rebuild {
            let lost = missing_data(stripes, self.stripe, &self.missing);
            let computed = solve(stripes, self.stripe, &old, &lost);
            for (index, chunk) in lost.into_iter().zip(computed) {
                let need = Need {
                    member: stripes.data_member(self.stripe, index),
                    within: from,
                    bytes: to - from,
                };
                old.push((need, chunk.into_arc()));
            }
        }
        let mut parities: Vec<(usize, Block)> = match method {
            Method::DataOnly => Vec::new(),
            Method::Modify => {
                let parities = old.iter().filter_map(|(need, bytes)| match role(need) {
                    Role::Parity(parity) => Some((parity, Block::copy_from(bytes))),
                    Role::Data(_) => None,
                });
                parities.collect()
            }
            Method::Replace | Method::Rebuild => (0..stripes.parities)
                .map(|parity| (parity, Block::zeroed((to - from) as usize)))
                .collect(),
        };
        for (parity, sum) in &mut parities {
            if method != Method::Modify {
                add_data(stripes, self.stripe, &old, (*parity, sum));
            }
            self.data
                .iter()
                .for_each(|new| self.add_change(stripes, new, &old, (*parity, sum)));
        }
        parities
    }

    /// Adds new data to a parity of the range, and takes the old data away if that is known: it is
    /// in the sum then.
    fn add_change(
        &self,
        stripes: Stripes,
        new: &NewData,
        old: &OldContents,
        (parity, sum): (usize, &mut Block),
    ) {
        let factor = factor(parity, new.index);
        let start = (new.within - self.range().0) as usize;
        let target = &mut sum[start..start + new.bytes as usize];
        let mut at = 0;
        for block in &new.payload {
            add_multiple(&mut target[at..at + block.len()], block, factor);
            at += block.len();
        }
        let member = stripes.data_member(self.stripe, new.index);
        if let Some((need, bytes)) = old.iter().find(|(need, _)| need.holds(member, new)) {
            let skipped = (new.within - need.within) as usize;
            let bytes = &bytes[skipped..skipped + new.bytes as usize];
            add_multiple(target, bytes, factor);
        }
    }
}

impl Need {
    fn holds(&self, member: usize, new: &NewData) -> bool {
        self.member == member
            && self.within <= new.within
            && new.within + new.bytes <= self.within + self.bytes
    }
}

/// Returns the data chunks that members hold, in order.
pub(super) fn missing_data(stripes: Stripes, stripe: u64, members: &[usize]) -> Vec<usize> {
    let role = |member: &usize| stripes.role(stripe, *member);
    let index = |role| match role {
        Role::Data(index) => Some(index),
        Role::Parity(_) => None,
    };
    let mut lost: Vec<usize> = members.iter().map(role).filter_map(index).collect();
    lost.sort_unstable();
    lost
}

/// Returns the members whose contents give those of the missing data: all other data, and as many
/// parities as data chunks are missing.
pub(super) fn needs_of_missing(stripes: Stripes, stripe: u64, missing: &[usize]) -> Vec<usize> {
    let is_here = |member: &usize| !missing.contains(member);
    let lost = missing_data(stripes, stripe, missing).len();
    let data = (0..stripes.data_chunks()).map(|index| stripes.data_member(stripe, index));
    let parities = (0..stripes.parities).map(|parity| stripes.parity_member(stripe, parity));
    let parities = parities.filter(is_here).take(lost);
    data.filter(is_here).chain(parities).collect()
}

/// Returns what a data chunk is multiplied by in a parity.
fn factor(parity: usize, index: usize) -> u8 {
    power(parity * index)
}

/// Adds data chunks of whole ranges to a parity.
pub(super) fn add_data(
    stripes: Stripes,
    stripe: u64,
    known: &OldContents,
    (parity, sum): (usize, &mut Block),
) {
    for (need, bytes) in known {
        if let Role::Data(index) = stripes.role(stripe, need.member) {
            add_multiple(sum, bytes, factor(parity, index));
        }
    }
}

/// Computes missing data chunks from the contents of the members of [`needs_of_missing`].
pub(super) fn solve(
    stripes: Stripes,
    stripe: u64,
    known: &OldContents,
    lost: &[usize],
) -> Vec<Block> {
    // What the missing chunks contribute to each parity that was read.
    let mut sums =
        known
            .iter()
            .filter_map(|(need, bytes)| match stripes.role(stripe, need.member) {
                Role::Data(_) => None,
                Role::Parity(parity) => {
                    let mut sum = Block::copy_from(bytes);
                    add_data(stripes, stripe, known, (parity, &mut sum));
                    Some((parity, sum))
                }
            });
    match *lost {
        [] => Vec::new(),
        [index] => {
            let (parity, mut chunk) = sums.next().expect("a parity is there");
            if parity > 0 {
                scale(&mut chunk, inverse(factor(parity, index)));
            }
            vec![chunk]
        }
        [one, other] => {
            let mut sums = [sums.next(), sums.next()].map(|sum| sum.expect("both are there"));
            sums.sort_unstable_by_key(|(parity, _)| *parity);
            let [(_, mut rest), (_, mut chunk)] = sums;
            // P = a + b and Q = fa + gb, so that Q + gP = (f + g)a, and b = P + a.
            let factors = [one, other].map(|index| factor(1, index));
            add_multiple(&mut chunk, &rest, factors[1]);
            scale(&mut chunk, inverse(factors[0] ^ factors[1]));
            add_multiple(&mut rest, &chunk, 1);
            vec![chunk, rest]
        }
        _ => unreachable!("a stripe has two parities at most"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (data chunk, first sector, sectors) of each piece that is written.
    type Pieces = &'static [(usize, u64, u64)];

    const STRIPES: Stripes = Stripes {
        members: 4,
        parities: 1,
        chunk_bytes: 4096,
    };

    /// Returns writes of (data chunk, first sector, sectors) to stripe 0, whose parity is on member
    /// 3.
    fn write(pieces: &[(usize, u64, u64)], missing: &[usize]) -> StripeWrite {
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
            missing: missing.to_vec(),
        }
    }

    #[test]
    fn the_method_follows_the_table() {
        /// (pieces, missing members, those that have left, method).
        type Case = (Pieces, &'static [usize], &'static [usize], Method);
        let cases: [Case; 10] = [
            (
                &[(0, 0, 8), (1, 0, 8), (2, 0, 8)],
                &[],
                &[],
                Method::Replace,
            ),
            (&[(0, 0, 8)], &[], &[], Method::Replace),
            (&[(0, 0, 1), (0, 1, 1)], &[], &[], Method::Replace),
            (&[(0, 0, 1), (1, 7, 1)], &[], &[], Method::Modify),
            (&[(0, 0, 8)], &[3], &[3], Method::DataOnly),
            (&[(0, 0, 8)], &[3], &[], Method::Replace),
            (&[(0, 0, 8)], &[1], &[], Method::Modify),
            (&[(0, 0, 8)], &[0], &[0], Method::Replace),
            (&[(0, 0, 4), (1, 0, 8)], &[0], &[], Method::Rebuild),
            (&[(0, 0, 8), (1, 0, 4)], &[0], &[], Method::Replace),
        ];
        for (pieces, missing, left, expected) in cases {
            let method = write(pieces, missing).method(STRIPES, left);
            assert_eq!(method, expected, "{pieces:?} {missing:?}");
        }
        // Five members; the parities of stripe 0 are on 4 and 0, data chunks on 1 to 3.
        let double = Stripes {
            members: 5,
            parities: 2,
            chunk_bytes: 4096,
        };
        let cases: [Case; 9] = [
            (&[(0, 0, 8)], &[], &[], Method::Replace),
            (&[(0, 0, 1), (1, 7, 1)], &[], &[], Method::Modify),
            (&[(0, 0, 8)], &[4, 0], &[4, 0], Method::DataOnly),
            (&[(0, 0, 8)], &[4, 0], &[4], Method::Replace),
            (&[(0, 0, 8)], &[0, 2], &[0], Method::Modify),
            (&[(0, 0, 8)], &[0, 2], &[2], Method::Rebuild),
            (&[(0, 0, 8)], &[2, 3], &[2, 3], Method::Modify),
            (&[(0, 0, 4), (1, 0, 8)], &[1, 2], &[], Method::Rebuild),
            (&[(0, 0, 8), (1, 0, 8)], &[1, 2], &[], Method::Replace),
        ];
        for (pieces, missing, left, expected) in cases {
            let method = write(pieces, missing).method(double, left);
            assert_eq!(method, expected, "RAID 6: {pieces:?} {missing:?}");
        }
    }

    /// Computes the parity of data chunks by its definition.
    fn parity_of(data: &[Vec<u8>], parity: usize) -> Vec<u8> {
        let mut sum = vec![0; data[0].len()];
        let chunks = data.iter().enumerate();
        chunks.for_each(|(index, chunk)| add_multiple(&mut sum, chunk, power(parity * index)));
        sum
    }

    /// Every method must give the parities of the data after the write, whatever is missing.
    #[test]
    fn every_method_gives_the_parities_of_the_new_data() {
        let old: Vec<Vec<u8>> = (0..3)
            .map(|chunk| (0..4096).map(|at| (at * 7 + chunk * 31) as u8).collect())
            .collect();
        let shapes: [Pieces; 5] = [
            &[(0, 0, 8)],
            &[(0, 1, 2), (1, 4, 2)],
            &[(2, 0, 8), (1, 0, 8), (0, 0, 8)],
            &[(1, 3, 1)],
            &[(0, 0, 4), (1, 0, 8)],
        ];
        for parities in 1..=2 {
            let stripes = Stripes {
                members: 3 + parities,
                parities,
                chunk_bytes: 4096,
            };
            let all: Vec<usize> = (0..stripes.members).collect();
            let mut missings: Vec<Vec<usize>> = vec![vec![]];
            missings.extend(all.iter().map(|member| vec![*member]));
            for member in &all[..all.len() * (parities - 1)] {
                missings.extend(all[member + 1..].iter().map(|other| vec![*member, *other]));
            }
            for (pieces, missing) in shapes
                .iter()
                .flat_map(|pieces| missings.iter().map(move |missing| (pieces, missing)))
            {
                for left in [&missing[..], &missing[missing.len().min(1)..], &[]] {
                    every_parity(stripes, &old, pieces, (missing, left));
                }
            }
        }
    }

    /// Checks the new parities of a write to stripe 0 of this data.
    fn every_parity(
        stripes: Stripes,
        old: &[Vec<u8>],
        pieces: Pieces,
        (missing, left): (&[usize], &[usize]),
    ) {
        let write = write(pieces, missing);
        let method = write.method(stripes, left);
        let image = |member| match stripes.role(0, member) {
            Role::Data(index) => old[index].clone(),
            Role::Parity(parity) => parity_of(old, parity),
        };
        let had = write.needs(stripes, method).into_iter().map(|need| {
            assert!(!missing.contains(&need.member), "it is not read");
            let range = need.within as usize..(need.within + need.bytes) as usize;
            let bytes = &image(need.member)[range];
            (need, Block::copy_from(bytes).into_arc())
        });
        let computed = write.parities(stripes, method, had.collect());
        let mut new = old.to_vec();
        for (index, sector, sectors) in pieces {
            new[*index][*sector as usize * 512..(sector + sectors) as usize * 512].fill(0xA5);
        }
        let (from, to) = write.range();
        for parity in 0..stripes.parities {
            let member = stripes.parity_member(0, parity);
            let what = format!("{pieces:?} {missing:?} {left:?} {method:?} {parity}");
            match computed.iter().find(|(one, _)| *one == parity) {
                Some((_, block)) => {
                    let expected = &parity_of(&new, parity)[from as usize..to as usize];
                    assert_eq!(**block, *expected, "{what}");
                }
                None => assert!(left.contains(&member), "{what}"),
            }
        }
    }
}
