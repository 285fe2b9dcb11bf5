//! Indexed directories: a tree of hashes whose leaves are ordinary directory blocks.
//!
//! Block 0 is the root and still starts with `.` and `..`; below it are at most one level of nodes,
//! two with `large_dir`, then the leaves. A name is in the leaf of the last hash that is not
//! greater than its own. If more names share a hash than fit in a leaf, the next leaf's hash has
//! its lowest bit set and the search continues there.
//!
//! A full leaf is split in two at half of its bytes, the new name included, so that one split
//! always makes room. The index grows as `growth` describes. A full root above full nodes of the
//! last level is the limit: as in Linux, the directory accepts no more names there.

use std::sync::Arc;

use jbd2::Buffer;
use layout::hash::{HashVersion, dx_hash};
use layout::htree::{
    BLOCK_MASK, INDIRECT_LEVELS_MAX, INDIRECT_LEVELS_MAX_LARGE_DIR, ROOT_INFO_LENGTH,
    ROOT_INFO_OFFSET, RootInfo,
};
use layout::inode_flags::InodeFlags;
use layout::{Block, FileBlock};
use zerocopy::{FromBytes, IntoBytes};

use super::growth::{self, Growth};
use super::index::{self, Form, Pair};
use super::leaf::{self, Hashed};
use super::search::Search;
use super::{
    Place, Readable, allocate_behind, block, block_count, block_form, label, linear, readable,
};
use crate::cache::inode::Inode;
use crate::cache::leaf_names;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::entry::{self, Bad, BlockForm, NewEntry};
use crate::disk::inode::InodeState;
use crate::error::{Error, Result};

/// Largest number of leaves that may share a hash. A longer chain is damage: reading in hash order
/// holds the names of a whole chain in memory. A name is looked up before it is added, so that this
/// crate extends a chain beyond the limit by at most one leaf.
pub(super) const CHAIN_MAX: usize = 1 << 12;

/// The reason why a compacted block needs a whole commit. A replay of Linux splits such a block,
/// for which a full volume has no other one.
const COMPACTED: &str = "a block of a directory was compacted";

/// First hash version that treats bytes as unsigned.
const UNSIGNED_FROM: u8 = 3;

/// A usable htree.
pub(super) struct Tree {
    root: Arc<Buffer>,
    /// The first damage of the root.
    bad: Option<Bad>,
    version: HashVersion,
    levels: u8,
}

/// One dx node of a path, and the pair that was followed.
struct Frame {
    file_block: FileBlock,
    buffer: Arc<Buffer>,
    /// The first damage of the block.
    bad: Option<Bad>,
    form: Form,
    at: usize,
}

/// The path to a leaf.
pub(super) struct Path {
    frames: Vec<Frame>,
    pub(super) leaf: FileBlock,
}

/// Returns the directory's tree, if it has a usable one.
pub(super) fn open(core: &Core, directory: &Inode, state: &InodeState) -> Result<Option<Tree>> {
    let is_indexed = state.flags.contains(InodeFlags::INDEX) && core.superblock.has_dir_index();
    // Names that are equal but for case have one hash, which needs Unicode.
    let is_folded = state.flags.contains(InodeFlags::CASEFOLD);
    if !is_indexed || is_folded || state.is_inline() {
        return Ok(None);
    }
    let Readable { buffer: root, bad } = readable(core, directory, state, FileBlock::new(0))?;
    let (info, _) = RootInfo::read_from_prefix(&root.image()[ROOT_INFO_OFFSET..])
        .expect("a block is longer than the root's information");
    let Some(version) = HashVersion::from_raw(info.hash_version) else {
        return Ok(None);
    };
    let version = version.with_signedness(core.superblock.hash_version >= UNSIGNED_FROM);
    let is_known = info.info_length == ROOT_INFO_LENGTH
        && info.indirect_levels <= levels_max(core)
        && info.reserved_zero.get() == 0;
    Ok(is_known.then_some(Tree {
        root,
        bad,
        version,
        levels: info.indirect_levels,
    }))
}

/// Returns the largest number of levels of nodes below the root.
pub(crate) fn levels_max(core: &Core) -> u8 {
    match core.superblock.has_large_dir() {
        true => INDIRECT_LEVELS_MAX_LARGE_DIR,
        false => INDIRECT_LEVELS_MAX,
    }
}

impl Tree {
    /// Returns the version of the tree's hash.
    pub(super) fn version(&self) -> HashVersion {
        self.version
    }

