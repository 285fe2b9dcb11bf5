//! Estimates the space that a tree takes in an image.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::Result;
use ext::volume::FileKind;
use layout::directory::EntryHeader;
use layout::inode::{DIRECT_BLOCKS, FAST_SYMLINK_MAX, POINTER_SIZE};

use super::{Node, Origin, split_path};

/// Reciprocal of the minimum fill of an indexed directory's blocks: a full block is split in half.
const FILLED_PART: u64 = 2;
/// Attributes of more bytes may need a block of their own.
const ATTRIBUTES_IN_INODE_MAX: usize = 60;

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

impl Tally {
    /// Counts a tree, in blocks of this size, or in the clusters by which blocks are allocated.
    ///
    /// # Errors
    /// Fails if the tree cannot be read.
    pub fn of(origin: &Origin, block_bytes: u32, cluster_bytes: u32) -> Result<Self> {
        let mut tally = Self::default();
        // Keyed by a hash, because the paths of an archive may be long and many.
        let mut names = BTreeMap::<u64, u64>::new();
        // Consecutive nodes are usually in the same directory.
        let mut last = (Vec::new(), 0);
        origin.survey(&mut |node| {
            let (parent, name) = split_path(&node.path);
            if last.0 != parent {
                let (parent, bytes) = std::mem::replace(&mut last, (parent.to_vec(), 0));
                *names.entry(hash(&parent)).or_default() += bytes;
            }
            last.1 += ((size_of::<EntryHeader>() + name.len()).next_multiple_of(4)) as u64;
            tally.add(node, u64::from(block_bytes), u64::from(cluster_bytes));
        })?;
        *names.entry(hash(&last.0)).or_default() += last.1;
        for bytes in names.into_values() {
            // The first block also holds `.` and `..`; two more blocks allow for the index.
            let room = u64::from(cluster_bytes) - 24;
            let blocks = match bytes.div_ceil(room) {
                0 | 1 => 1,
                full => 2 + full * FILLED_PART,
            };
            tally.blocks += with_map(blocks, u64::from(cluster_bytes)) - 1;
        }
        Ok(tally)
    }

    /// Adds the space of another tree.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.inodes += other.inodes;
        self.blocks += other.blocks;
        self.bytes += other.bytes;
    }

    fn add(&mut self, node: &Node, block_bytes: u64, cluster_bytes: u64) {
        if node.link_to.is_some() {
            return;
        }
        self.inodes += 1;
        let attributes = node.attributes.iter();
        let attribute_bytes: usize = attributes
            .map(|(name, value)| name.len() + value.len() + 16)
            .sum();
        self.blocks += u64::from(attribute_bytes > ATTRIBUTES_IN_INODE_MAX);
        if attribute_bytes as u64 > block_bytes - ATTRIBUTES_IN_INODE_MAX as u64 {
            // With `ea_inode` each of the values may take an inode; without it they do not fit.
            let attributes = node.attributes.iter();
            let values = attributes.map(|(_, value)| value.len() as u64);
            self.inodes += node.attributes.len() as u64;
            self.blocks += values
                .map(|bytes| with_map(bytes.div_ceil(cluster_bytes), cluster_bytes))
                .sum::<u64>();
        }
        self.blocks += match node.kind {
            FileKind::Regular => {
                self.bytes += node.held;
                with_map(node.held.div_ceil(cluster_bytes), cluster_bytes)
            }
            // Each directory has at least one block; the rest is known when all names are.
            FileKind::Directory => 1,
            FileKind::Symlink => u64::from(node.target.len() > FAST_SYMLINK_MAX),
            _ => 0,
        };
    }
}

fn hash(path: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

/// Returns the number of blocks for data and its indirect blocks.
fn with_map(data: u64, block_bytes: u64) -> u64 {
    let pointers = block_bytes / POINTER_SIZE as u64;
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

#[cfg(test)]
mod tests {
    use super::*;

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
            let counted = with_map(data, 1024);
            assert!(
                (at_least..=at_least + 8).contains(&counted),
                "{data}: {counted}, not {at_least}"
            );
        }
    }
}
