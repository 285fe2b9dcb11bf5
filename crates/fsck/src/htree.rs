//! Hash trees: the root's fields, the entries of index blocks, and the hashes of the names in each
//! leaf.
//!
//! Every block of the directory is the root, a node (an index block below the root) or a leaf. An
//! index entry refers to a block and assigns a range of hashes to it; each block except the root is
//! referred to once. The hashes of a leaf are known once its entries were read; [`finish`]
//! compares.

use layout::hash::HashVersion;
use layout::htree::{self as disk, CountLimit, Entry, RootInfo};
use layout::superblock::MiscFlags;
use zerocopy::FromBytes;

use crate::entry::entry_at;
use crate::error::Error;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::state::{Directory, State};

/// Flag of the root that changes the format.
const ROOT_FLAG_INCOMPATIBLE: u8 = 1;
/// Maximum number of levels that are counted; there are more only in a cycle of index blocks.
const DEPTH_MAX: u32 = 8;
/// Version of the hash of encrypted names that ignore case, which needs the key.
const SIP_HASH: u8 = 6;
/// Largest hash.
const HASH_LAST: u32 = 0xFFFF_FFFE;
/// Lowest bit of an entry's hash: names with this hash continue from the previous block.
const CONTINUED: u32 = 1;

/// A block of a tree. A block that was never entered is a hole, with hashes of 0.
#[derive(Debug, Clone, Copy, Default)]
struct Node {
    is_leaf: bool,
    /// Lowest and highest hash of its names, or of the names in the leaves below it.
    low: u32,
    high: u32,
    /// Range that its index entry assigns to it.
    least: u32,
    most: u32,
    /// Index block of that entry.
    parent: u32,
    /// The bounds of a parent's first and last entry are not compared.
    is_first: bool,
    is_last: bool,
    references: u32,
}

/// The hash tree of a directory, while it is read.
pub(crate) struct Tree {
    inode: u32,
    /// The hash of names; none if it is unknown, or needs Unicode.
    version: Option<HashVersion>,
    /// True if names ignore case: their hashes are not compared.
    is_folded: bool,
    /// Offset of the root's entries.
    root_entries: usize,
    /// Number of levels of index blocks, the root included.
    levels: u32,
    nodes: Vec<Node>,
}

/// The hash of a leaf's names; 0 for all if the hash version is unknown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hashing(pub(crate) Option<HashVersion>);

impl Tree {
    /// Reads the root's fields. Returns `None` if there is no tree to read.
    pub(crate) fn begin(
        state: &mut State<'_>,
        directory: &Directory,
    ) -> Result<Option<Self>, Error> {
        let place = Location::inode(directory.inode);
        let blocks = directory.first_block..directory.first_block + directory.block_count;
        let (Some((0, root)), Some((last, _))) = (
            state.directory_blocks[blocks.clone()].first().copied(),
            state.directory_blocks[blocks].last().copied(),
        ) else {
            state.problem(ProblemKind::HtreeRoot, place);
            return Ok(None);
        };
        let bytes = state.block(root)?;
        let Ok((info, _)) = RootInfo::ref_from_prefix(&bytes[disk::ROOT_INFO_OFFSET..]) else {
            return Ok(None);
        };
        let version = check_root(state, place, info, directory);
        let root_entries = disk::ROOT_INFO_OFFSET + usize::from(info.info_length);
        // A hole is not a block of the tree, and a tree cannot have more blocks than the directory.
        let count = (last as usize + 1).min(2 * directory.block_count + 16);
        Ok(Some(Self {
            inode: directory.inode,
            version: version.filter(|_| !directory.is_folded),
            is_folded: directory.is_folded,
            root_entries,
            levels: u32::from(info.indirect_levels) + 1,
            nodes: vec![Node::default(); count],
        }))
    }

