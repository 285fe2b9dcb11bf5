//! Estimates the space that a tree takes in an image.

use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::{Context, Result};
use ext::volume::FileKind;
use layout::directory::EntryHeader;
use layout::inode::{DIRECT_BLOCKS, FAST_SYMLINK_MAX, POINTER_SIZE};

use super::edits::Edits;
use super::origin::Origin;
use super::paged::{Index, Paged};
use super::{Node, Parts, Stop, split_path};

/// Reciprocal of the minimum fill of an indexed directory's blocks: a full block is split in half.
const FILLED_PART: u64 = 2;
/// Bytes of an extent in a block map.
const EXTENT_BYTES: u64 = 12;
/// Maximum number of extents in an inode.
const EXTENTS_IN_INODE: u64 = 4;
/// Attributes of more bytes may need a block of their own.
const ATTRIBUTES_IN_INODE_MAX: usize = 60;

/// Memory of each list of directories, in bytes.
const NAMES_MEMORY: usize = 4 << 20;

/// Space that a tree needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of inodes, without the reserved ones.
    pub inodes: u64,
    /// Number of blocks, or clusters, for data, block maps, directories and attributes.
    pub blocks: u64,
    /// Bytes of data.
    pub bytes: u64,
}

/// The units in which space is counted, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Units {
    pub(crate) block_bytes: u64,
    /// Unit of allocation: a block, or a cluster of blocks.
    pub(crate) cluster_bytes: u64,
}

impl Tally {
    /// Counts a tree after its edits.
    pub(crate) fn of(origin: &Origin, edits: &Edits, units: Units, stop: &Stop) -> Result<Self> {
        let mut tally = Self::default();
        let mut names = NameBytes::new();
        // Consecutive nodes are usually in the same directory.
        let mut last = (Vec::new(), 0);
        origin.survey(&mut |node| {
            stop.check()?;
            let (parent, name) = split_path(&node.path);
            if last.0 != parent {
                let (parent, bytes) = std::mem::replace(&mut last, (parent.to_vec(), 0));
                names.add(&parent, bytes)?;
            }
            last.1 += entry_bytes(name.len());
            if node.link_to.is_none() {
                let node = edits.edited(node).with_context(|| node.text())?;
                tally.add_all(&units.file(node.kind, node.held, node.target.len()));
                tally.add_all(&units.attributes(&node.attributes));
                tally.add_all(&units.more_for_parts(&node)?);
            }
            Ok(())
        })?;
        names.add(&last.0, last.1)?;
        for number in 0..names.sums.len() {
            tally.blocks += units.more_for_names(names.sums.get(number)?[1]);
        }
        Ok(tally)
    }

    /// Adds other space.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.inodes += other.inodes;
        self.blocks += other.blocks;
        self.bytes += other.bytes;
    }
}

/// Returns the bytes of a directory entry.
pub(crate) fn entry_bytes(name_bytes: usize) -> u64 {
    (size_of::<EntryHeader>() + name_bytes).next_multiple_of(4) as u64
}

impl Units {
    /// Returns the space of a file without its attributes. A directory has one block at least.
    pub(crate) fn file(self, kind: FileKind, held: u64, target_bytes: usize) -> Tally {
        let (blocks, bytes) = match kind {
            FileKind::Regular => (self.with_map(held.div_ceil(self.cluster_bytes)), held),
            FileKind::Directory => (1, 0),
            FileKind::Symlink => (u64::from(target_bytes > FAST_SYMLINK_MAX), 0),
            _ => (0, 0),
        };
        Tally {
            inodes: 1,
            blocks,
            bytes,
        }
    }

    /// Returns the space of a file whose parts are known, besides that of [`Self::file`]: its data
    /// fills units in part, or the host holds fewer bytes because it has compressed them.
    pub(crate) fn more_for_parts(self, node: &Node) -> Result<Tally> {
        let Some(parts) = &node.parts else {
            return Ok(Tally::default());
        };
        let estimate = self.file(node.kind, node.held, 0);
        let mut bytes = 0;
        for part in parts.iter() {
            bytes += part?.1;
        }
        Ok(Tally {
            inodes: 0,
            blocks: self.for_parts(parts)?.saturating_sub(estimate.blocks),
            bytes: bytes.saturating_sub(estimate.bytes),
        })
    }

    /// Returns the number of units for data and its block map.
    fn for_parts(self, parts: &Parts) -> Result<u64> {
        let data = touched(parts, self.cluster_bytes)?;
        // Either a map of pointers, or one of extents, whose blocks may be half full.
        let per_block = self.block_bytes / POINTER_SIZE as u64;
        let (mut pointers, mut span) = (0, self.cluster_bytes);
        let end = parts.end()?;
        if end > span * DIRECT_BLOCKS as u64 {
            while span < end {
                span = span.saturating_mul(per_block);
                pointers += touched(parts, span)? + 1;
            }
        }
        let leaves = match parts.count() as u64 {
            0..=EXTENTS_IN_INODE => 0,
            extents => extents.div_ceil(self.block_bytes / EXTENT_BYTES / FILLED_PART) + 1,
        };
        Ok(self.with_map(data).max(data + pointers.max(leaves)))
    }