    /// Returns a name's hash, major and minor.
    pub(super) fn hash_of(&self, core: &Core, name: &[u8]) -> (u32, u32) {
        let hash = dx_hash(self.version, core.superblock.hash_seed, name);
        (hash.major, hash.minor)
    }

    /// Returns the path to the leaf of a hash.
    pub(super) fn probe(
        &self,
        core: &Core,
        directory: &Inode,
        state: &InodeState,
        hash: u32,
    ) -> Result<Path> {
        let mut frames = Vec::with_capacity(usize::from(self.levels) + 1);
        let mut found = Readable {
            buffer: Arc::clone(&self.root),
            bad: self.bad,
        };
        let mut file_block = FileBlock::new(0);
        let has_tail = core.superblock.checksums.has_tails();
        let mut form = Form::root(has_tail);
        for level in 0..=self.levels {
            let (at, pair) = index::lookup(&found.buffer.read(), form, hash)
                .map_err(|bad| bad.at(core, directory.nr, file_block))?;
            frames.push(Frame {
                file_block,
                buffer: found.buffer,
                bad: found.bad,
                form,
                at,
            });
            check_below(&frames, form, pair.block)
                .map_err(|bad| bad.at(core, directory.nr, file_block))?;
            if level == self.levels {
                return Ok(Path {
                    frames,
                    leaf: pair.block,
                });
            }
            file_block = pair.block;
            found = readable(core, directory, state, file_block)?;
            form = Form::node(has_tail);
        }
        unreachable!("the last level returns")
    }
}

/// Checks that the block of a pair is not on the path to the pair: a change of one would undo that
/// of the other.
fn check_below(path: &[Frame], form: Form, block: FileBlock) -> Result<(), Bad> {
    match path.iter().any(|frame| frame.file_block == block) {
        true => Err(form.bad("an index block is below itself")),
        false => Ok(()),
    }
}

impl Path {
    /// Advances to the next leaf; returns its hash, or none after the last.
    pub(super) fn advance(
        &mut self,
        core: &Core,
        directory: &Inode,
        state: &InodeState,
    ) -> Result<Option<u32>> {
        let bad_at = |frame: &Frame, bad: Bad| bad.at(core, directory.nr, frame.file_block);
        for level in (0..self.frames.len()).rev() {
            let frame = &mut self.frames[level];
            let next = index::pair(&frame.buffer.read(), frame.form, frame.at + 1)
                .map_err(|bad| bad_at(frame, bad))?;
            let Some(next) = next else { continue };
            frame.at += 1;
            let mut child = next.block;
            for below in level + 1..self.frames.len() {
                let (path, rest) = self.frames.split_at_mut(below);
                let frame = &mut rest[0];
                let above = &path[below - 1];
                check_below(path, above.form, child).map_err(|bad| bad_at(above, bad))?;
                frame.file_block = child;
                let found = readable(core, directory, state, child)?;
                (frame.buffer, frame.bad) = (found.buffer, found.bad);
                frame.at = 0;
                let first = index::pair(&frame.buffer.read(), frame.form, 0);
                let first = first.map_err(|bad| bad_at(frame, bad))?;
                child = first.expect("an index block has at least one pair").block;
            }
            let last = &self.frames[self.frames.len() - 1];
            check_below(&self.frames, last.form, child).map_err(|bad| bad_at(last, bad))?;
            self.leaf = child;
            return Ok(Some(next.hash));
        }
        Ok(None)
    }
}

/// Finds a name.
pub(super) fn find(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    tree: &Tree,
    name: &[u8],
    search: &mut Search,
) -> Result<Option<Place>> {
    let (hash, _) = tree.hash_of(core, name);
    let mut path = tree.probe(core, directory, state, hash)?;
    for _ in 0..CHAIN_MAX {
        let found = linear::find_in_block(core, directory, state, path.leaf, name, search)?;
        if found.is_some() {
            return Ok(found);
        }
        match path.advance(core, directory, state)? {
            Some(next) if next == hash | 1 => {}
            _ => return Ok(None),
        }
    }
    Err(endless_chain(core, directory, path.leaf))
}

/// Returns the damage of a chain with too many leaves that share a hash.
pub(super) fn endless_chain(core: &Core, directory: &Inode, file_block: FileBlock) -> Error {
    let bad = Bad {
        offset: 0,
        why: "more leaves share a hash than can be",
    };
    bad.at(core, directory.nr, file_block)
}