    /// Enters the next block, and reads it if it is an index block. Returns the hash of its names
    /// if it is a leaf.
    pub(crate) fn enter(
        &mut self,
        state: &mut State<'_>,
        file_block: u32,
        bytes: &[u8],
    ) -> Option<Hashing> {
        if let Some(node) = self.nodes.get_mut(file_block as usize) {
            node.low = u32::MAX;
        }
        let offset = if file_block == 0 {
            self.root_entries
        } else if is_node(bytes, state.checksum_seed.is_some()) {
            disk::NODE_ENTRIES_OFFSET
        } else {
            if let Some(node) = self.nodes.get_mut(file_block as usize) {
                node.is_leaf = true;
            }
            return Some(Hashing(self.version));
        };
        self.read_index(state, file_block, &bytes[offset..]);
        None
    }

    /// Returns the number of index blocks above a block.
    fn depth(&self, node: &Node) -> u32 {
        let (mut parent, mut depth) = (node.parent, 1);
        while parent != 0 && depth <= DEPTH_MAX {
            depth += 1;
            parent = self
                .nodes
                .get(parent as usize)
                .map_or(0, |node| node.parent);
        }
        depth
    }

    /// Collects the hashes of leaves in the index blocks below the root.
    fn gather(&mut self) {
        for leaf in 0..self.nodes.len() {
            let Node {
                is_leaf,
                low,
                high,
                mut parent,
                ..
            } = self.nodes[leaf];
            let mut levels = DEPTH_MAX;
            while is_leaf && parent != 0 && levels > 0 {
                let Some(node) = self.nodes.get_mut(parent as usize) else {
                    break;
                };
                (node.low, node.high) = (node.low.min(low), node.high.max(high));
                parent = node.parent;
                levels -= 1;
            }
        }
    }

    /// Records the hashes of a leaf.
    pub(crate) fn leave(&mut self, file_block: u32, low: u32, high: u32) {
        if let Some(node) = self.nodes.get_mut(file_block as usize) {
            (node.low, node.high) = (low, high);
        }
    }

    fn read_index(&mut self, state: &mut State<'_>, file_block: u32, bytes: &[u8]) {
        let place = Location::inode(self.inode).at_file_block(file_block.into());
        let Ok((head, _)) = CountLimit::ref_from_prefix(bytes) else {
            return;
        };
        let (limit, mut count) = (usize::from(head.limit.get()), usize::from(head.count.get()));
        let expected = disk::limit(bytes.len(), 0, state.checksum_seed.is_some());
        if limit != expected {
            let kind = ProblemKind::HtreeLimit;
            let (limit, expected) = (limit as u64, expected as u64);
            state
                .report
                .add_differing(kind, place.clone(), limit, expected);
        }
        if count > expected {
            let kind = ProblemKind::HtreeCount;
            state.report.add_found(kind, place.clone(), count as u64);
            count = expected;
        }
        let Ok((entries, _)) = <[Entry]>::ref_from_prefix_with_elems(bytes, count) else {
            return;
        };
        let mut previous = 0;
        for (index, entry) in entries.iter().enumerate() {
            let hash = if index == 0 {
                0
            } else {
                entry.hash.get() & !CONTINUED
            };
            let block = entry.block.get() & disk::BLOCK_MASK;
            let Some(node) = self.nodes.get_mut(block as usize) else {
                let kind = ProblemKind::HtreeBlockOutOfRange;
                state.report.add_found(kind, place.clone(), block.into());
                continue;
            };
            if hash < previous {
                let kind = ProblemKind::HtreeHashOrder;
                state.report.add_found(kind, place.clone(), hash.into());
            }
            previous = hash;
            let next = entries.get(index + 1);
            // The block of the first reference is the parent.
            if node.references == 0 {
                node.parent = file_block;
            }
            node.references += 1;
            node.least = hash;
            node.most = next.map_or(HASH_LAST, |next| next.hash.get() & !CONTINUED);
            node.is_first |= index == 0;
            node.is_last |= next.is_none();
        }
    }
}

