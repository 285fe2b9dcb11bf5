//! An index of a linear directory's names in memory: which block holds a name, and where there is room.
//!
//! It saves time, not work that would be seen: a search still costs (in simulated time) the blocks that a linear search would have
//! read, and a new name still goes to the first block with room. It is built when a directory of several blocks is
//! first searched, kept up to date under the inode lock, and dropped with the inode.

use crate::disk::entry::{self, Bad};
use core::hash::BuildHasher;

use foldhash::fast::FixedState;
use layout::Map;

/// Names beyond which a directory is searched block by block, in memory as on disk.
const NAMES_MAX: usize = 1 << 20;

/// The index of one directory.
#[derive(Debug, Default)]
pub(crate) struct NamesIndex {
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// Not built yet.
    #[default]
    Absent,
    /// Not to be built: two names share a hash, or there are too many.
    Refused,
    /// Complete: a name that is not in it is not in the directory.
    Built(Built),
}

#[derive(Debug, Default)]
struct Built {
    /// From a name's hash to its block.
    blocks: Map<u64, u32>,
    /// For each block, no entry has more room than this.
    room: Vec<u16>,
}

/// What the index says of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hint {
    /// The index cannot tell.
    Unknown,
    /// The name is in this block, or nowhere.
    Block(u32),
    /// There is no such name.
    Absent,
}

fn hash(name: &[u8]) -> u64 {
    FixedState::default().hash_one(name)
}

impl NamesIndex {
    /// Whether it should be built before the next search.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self.state, State::Absent)
    }

    /// Begins to build; blocks are added in order.
    pub(crate) fn begin(&mut self) {
        self.state = State::Built(Built::default());
    }

    /// Forgets everything; it is built anew when it is wanted.
    pub(crate) fn forget(&mut self) {
        self.state = State::Absent;
    }

    /// Adds the next block.
    pub(crate) fn add_block(&mut self, bytes: &[u8]) -> Result<(), Bad> {
        let State::Built(built) = &mut self.state else {
            return Ok(());
        };
        let number = u32::try_from(built.room.len()).expect("directories are below 2^32 blocks");
        let mut is_unique = true;
        for entry in entry::entries(bytes) {
            let entry = entry?;
            if entry.inode != 0 {
                is_unique &= built.blocks.insert(hash(entry.name), number).is_none();
            }
        }
        built.room.push(entry::largest_room(bytes)?);
        if !is_unique || built.blocks.len() > NAMES_MAX {
            self.state = State::Refused;
        }
        Ok(())
    }

    /// Where a name is.
    pub(crate) fn find(&self, name: &[u8]) -> Hint {
        match &self.state {
            State::Built(built) => built
                .blocks
                .get(&hash(name))
                .map_or(Hint::Absent, |block| Hint::Block(*block)),
            State::Absent | State::Refused => Hint::Unknown,
        }
    }

    /// The first block from `from` on that may have room for an entry of this size; none if none has.
    pub(crate) fn room(&self, from: u64, size: usize) -> Option<u64> {
        let State::Built(built) = &self.state else {
            return Some(from);
        };
        let from = usize::try_from(from).ok()?;
        let rest = built.room.get(from..)?;
        let found = rest.iter().position(|room| usize::from(*room) >= size)?;
        Some((from + found) as u64)
    }

    /// Notes what a block's largest room is now.
    pub(crate) fn set_room(&mut self, block: u64, bytes: &[u8]) {
        let State::Built(built) = &mut self.state else {
            return;
        };
        let room = entry::largest_room(bytes).unwrap_or(0);
        if let Some(slot) = usize::try_from(block)
            .ok()
            .and_then(|at| built.room.get_mut(at))
        {
            *slot = room;
        }
    }

    /// Notes a new name.
    pub(crate) fn insert(&mut self, name: &[u8], block: u64) {
        let State::Built(built) = &mut self.state else {
            return;
        };
        let block = u32::try_from(block).expect("directories are below 2^32 blocks");
        if built.blocks.insert(hash(name), block).is_some() || built.blocks.len() > NAMES_MAX {
            self.state = State::Refused;
        }
    }

    /// Notes that a name is gone.
    pub(crate) fn remove(&mut self, name: &[u8]) {
        if let State::Built(built) = &mut self.state {
            built.blocks.remove(&hash(name));
        }
    }
}
