//! An in-memory index of a linear directory's names: the block of each name, and the free room of
//! each block.
//!
//! The index changes neither results nor simulated costs: a search is still charged for the blocks
//! and entries that a linear search would read, and a new name still goes to the first block with
//! room. It is built on the first search of a directory of several blocks, kept up to date under
//! the inode lock, and dropped with the inode.

use crate::disk::entry::{self, Bad, Summary};
use core::hash::BuildHasher;
use core::ops::Range;

use foldhash::fast::FixedState;
use layout::Map;

/// Largest number of names; a directory with more is searched block by block.
const NAMES_MAX: usize = 1 << 20;

/// The index of one directory.
#[derive(Debug, Default)]
pub(crate) struct NamesIndex {
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// The index is not built yet.
    #[default]
    Absent,
    /// The index cannot be built: two names share a hash, or there are too many.
    Refused,
    /// The index is complete: a name that it lacks is not in the directory.
    Built(Built),
}

#[derive(Debug, Default)]
struct Built {
    /// The block of each name, by the name's hash.
    blocks: Map<u64, u32>,
    /// For each block an upper bound of the room of its entries, and their number.
    summaries: Vec<Summary>,
}

/// The answer of the index for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hint {
    /// The index has no answer.
    Unknown,
    /// The name is in this block, or nowhere.
    Block(u32),
    /// The directory has no such name.
    Absent,
}

fn hash(name: &[u8]) -> u64 {
    FixedState::default().hash_one(name)
}

impl NamesIndex {
    /// Returns true if the index should be built before the next search.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self.state, State::Absent)
    }

    /// Starts building; blocks are added in order.
    pub(crate) fn begin(&mut self) {
        self.state = State::Built(Built::default());
    }

    /// Drops the index; it is rebuilt when it is needed.
    pub(crate) fn forget(&mut self) {
        self.state = State::Absent;
    }

    /// Adds the next block.
    pub(crate) fn add_block(&mut self, bytes: &[u8]) -> Result<(), Bad> {
        let State::Built(built) = &mut self.state else {
            return Ok(());
        };
        let number = built.summaries.len();
        let number = u32::try_from(number).expect("directories are below 2^32 blocks");
        let mut is_unique = true;
        for entry in entry::entries(bytes) {
            let entry = entry?;
            if entry.inode != 0 {
                is_unique &= built.blocks.insert(hash(entry.name), number).is_none();
            }
        }
        built.summaries.push(entry::summary(bytes)?);
        if !is_unique || built.blocks.len() > NAMES_MAX {
            self.state = State::Refused;
        }
        Ok(())
    }

    /// Looks up a name.
    pub(crate) fn find(&self, name: &[u8]) -> Hint {
        match &self.state {
            State::Built(built) => built
                .blocks
                .get(&hash(name))
                .map_or(Hint::Absent, |block| Hint::Block(*block)),
            State::Absent | State::Refused => Hint::Unknown,
        }
    }

    /// Returns the first block from `from` on that may have room for an entry of this size, if
    /// there is one.
    pub(crate) fn room(&self, from: u64, size: usize) -> Option<u64> {
        let State::Built(built) = &self.state else {
            return Some(from);
        };
        let from = usize::try_from(from).ok()?;
        let rest = built.summaries.get(from..)?;
        let has_room = |summary: &Summary| usize::from(summary.room) >= size;
        let found = rest.iter().position(has_room)?;
        Some((from + found) as u64)
    }

    /// Returns the number of entries of blocks, as far as the index knows it.
    pub(crate) fn entries_of(&self, blocks: Range<u64>) -> u64 {
        let State::Built(built) = &self.state else {
            return 0;
        };
        let [first, end] = [blocks.start, blocks.end]
            .map(|at| usize::try_from(at).map_or(usize::MAX, |at| at.min(built.summaries.len())));
        let summaries = built.summaries.get(first..end).unwrap_or_default();
        summaries
            .iter()
            .map(|summary| u64::from(summary.count))
            .sum()
    }

    /// Updates a block's summary.
    pub(crate) fn set_summary(&mut self, block: u64, bytes: &[u8]) {
        let State::Built(built) = &mut self.state else {
            return;
        };
        let summary = entry::summary(bytes).unwrap_or_default();
        if let Some(slot) = usize::try_from(block)
            .ok()
            .and_then(|at| built.summaries.get_mut(at))
        {
            *slot = summary;
        }
    }

    /// Adds a name.
    pub(crate) fn insert(&mut self, name: &[u8], block: u64) {
        let State::Built(built) = &mut self.state else {
            return;
        };
        let block = u32::try_from(block).expect("directories are below 2^32 blocks");
        if built.blocks.insert(hash(name), block).is_some() || built.blocks.len() > NAMES_MAX {
            self.state = State::Refused;
        }
    }

    /// Removes a name.
    pub(crate) fn remove(&mut self, name: &[u8]) {
        if let State::Built(built) = &mut self.state {
            built.blocks.remove(&hash(name));
        }
    }
}
