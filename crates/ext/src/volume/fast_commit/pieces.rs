//! The block map of a file as a list of extents, changed by ranges. Also sets of blocks: a list in
//! which each block is mapped to itself.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use layout::extent::{Extent, count_max};

use crate::disk::run::Run;

/// An extent: its first block on the device, its length, and if it reads as zeroes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) is_unwritten: bool,
}

/// Extents by their first block within the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Pieces {
    // Invariant: they do not overlap, and none is empty.
    pieces: BTreeMap<u64, Piece>,
}

impl Pieces {
    /// Maps blocks of the file, which may have been mapped before.
    pub(super) fn map(&mut self, at: u64, piece: Piece) {
        self.punch(at..at + piece.count);
        if piece.count > 0 {
            self.pieces.insert(at, piece);
        }
    }

    /// Makes a hole.
    pub(super) fn punch(&mut self, hole: Range<u64>) {
        let before = self.pieces.range(..hole.start).next_back();
        let first = before.map_or(hole.start, |(at, _)| *at);
        let touched: Vec<(u64, Piece)> = self
            .pieces
            .range(first..hole.end.max(first))
            .map(|(at, piece)| (*at, *piece))
            .collect();
        for (at, piece) in touched {
            let end = at + piece.count;
            if end <= hole.start {
                continue;
            }
            self.pieces.remove(&at);
            if at < hole.start {
                let count = hole.start - at;
                self.pieces.insert(at, Piece { count, ..piece });
            }
            if end > hole.end {
                let first = piece.first + (hole.end - at);
                let count = end - hole.end;
                let rest = Piece {
                    first,
                    count,
                    ..piece
                };
                self.pieces.insert(hole.end, rest);
            }
        }
    }

    /// Adds blocks to a set.
    pub(super) fn add(&mut self, run: Run) {
        let first = run.first.get();
        let piece = Piece {
            first,
            count: run.count.into(),
            is_unwritten: false,
        };
        self.map(first, piece);
    }

    /// Returns the blocks on the device, in pieces.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run> {
        let parts = self.pieces.values().flat_map(|piece| {
            let most = u64::from(u32::MAX);
            (0..piece.count.div_ceil(most)).map(move |part| (piece, part * most))
        });
        parts.map(|(piece, from)| Run {
            first: layout::BlockNr::new(piece.first + from),
            count: u32::try_from(piece.count - from).unwrap_or(u32::MAX),
        })
    }

    /// Returns the number of clusters of the file that have blocks.
    pub(super) fn clusters(&self, log: u32) -> u64 {
        let (mut count, mut next) = (0, 0);
        for (at, piece) in &self.pieces {
            let first = (at >> log).max(next);
            next = ((at + piece.count - 1) >> log) + 1;
            count += next - first;
        }
        count
    }

    /// Returns the blocks of this set that are not in the other.
    pub(super) fn without(&self, other: &Self) -> Self {
        let mut left = self.clone();
        for (at, piece) in &other.pieces {
            left.punch(*at..*at + piece.count);
        }
        left
    }

    /// Returns the entries of an extent tree. Neighbours are one extent as far as it may be long.
    pub(super) fn extents(&self) -> Vec<Extent> {
        self.extents_cut_at(&BTreeSet::new())
    }

    /// Returns the entries of an extent tree. Neighbours are one extent as far as it may be long,
    /// unless the second one starts at one of these file blocks.
    pub(super) fn extents_cut_at(&self, cuts: &BTreeSet<u64>) -> Vec<Extent> {
        let mut joined: Vec<(u64, Piece)> = Vec::new();
        for (at, piece) in &self.pieces {
            match joined.last_mut() {
                Some((before, last))
                    if *before + last.count == *at
                        && last.first + last.count == piece.first
                        && last.is_unwritten == piece.is_unwritten
                        && !cuts.contains(at) =>
                {
                    last.count += piece.count;
                }
                _ => joined.push((*at, *piece)),
            }
        }
        let mut extents = Vec::new();
        for (at, piece) in joined {
            let most = u64::from(count_max(piece.is_unwritten));
            for from in (0..piece.count).step_by(most as usize) {
                let count = (piece.count - from).min(most) as u32;
                let first = piece.first + from;
                extents.push(Extent::new(
                    (at + from) as u32,
                    count,
                    first,
                    piece.is_unwritten,
                ));
            }
        }
        extents
    }
}

#[cfg(test)]
mod tests {
    use testkit::Random;

    use super::*;

    #[test]
    fn changes_agree_with_a_model() {
        let mut random = Random::new(3);
        for _ in 0..200 {
            let mut model = [None; 64];
            let mut pieces = Pieces::default();
            for _ in 0..20 {
                let at = random.below(60);
                let count = random.below(64 - at) + 1;
                if random.below(3) == 0 {
                    model[at as usize..(at + count) as usize].fill(None);
                    pieces.punch(at..at + count);
                    continue;
                }
                let (first, is_unwritten) = (100 + random.below(100), random.below(2) == 0);
                for index in 0..count {
                    model[(at + index) as usize] = Some((first + index, is_unwritten));
                }
                let piece = Piece {
                    first,
                    count,
                    is_unwritten,
                };
                pieces.map(at, piece);
            }
            let mut seen = [None; 64];
            for extent in pieces.extents() {
                for index in 0..u64::from(extent.block_count()) {
                    let at = (u64::from(extent.file_block.get()) + index) as usize;
                    assert_eq!(seen[at], None);
                    seen[at] = Some((extent.start() + index, extent.is_unwritten()));
                }
            }
            assert_eq!(seen, model);
        }
    }

    #[test]
    fn extents_are_joined_and_no_longer_than_they_may_be() {
        let mut pieces = Pieces::default();
        let piece = |first, count, is_unwritten| Piece {
            first,
            count,
            is_unwritten,
        };
        pieces.map(0, piece(10, 5, true));
        pieces.map(5, piece(15, 40_000, true));
        pieces.map(40_005, piece(50_000, 1, false));
        let found: Vec<_> = pieces
            .extents()
            .iter()
            .map(|extent| {
                (
                    extent.file_block.get(),
                    extent.start(),
                    extent.block_count(),
                )
            })
            .collect();
        assert_eq!(
            found,
            [(0, 10, 32_767), (32_767, 32_777, 7238), (40_005, 50_000, 1)]
        );
        pieces.punch(0..u64::MAX);
        assert_eq!(pieces, Pieces::default());
    }
}