    /// Returns the space of a file's attributes.
    pub(crate) fn attributes(self, attributes: &[(Vec<u8>, Vec<u8>)]) -> Tally {
        let mut tally = Tally::default();
        let sizes = attributes.iter();
        let bytes: usize = sizes
            .map(|(name, value)| name.len() + value.len() + 16)
            .sum();
        tally.blocks += u64::from(bytes > ATTRIBUTES_IN_INODE_MAX);
        if bytes as u64 > self.block_bytes - ATTRIBUTES_IN_INODE_MAX as u64 {
            // With `ea_inode` each of the values may take an inode; without it they do not fit.
            let values = attributes.iter().map(|(_, value)| value.len() as u64);
            tally.inodes += attributes.len() as u64;
            tally.blocks += values
                .map(|bytes| self.with_map(bytes.div_ceil(self.cluster_bytes)))
                .sum::<u64>();
        }
        tally
    }

    /// Returns the blocks that a directory needs for entries of so many bytes, besides its first.
    pub(crate) fn more_for_names(self, bytes: u64) -> u64 {
        // The first block also holds `.` and `..`; two more blocks allow for the index.
        let blocks = match bytes.div_ceil(self.cluster_bytes - 24) {
            0 | 1 => 1,
            full => 2 + full * FILLED_PART,
        };
        self.with_map(blocks) - 1
    }

    /// Returns the number of blocks for data and its indirect blocks.
    fn with_map(self, data: u64) -> u64 {
        let pointers = self.cluster_bytes / POINTER_SIZE as u64;
        let mut blocks = data;
        let mut level = data.saturating_sub(DIRECT_BLOCKS as u64);
        // One more block per level, because the first block of each tree is not full.
        while level > 0 {
            level = level.div_ceil(pointers);
            blocks += level + 1;
            level -= 1;
        }
        blocks
    }
}

/// Bytes of the names in each directory. Directories are known by a hash, because the paths of an
/// archive may be long and many.
struct NameBytes {
    index: Index,
    /// Hash and bytes of each directory.
    sums: Paged<[u64; 2]>,
}

impl NameBytes {
    fn new() -> Self {
        Self {
            index: Index::new(NAMES_MEMORY),
            sums: Paged::new(NAMES_MEMORY),
        }
    }

    fn add(&mut self, directory: &[u8], bytes: u64) -> Result<()> {
        let key = hash(directory);
        let short = (key >> 32) as u32;
        let sums = &mut self.sums;
        let known = self
            .index
            .find(short, |number| Ok(sums.get(number as usize)?[0] == key))?;
        if let Some(number) = known {
            sums.get_mut(number as usize)?[1] += bytes;
            return Ok(());
        }
        self.index.add(short, u32::try_from(sums.len())?)?;
        sums.push([key, bytes])
    }
}

/// Returns the number of spans of a file that data lies in. The parts ascend.
fn touched(parts: &Parts, span: u64) -> Result<u64> {
    let (mut count, mut reached) = (0, 0);
    for part in parts.iter() {
        let (offset, length) = part?;
        if length == 0 {
            continue;
        }
        let first = (offset / span).max(reached);
        reached = (offset + length).div_ceil(span);
        count += reached - first;
    }
    Ok(count)
}

fn hash(path: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_with_data_are_counted_once() {
        for (parts, count) in [
            (&[][..], 0),
            (&[(0, 0), (70, 0)], 0),
            (&[(0, 1)], 1),
            (&[(0, 10), (10, 1)], 2),
            (&[(9, 2)], 2),
            (&[(0, 1), (5, 1), (9, 1), (30, 30)], 4),
            (&[(0, 25), (26, 1), (29, 2)], 4),
        ] {
            let list = Parts::of(parts).expect("there is room");
            let found = touched(&list, 10).expect("they are there");
            assert_eq!(found, count, "{parts:?}");
        }
    }

    /// Pieces far apart each need a unit, and with pointers a block of them.
    #[test]
    fn pieces_of_a_file_are_counted_in_units() {
        let units = Units {
            block_bytes: 4096,
            cluster_bytes: 4096,
        };
        let every = |stride: u64| (0..1000).map(|at| (at * stride, 512)).collect::<Vec<_>>();
        let count = |units: Units, parts: &[(u64, u64)]| {
            let parts = Parts::of(parts).expect("there is room");
            units.for_parts(&parts).expect("they are there")
        };
        assert_eq!(count(units, &[(0, 40_960)]), 10);
        let near = count(units, &every(8192));
        assert!((1003..1013).contains(&near), "{near}");
        let far = count(units, &every(64 << 20));
        assert!((2001 + 16..2100).contains(&far), "{far}");
        let clusters = Units {
            cluster_bytes: 65_536,
            ..units
        };
        let near = count(clusters, &every(8192));
        assert!((125 + 3..150).contains(&near), "{near}");
    }

    #[test]
    fn maps_are_counted_with_their_data() {
        for (data, at_least) in [
            (0, 0),
            (12, 12),
            (13, 14),
            (12 + 256, 12 + 256 + 1),
            (12 + 256 + 1, 12 + 256 + 1 + 3),
            (12 + 256 + 65_536, 12 + 256 + 65_536 + 1 + 257),
            (12 + 256 + 65_537, 12 + 256 + 65_537 + 1 + 257 + 3),
        ] {
            let units = Units {
                block_bytes: 1024,
                cluster_bytes: 1024,
            };
            let counted = units.with_map(data);
            assert!(
                (at_least..=at_least + 8).contains(&counted),
                "{data}: {counted}, not {at_least}"
            );
        }
    }
}
