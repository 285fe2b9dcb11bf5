//! Quotas (`quota`): the counts in the quota files against the inodes in use.

use std::collections::BTreeSet;

use layout::mode::FileType;
use layout::quota::{
    BLOCK_SIZE, DEPTH, DataHeader, ENTRIES_PER_BLOCK, Entry, Header, QuotaKind, ROOT_BLOCK, VERSION,
};
use zerocopy::FromBytes;

use crate::error::Error;
use crate::inodes;
use crate::kind::ProblemKind;
use crate::map::{self, Root};
use crate::owners::Held;
use crate::problem::Location;
use crate::state::State;

/// Largest size of a quota file that is read, in bytes.
const BYTES_MAX: u64 = 128 << 20;

/// Compares the files with the counts.
pub(crate) fn check(state: &mut State<'_>) -> Result<(), Error> {
    for (kind, number) in state.quota_files() {
        let place = Location::inode(number);
        let Some(bytes) = contents(state, number)? else {
            state.problem(ProblemKind::QuotaInodeInvalid, place);
            continue;
        };
        let Some(found) = entries(kind, &bytes) else {
            state.problem(ProblemKind::QuotaFileInvalid, place);
            continue;
        };
        compare(state, kind, &found, &place);
    }
    Ok(())
}

/// Reports every owner whose counts differ.
fn compare(state: &mut State<'_>, kind: QuotaKind, found: &[Entry], place: &Location) {
    let mut counts = std::mem::take(state.owners.of(kind));
    for entry in found {
        let counted = counts.remove(&entry.id.get()).unwrap_or_default();
        compare_owner(
            state,
            place,
            (entry.space.get(), entry.inodes.get()),
            &counted,
        );
    }
    for counted in counts.into_values() {
        compare_owner(state, place, (0, 0), &counted);
    }
}

/// Reports an owner whose counts differ, with the space or, if that is right, with the inodes.
fn compare_owner(state: &mut State<'_>, place: &Location, found: (u64, u64), counted: &Held) {
    if counted.is_counted_as(found) {
        return;
    }
    let (found, expected) = match found {
        (space, inodes) if space == counted.space => (inodes, counted.inodes),
        (space, _) => (space, counted.space),
    };
    let (kind, place) = (ProblemKind::QuotaUsageWrong, place.clone());
    state.report.add_differing(kind, place, found, expected);
}

/// Returns the bytes of a quota file, unless it cannot be one.
fn contents(state: &mut State<'_>, number: u32) -> Result<Option<Vec<u8>>, Error> {
    if !state.geometry.has_inode(number) {
        return Ok(None);
    }
    let Some(inode) = inodes::read(state, number)? else {
        return Ok(None);
    };
    let size = inode.size(false);
    let is_regular = FileType::from_mode(inode.mode.get()) == FileType::Regular;
    if !is_regular || inode.links_count.get() == 0 || size > BYTES_MAX {
        return Ok(None);
    }
    let root = Root::of(state, &inode);
    let count = size.div_ceil(state.geometry.block_bytes as u64);
    let blocks = map::first_blocks(state, number, &root, count)?;
    let mut bytes = Vec::new();
    for block in blocks {
        bytes.extend_from_slice(&state.block(block)?);
    }
    let is_whole = bytes.len() as u64 >= size;
    bytes.truncate(size as usize);
    Ok(is_whole.then_some(bytes))
}

/// The blocks of a quota file, as they are found on a walk of its tree.
struct Walk<'b> {
    bytes: &'b [u8],
    blocks: u32,
    nodes: BTreeSet<u32>,
    data: BTreeSet<u32>,
}