/// Reports faults of the root. Returns its hash version, if it is known.
fn check_root(
    state: &mut State<'_>,
    place: Location,
    info: &RootInfo,
    directory: &Directory,
) -> Option<HashVersion> {
    let levels_max = match state.has_large_directories() {
        true => disk::INDIRECT_LEVELS_MAX_LARGE_DIR,
        false => disk::INDIRECT_LEVELS_MAX,
    };
    let mut report = |kind, found: u8| {
        state.report.add_found(kind, place.clone(), found.into());
    };
    if info.reserved_zero.get() != 0 || info.info_length < disk::ROOT_INFO_LENGTH {
        report(ProblemKind::HtreeRoot, info.info_length);
    }
    let version = HashVersion::from_raw(info.hash_version);
    let is_keyed = directory.is_folded && directory.is_encrypted;
    let is_sip = is_keyed && info.hash_version == SIP_HASH;
    if !is_sip && version.is_none_or(|version| version.raw_on_disk() != info.hash_version) {
        report(ProblemKind::HtreeHashVersion, info.hash_version);
    }
    if info.unused_flags & ROOT_FLAG_INCOMPATIBLE != 0 {
        report(ProblemKind::HtreeFlags, info.unused_flags);
    }
    if info.indirect_levels > levels_max {
        report(ProblemKind::HtreeDepth, info.indirect_levels);
    }
    let is_unsigned = state.raw.misc_flags().contains(MiscFlags::UNSIGNED_HASH);
    let version = version?;
    let is_on_disk = version.raw_on_disk() == info.hash_version;
    Some(version.with_signedness(is_unsigned || !is_on_disk))
}

/// True for an index block below the root: one unused entry, with the maximum number of index
/// entries.
fn is_node(bytes: &[u8], has_checksum: bool) -> bool {
    let is_empty = entry_at(bytes, 0).is_some_and(|entry| {
        entry.inode == 0 && entry.record_length == bytes.len() && entry.name.is_empty()
    });
    let head = CountLimit::ref_from_prefix(&bytes[disk::NODE_ENTRIES_OFFSET..]);
    let limit = disk::limit(bytes.len(), disk::NODE_ENTRIES_OFFSET, has_checksum);
    is_empty && head.is_ok_and(|(head, _)| usize::from(head.limit.get()) == limit)
}

/// Compares after all blocks were read: each must be referred to once and hold hashes in its range.
pub(crate) fn finish(state: &mut State<'_>, mut tree: Tree) {
    tree.gather();
    state.report.statistics.indexed_directories += 1;
    if tree.is_folded {
        let place = Location::inode(tree.inode);
        state.problem(ProblemKind::HtreeHashesUnchecked, place);
    }
    for (file_block, node) in tree.nodes.iter().enumerate() {
        let place = || Location::inode(tree.inode).at_file_block(file_block as u64);
        let is_compared = !tree.is_folded;
        if is_compared && !node.is_first && node.low < node.least {
            let (kind, low) = (ProblemKind::HtreeMinHash, node.low.into());
            state
                .report
                .add_differing(kind, place(), low, node.least.into());
        }
        if is_compared && !node.is_last && node.high > node.most {
            let (kind, high) = (ProblemKind::HtreeMaxHash, node.high.into());
            state
                .report
                .add_differing(kind, place(), high, node.most.into());
        }
        let depth = tree.depth(node);
        if node.is_leaf && depth != tree.levels {
            let (kind, levels) = (ProblemKind::HtreeLeafDepth, tree.levels.into());
            state
                .report
                .add_differing(kind, place(), depth.into(), levels);
        }
        let references = node.references + u32::from(file_block == 0);
        if references == 0 {
            state.problem(ProblemKind::HtreeBlockNotReferenced, place());
        } else if references > 1 {
            state.problem(ProblemKind::HtreeBlockReferencedTwice, place());
        }
    }
}