/// Returns the damage of an index with more pairs of leaves than the directory has blocks.
pub(super) fn leaf_met_twice(core: &Core, directory: &Inode, file_block: FileBlock) -> Error {
    let bad = Bad {
        offset: 0,
        why: "the index has more leaves than the directory has blocks",
    };
    bad.at(core, directory.nr, file_block)
}

/// Adds an entry and splits leaf and nodes if they are full.
pub(super) fn add(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
    tree: &Tree,
    new: NewEntry<'_>,
) -> Result<()> {
    let (hash, minor) = tree.hash_of(core, new.name);
    let path = tree.probe(core, directory, state, hash)?;
    let bad_leaf = |bad: Bad| bad.at(core, directory.nr, path.leaf);
    let leaf = block(core, directory, state, path.leaf)?;
    let mut search = Search::default();
    let room = leaf_names::find_room(&leaf, new.name.len(), &mut search.entries);
    let room = room.map_err(bad_leaf)?;
    search.charge(&directory.names_index);
    if let Some(offset) = room {
        leaf_names::insert(&mut handle.write(&leaf)?, offset, new);
        return Ok(());
    }
    let hasher = |name: &[u8]| tree.hash_of(core, name);
    let mut entries = leaf::hashed(&leaf.image(), &hasher).map_err(bad_leaf)?;
    entries.push(owned(new, hash, minor));
    let packed = leaf::compacted(block_form(core), &entries);
    if let Some(packed) = packed.filter(|_| !rt::mutant!("directory/scattered-leaf-split")) {
        handle.refuse(COMPACTED);
        return handle.replace(&leaf, packed.into_arc());
    }
    split_leaf(core, handle, directory, state, tree, &path, &leaf, entries)
}

fn owned(new: NewEntry<'_>, hash: u32, minor: u32) -> Hashed {
    let (inode, type_byte) = (new.inode.get(), new.type_byte);
    Hashed {
        hash,
        minor,
        inode,
        type_byte,
        name: new.name.to_vec(),
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "the parts of one split, named by its only caller"
)]
fn split_leaf(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
    tree: &Tree,
    path: &Path,
    leaf: &Arc<Buffer>,
    entries: Vec<Hashed>,
) -> Result<()> {
    let block_bytes = core.block_bytes();
    let has_tail = core.superblock.checksums.has_tails();
    let split = leaf::split(block_form(core), entries);
    let end = FileBlock::new(block_count(core, state));
    let new = Pair {
        hash: split.hash,
        block: end,
    };
    let growth = plan(core, directory, tree, path, new)?;
    let new_blocks = 1 + growth.nodes.len() as u64;
    let blocks = allocate_behind(core, handle, directory, state, new_blocks)?;
    let of_directory = label(directory, state);
    handle.replace(leaf, split.lower.into_arc())?;
    handle.replace(
        &core.buffers.get_new(blocks[0], of_directory),
        split.upper.into_arc(),
    )?;
    state.size += new_blocks * block_bytes as u64;
    for (block, pairs) in blocks[1..].iter().zip(&growth.nodes) {
        let node = index::node(block_bytes, has_tail, pairs).into_arc();
        handle.replace(&core.buffers.get_new(*block, of_directory), node)?;
    }
    for (level, pairs) in &growth.changed {
        let frame = &path.frames[*level];
        let mut bytes = handle.write(&frame.buffer)?;
        index::write(&mut bytes, frame.form, pairs);
        let is_deeper = growth.is_deeper && !rt::mutant!("directory/level-not-counted");
        if is_deeper && *level == 0 {
            set_levels(&mut bytes, tree.levels + 1);
        }
    }
    Ok(())
}

/// Splits a leaf whose names do not fit it any more, in the form that blocks have now.
pub(super) fn split_whole(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
    tree: &Tree,
    file_block: FileBlock,
    entries: Vec<Hashed>,
) -> Result<()> {
    let hash = entries.iter().map(|entry| entry.hash).min().unwrap_or(0);
    let mut path = tree.probe(core, directory, state, hash)?;
    // The leaf may continue a chain of leaves that share a hash.
    for _ in 0..CHAIN_MAX {
        if path.leaf == file_block {
            let leaf = block(core, directory, state, file_block)?;
            return split_leaf(core, handle, directory, state, tree, &path, &leaf, entries);
        }
        if path.advance(core, directory, state)?.is_none() {
            break;
        }
    }
    Err(endless_chain(core, directory, file_block))
}

