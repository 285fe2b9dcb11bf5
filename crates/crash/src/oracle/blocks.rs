//! Blocks in data=journal, each separately: a block has one version, and a write of several blocks
//! is cut only between two of them, without a later block if an earlier one is missing.
//!
//! The tags in the sectors are compared with all states at once, regardless of the state that the
//! volume should have. So a block with parts of two versions is distinguished from a wrong version
//! (J1).

use super::Oracle;
use crate::history::{History, LaneBounds};
use crate::image::{BLOCK_SECTORS, SECTOR_BYTES};
use crate::model::{NodeId, Sector, Tree};
use crate::observe::{Contents, Seen};
use crate::op::Op;
use crate::rule::{Broken, Rule};
use crate::tag::{Tag, number_of, place_of};

/// The writes that the sectors of a file come from; 0 for zeroes, none for a sector without a tag.
type Versions = Vec<Option<u32>>;

impl Oracle<'_> {
    /// Checks that no block is a mixture of two versions, and that no write has its end without its
    /// start.
    pub(super) fn check_blocks(&mut self) -> Result<(), Broken> {
        for (history, bounds) in self.histories.iter().zip(&self.bounds.lanes) {
            if has_choice(history, bounds) {
                self.counts.note(Rule::J2);
            }
        }
        for seen in &self.recovered.observation.nodes {
            if let Contents::File(bytes) = &seen.contents {
                let versions = versions(seen, bytes);
                self.check_mixture(seen, &versions)?;
                self.check_order(seen, &versions)?;
            }
        }
        Ok(())
    }

    /// Returns the history of the lane of a write, and the write's number there.
    fn origin(&self, write: u32) -> Option<(&History, usize)> {
        let (lane, number) = place_of(write)?;
        let history = self.histories.get(lane)?;
        (number < history.ops.len()).then_some((history, number))
    }

    fn check_mixture(&self, seen: &Seen, versions: &Versions) -> Result<(), Broken> {
        for (block, pieces) in versions.chunks(BLOCK_SECTORS).enumerate() {
            let known: Option<Vec<u32>> = pieces.iter().copied().collect();
            let Some(known) = known else { continue };
            let newest = known.iter().max().copied().unwrap_or(0);
            let Some((history, number)) = self.origin(newest) else {
                continue;
            };
            let first = block * BLOCK_SECTORS;
            let later = &history.states[number + 1..];
            let Some(id) = later[0].holder(newest) else {
                continue;
            };
            let is_there = |tree: &Tree| {
                let sectors = tree.sectors(id).and_then(|all| all.get(first..));
                sectors.is_some_and(|all| {
                    known
                        .iter()
                        .zip(all)
                        .all(|(one, sector)| *one == version(sector))
                })
            };
            if !known.iter().all(|one| *one == newest) && !later.iter().any(is_there) {
                let what = format!(
                    "block {block} of inode {} is a mixture: its sectors are of writes {known:?}, and no state has them together",
                    seen.inode
                );
                return Err(Broken::new(Rule::J2, what));
            }
        }
        Ok(())
    }

    fn check_order(&self, seen: &Seen, versions: &Versions) -> Result<(), Broken> {
        for (index, write) in versions.iter().enumerate() {
            let Some((history, number)) = write.and_then(|write| self.origin(write)) else {
                continue;
            };
            let Some((from, _)) = history.range_of(number) else {
                continue;
            };
            // Blocks that move have other places than the write gave them.
            let later = &history.ops[number + 1..];
            if later.iter().any(Op::moves_blocks) {
                continue;
            }
            let before = versions.get(from..index).into_iter().flatten();
            let mut before = (from..).zip(before);
            let older = before.find(|(sector, other)| match other {
                // Zeroes have no version: a range may have been zeroed or punched after the write.
                Some(0) => !is_zeroed_after(history, number, *sector),
                Some(other) => Some(*other) < *write,
                None => false,
            });
            if let Some((sector, other)) = older {
                let what = format!(
                    "inode {} has sector {index} of {}, but sector {sector} is older, of write {other:?}: a write is cut in the \
                     order of its blocks",
                    seen.inode, history.ops[number]
                );
                return Err(Broken::new(Rule::J2, what));
            }
        }
        Ok(())
    }
}

/// Returns true if a crash may leave one of several versions of a block, or a part of a write of
/// several blocks.
fn has_choice(history: &History, bounds: &LaneBounds) -> bool {
    let numbers = bounds.state..bounds.begun.max(bounds.state);
    numbers.into_iter().any(|number| {
        let Some((from, count)) = history.range_of(number) else {
            return false;
        };
        let end = from + count as usize;
        let blocks = end.div_ceil(BLOCK_SECTORS) - from / BLOCK_SECTORS;
        let (before, after) = (&history.states[number], &history.states[number + 1]);
        let is_over = |(id, _): (NodeId, _)| match (before.sectors(id), after.sectors(id)) {
            (Some(old), Some(new)) => old
                .iter()
                .zip(new)
                .any(|(old, new)| version(old) != version(new)),
            _ => false,
        };
        blocks > 1 || before.nodes().any(is_over)
    })
}

/// Returns true if a sector of the file that an operation wrote is zeroed in a later state.
fn is_zeroed_after(history: &History, number: usize, sector: usize) -> bool {
    let write = number_of(history.lane, number);
    let later = &history.states[number + 1..];
    later[0].holder(write).is_none_or(|id| {
        let mut sectors = later
            .iter()
            .filter_map(|state| state.sectors(id)?.get(sector));
        sectors.any(|sector| version(sector) == 0)
    })
}

fn version(sector: &Sector) -> u32 {
    if sector.cut == 0 { 0 } else { sector.write }
}

fn versions(seen: &Seen, bytes: &[u8]) -> Versions {
    let pieces = bytes.chunks(SECTOR_BYTES).enumerate();
    let version = |(index, piece): (usize, &[u8])| {
        if piece.iter().all(|byte| *byte == 0) {
            return Some(0);
        }
        let own = Tag::read(piece)
            .filter(|tag| tag.file == seen.inode.get() && tag.sector as usize == index);
        own.map(|tag| tag.write)
    };
    pieces.map(version).collect()
}
