//! What is known of a directory's names in memory: for each block that was searched the places of
//! its entries ([`LeafNames`]), and for a linear directory of several blocks an index of its names:
//! the block of each name, and the free room of each block.
//!
//! None of it changes results or simulated costs: a search is still charged for the blocks and
//! entries that it would read without, and a new name still goes to the first place with room. The
//! index is built on the first search of such a directory. Both are kept up to date under the inode
//! lock, and dropped with the inode.

use core::hash::BuildHasher;
use core::ops::Range;

use foldhash::fast::FixedState;
use layout::{FileBlock, Map};

use super::leaf_names::LeafNames;
use crate::disk::entry::{self, Bad, RawEntry, Summary};

/// Largest number of names; a directory with more is searched block by block.
const NAMES_MAX: usize = 1 << 20;
/// Least number of entries that a search walks over before the places of a block are kept: few are
/// walked over as quickly.
const WALKED_MIN: u64 = 8;
/// Largest number of blocks of a directory whose places are kept, which bounds their memory to a
/// sixth of that of as many blocks.
const LEAVES_MAX: usize = 4096;

/// The names of one directory.
#[derive(Debug, Default)]
pub(crate) struct NamesIndex {
    state: State,
    /// The places of entries, by block.
    leaves: Option<Box<Map<FileBlock, LeafNames>>>,
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

    /// Drops everything; it is built again when it is needed.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Drops the places of entries of a block that is replaced as a whole.
    pub(crate) fn forget_block(&mut self, block: FileBlock) {
        if let Some(leaves) = &mut self.leaves {
            leaves.remove(&block);
        }
    }

    /// Finds a name in a sound block. Adds the number of entries up to it to `compared`.
    pub(crate) fn find_in<'b>(
        &mut self,
        block: FileBlock,
        bytes: &'b [u8],
        name: &[u8],
        compared: &mut u64,
    ) -> Result<Option<RawEntry<'b>>, Bad> {
        if let Some(leaf) = self.leaf(block, bytes) {
            return Ok(leaf.find(bytes, name, compared));
        }
        let before = *compared;
        let found = entry::find(bytes, name, compared)?;
        self.note_walk(block, bytes, *compared - before)?;
        Ok(found)
    }

    /// Returns the offset of the first entry of a sound block with room for a name of this length.
    /// Adds the number of entries up to it to `walked`.
    pub(crate) fn room_in(
        &mut self,
        block: FileBlock,
        bytes: &[u8],
        name_bytes: usize,
        walked: &mut u64,
    ) -> Result<Option<usize>, Bad> {
        if let Some(leaf) = self.leaf(block, bytes) {
            return Ok(leaf.room(entry::size_of_name(name_bytes), walked));
        }
        let before = *walked;
        let found = entry::find_room(bytes, name_bytes, walked)?;
        self.note_walk(block, bytes, *walked - before)?;
        Ok(found)
    }

    /// Returns the offset of the entry of a sound block before the one at `offset`, if there is
    /// one. Adds the number of entries before the latter to `walked`.
    pub(crate) fn before(
        &self,
        block: FileBlock,
        bytes: &[u8],
        offset: usize,
        walked: &mut u64,
    ) -> Option<usize> {
        match self.leaf(block, bytes) {
            Some(leaf) => leaf.before(offset, walked),
            None => entry::previous_of(bytes, offset, walked),
        }
    }

    /// Notes that an entry was written into the room of the one at `offset`.
    pub(crate) fn note_inserted(&mut self, block: FileBlock, bytes: &[u8], offset: usize) {
        if let Some(leaf) = self
            .leaves
            .as_mut()
            .and_then(|leaves| leaves.get_mut(&block))
        {
            leaf.note_inserted(bytes, offset);
        }
        self.set_summary(block, bytes);
    }

    /// Notes that the entry at `offset` was erased: merged with `previous`, or marked unused.
    pub(crate) fn note_erased(
        &mut self,
        block: FileBlock,
        bytes: &[u8],
        previous: Option<usize>,
        offset: usize,
    ) {
        if let Some(leaf) = self
            .leaves
            .as_mut()
            .and_then(|leaves| leaves.get_mut(&block))
        {
            leaf.note_erased(bytes, previous, offset);
        }
        self.set_summary(block, bytes);
    }

    /// Returns the places of a block's entries, if they are kept.
    fn leaf(&self, block: FileBlock, bytes: &[u8]) -> Option<&LeafNames> {
        let leaf = self.leaves.as_ref()?.get(&block)?;
        debug_assert_eq!(
            LeafNames::of(bytes).as_ref(),
            Ok(leaf),
            "every change of block {block} is noted"
        );
        Some(leaf)
    }

    /// Keeps the places of a block's entries after a walk over many.
    fn note_walk(&mut self, block: FileBlock, bytes: &[u8], walked: u64) -> Result<(), Bad> {
        if walked < WALKED_MIN {
            return Ok(());
        }
        let leaves = self.leaves.get_or_insert_default();
        if leaves.len() < LEAVES_MAX {
            leaves.insert(block, LeafNames::of(bytes)?);
        }
        Ok(())
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
    fn set_summary(&mut self, block: FileBlock, bytes: &[u8]) {
        let State::Built(built) = &mut self.state else {
            return;
        };
        let leaf = self.leaves.as_ref().and_then(|leaves| leaves.get(&block));
        let summary = match leaf {
            Some(leaf) => leaf.summary(),
            None => entry::summary(bytes).unwrap_or_default(),
        };
        if let Some(slot) = usize::try_from(block.get())
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