/// Plans the growth of the index by a new leaf, before anything changes.
///
/// # Errors
/// - [`Error::DirectoryFull`] if the index is full.
/// - [`Error::Corrupt`] for a damaged dx node that would change.
fn plan(core: &Core, directory: &Inode, tree: &Tree, path: &Path, leaf: Pair) -> Result<Growth> {
    let level_of = |level: usize| -> Result<growth::Level> {
        let frame = &path.frames[level];
        let sound = frame.bad.map_or(Ok(()), Err);
        let pairs = sound
            .and_then(|()| index::pairs(&frame.buffer.read(), frame.form))
            .map_err(|bad| bad.at(core, directory.nr, frame.file_block))?;
        Ok(growth::Level {
            pairs,
            limit: frame.form.limit(core.block_bytes()),
            at: frame.at,
        })
    };
    let may_deepen = tree.levels < levels_max(core);
    let growth = growth::plan(path.frames.len(), leaf, may_deepen, level_of)?;
    let growth = growth.ok_or(Error::DirectoryFull)?;
    let last = leaf.block.get() + growth.nodes.len() as u64;
    match last <= u64::from(BLOCK_MASK) {
        true => Ok(growth),
        false => Err(Error::DirectoryFull),
    }
}

fn set_levels(root: &mut [u8], levels: u8) {
    let (info, _) = RootInfo::mut_from_prefix(&mut root[ROOT_INFO_OFFSET..])
        .expect("a block is longer than the root's information");
    info.indirect_levels = levels;
}

/// Converts a linear directory of one full block to an htree with two leaves, the new name in one
/// of them.
pub(super) fn convert_and_add(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
    version: HashVersion,
    new: NewEntry<'_>,
) -> Result<()> {
    let block_bytes = core.block_bytes();
    let start = FileBlock::new(0);
    let first = block(core, directory, state, start)?;
    let tree = Tree {
        root: Arc::clone(&first),
        bad: None,
        version,
        levels: 0,
    };
    let hasher = |name: &[u8]| tree.hash_of(core, name);
    let image = first.image();
    let mut entries =
        leaf::hashed(&image, &hasher).map_err(|bad| bad.at(core, directory.nr, start))?;
    let is_dots = entries.len() >= 2 && entries[0].name == b"." && entries[1].name == b"..";
    if !is_dots {
        let bad = Bad {
            offset: 0,
            why: "\".\" and \"..\" are not the first entries",
        };
        return Err(bad.at(core, directory.nr, start));
    }
    let parent = layout::InodeNr::new(entries[1].inode);
    let type_byte = entries[0].type_byte;
    let (hash, minor) = tree.hash_of(core, new.name);
    entries.push(owned(new, hash, minor));
    if let Some(packed) = leaf::compacted(block_form(core), &entries) {
        handle.refuse(COMPACTED);
        return handle.replace(&first, packed.into_arc());
    }
    entries.drain(..2);
    let split = leaf::split(block_form(core), entries);
    let blocks = allocate_behind(core, handle, directory, state, 2)?;
    let of_directory = label(directory, state);
    // The tail of an index is not that of a leaf: to the entries the root has none.
    let plain = BlockForm {
        has_tail: false,
        ..block_form(core)
    };
    let mut root = entry::first_block(plain, directory.nr, parent, type_byte);
    let form = Form::root(core.superblock.checksums.has_tails());
    write_root(&mut root, form, version.raw_on_disk(), split.hash);
    handle.replace(
        &core.buffers.get_new(blocks[0], of_directory),
        split.lower.into_arc(),
    )?;
    handle.replace(
        &core.buffers.get_new(blocks[1], of_directory),
        split.upper.into_arc(),
    )?;
    handle.replace(&first, Block::into_arc(root))?;
    state.size = 3 * block_bytes as u64;
    state.flags.insert(InodeFlags::INDEX);
    Ok(())
}

fn write_root(root: &mut [u8], form: Form, hash_version: u8, upper_hash: u32) {
    let info = RootInfo {
        hash_version,
        info_length: ROOT_INFO_LENGTH,
        ..RootInfo::default()
    };
    let end = ROOT_INFO_OFFSET + size_of::<RootInfo>();
    root[ROOT_INFO_OFFSET..end].copy_from_slice(info.as_bytes());
    let pairs = [
        Pair {
            hash: 0,
            block: FileBlock::new(1),
        },
        Pair {
            hash: upper_hash,
            block: FileBlock::new(2),
        },
    ];
    index::write(root, form, &pairs);
}