/// Returns the entries of a quota file by walking its tree, unless the file is damaged.
fn entries(kind: QuotaKind, bytes: &[u8]) -> Option<Vec<Entry>> {
    let (header, _) = Header::ref_from_prefix(bytes).ok()?;
    let is_known = header.magic.get() == kind.magic() && header.version.get() == VERSION;
    let blocks = header.blocks.get();
    if !is_known || u64::from(blocks) * BLOCK_SIZE as u64 > bytes.len() as u64 {
        return None;
    }
    let mut walk = Walk {
        bytes,
        blocks,
        nodes: BTreeSet::new(),
        data: BTreeSet::new(),
    };
    let found = walk.tree()?;
    let is_right = walk.nodes.is_disjoint(&walk.data)
        && walk.is_free_list(header.free_block.get())
        && walk.is_list_with_room(header.block_with_room.get());
    is_right.then_some(found)
}

impl<'b> Walk<'b> {
    fn block(&self, block: u32) -> Option<&'b [u8]> {
        let at = block as usize * BLOCK_SIZE;
        self.bytes.get(at..at + BLOCK_SIZE)
    }

    fn slots(&self, block: u32) -> Option<impl Iterator<Item = Entry> + use<'b>> {
        let slots = self.block(block)?.get(size_of::<DataHeader>()..)?;
        let slots = slots.chunks_exact(size_of::<Entry>());
        Some(
            slots
                .take(ENTRIES_PER_BLOCK)
                .filter_map(|slot| Entry::read_from_bytes(slot).ok()),
        )
    }

    /// Returns the entries that the tree leads to.
    fn tree(&mut self) -> Option<Vec<Entry>> {
        let mut found = Vec::new();
        let mut nodes = vec![(ROOT_BLOCK, 0, 0_u32)];
        while let Some((node, level, prefix)) = nodes.pop() {
            if node < ROOT_BLOCK || node >= self.blocks || !self.nodes.insert(node) {
                return None;
            }
            for (index, word) in (0..).zip(self.block(node)?.chunks_exact(4)) {
                let below = u32::from_le_bytes(word.try_into().ok()?);
                let prefix = prefix << 8 | index;
                if below == 0 {
                    continue;
                }
                if level + 1 < DEPTH {
                    nodes.push((below, level + 1, prefix));
                    continue;
                }
                if below <= ROOT_BLOCK || below >= self.blocks {
                    return None;
                }
                self.data.insert(below);
                let is_it = |entry: &Entry| entry.id.get() == prefix && *entry != Entry::default();
                found.push(self.slots(below)?.find(is_it)?);
            }
        }
        Some(found)
    }

    /// Returns true if the list of free blocks leads to empty blocks outside the tree.
    fn is_free_list(&self, first: u32) -> bool {
        let (mut seen, mut block) = (BTreeSet::new(), first);
        while block != 0 {
            let is_free = block > ROOT_BLOCK
                && block < self.blocks
                && seen.insert(block)
                && !self.nodes.contains(&block)
                && !self.data.contains(&block);
            match self
                .block(block)
                .and_then(|bytes| bytes.split_first_chunk())
            {
                Some((next, rest)) if is_free && rest.iter().all(|byte| *byte == 0) => {
                    block = u32::from_le_bytes(*next);
                }
                _ => return false,
            }
        }
        true
    }

    /// Returns true if the list of blocks with room leads to data blocks with a free entry.
    fn is_list_with_room(&self, first: u32) -> bool {
        let (mut seen, mut previous, mut block) = (BTreeSet::new(), 0, first);
        while block != 0 {
            if !self.data.contains(&block) || !seen.insert(block) {
                return false;
            }
            let header = self.block(block).map(DataHeader::read_from_prefix);
            let (Some(Ok((header, _))), Some(slots)) = (header, self.slots(block)) else {
                return false;
            };
            let used = slots.filter(|entry| *entry != Entry::default()).count();
            let is_right = usize::from(header.entries.get()) == used
                && used < ENTRIES_PER_BLOCK
                && header.previous.get() == previous;
            if !is_right {
                return false;
            }
            (previous, block) = (block, header.next.get());
        }
        true
    }
}
