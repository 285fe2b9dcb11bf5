//! Directories: the entries of every block, and the inodes that they refer to.
//!
//! Each entry adds a reference to its inode. The first entry that refers to a directory, `.` and
//! `..` aside, determines that directory's parent.

mod entries;
mod inline;
mod names;
mod sealed;

use layout::directory::HEADER_SIZE;
use layout::mode::FileType;

use crate::entry::{Entry, entry_at};
use crate::error::Error;
use crate::htree::{self, Hashing, Tree};
use crate::inode_states::Usage;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::reserved_inodes::ROOT;
use crate::state::{Directory, State};
use entries::Block;
use names::Names;

/// Number of bytes for a hash after the name in an encrypted directory that ignores case.
const HASH_BYTES: usize = 8;

/// Reads all directories.
pub(crate) fn check(state: &mut State<'_>) -> Result<(), Error> {
    if let Some(root) = find(state, ROOT) {
        state.directories[root].parent = ROOT;
    }
    let mut names = Names::default();
    // As in e2fsck, these come first.
    for (inode, bytes) in std::mem::take(&mut state.inline_directories) {
        if let Some(index) = find(state, inode) {
            inline::check(state, (index, inode), &bytes, &mut names);
        }
    }
    for index in 0..state.directories.len() {
        let directory = state.directories[index];
        check_directory(state, index, &directory, &mut names)?;
    }
    Ok(())
}

/// Returns the index of an inode in [`State::directories`], if it is a directory.
pub(crate) fn find(state: &State<'_>, inode: u32) -> Option<usize> {
    let is_directory = state.inodes[inode].file_type == FileType::Directory.raw();
    let found = state
        .directories
        .binary_search_by_key(&inode, |directory| directory.inode);
    found.ok().filter(|_| is_directory)
}

fn check_directory(
    state: &mut State<'_>,
    index: usize,
    directory: &Directory,
    names: &mut Names,
) -> Result<(), Error> {
    let blocks = directory.first_block..directory.first_block + directory.block_count;
    let mut tree = if directory.is_indexed {
        Tree::begin(state, directory)?
    } else {
        None
    };
    let owner = state.owner_seed(directory.inode, directory.generation);
    let mut expected = 0;
    // A tree without extents has no hole.
    let is_mapped = state.inodes[directory.inode].usage == Usage::Mapped;
    if blocks.is_empty() && is_mapped && !directory.has_extents {
        report_holes(state, directory.inode, 0, 1);
    }
    for at in blocks {
        let (file_block, block) = state.directory_blocks[at];
        report_holes(state, directory.inode, expected, file_block);
        expected = file_block + 1;
        // An invalid block was reported with the block map.
        if block == 0 {
            continue;
        }
        let bytes = state.block(block)?;
        let hashing = tree
            .as_mut()
            .and_then(|tree| tree.enter(state, file_block, &bytes));
        let mut checked = Block {
            directory: index,
            inode: directory.inode,
            file_block,
            block,
            bytes: &bytes,
        };
        let is_leaf = hashing.is_some() || tree.is_none();
        checked.bytes = sealed::check(state, &checked, owner, is_leaf);
        let position = if file_block == 0 { 0 } else { 2 };
        let hashes = check_block(state, &checked, names, (hashing, position));
        if let (Some(tree), Some((low, high))) = (&mut tree, hashes) {
            tree.leave(file_block, low, high);
        }
    }
    if let Some(tree) = tree {
        htree::finish(state, tree);
    }
    Ok(())
}

/// Reports holes: a directory has none.
fn report_holes(state: &mut State<'_>, inode: u32, expected: u32, file_block: u32) {
    if file_block > expected {
        let place = Location::inode(inode).at_file_block(expected.into());
        let count = u64::from(file_block - expected);
        state
            .report
            .add_found(ProblemKind::DirectoryHole, place, count);
    }
}

/// Checks all entries of a block; the first has the given position in the directory, and only 0 and
/// 1 matter. Returns the lowest and the highest hash of their names, if hashes are requested.
fn check_block(
    state: &mut State<'_>,
    block: &Block<'_>,
    names: &mut Names,
    (hashing, mut position): (Option<Hashing>, u32),
) -> Option<(u32, u32)> {
    names.clear();
    let seed = state.raw.hash_seed();
    let (mut low, mut high) = (u32::MAX, 0);
    let directory = state.directories[block.directory];
    let has_hashes = directory.is_encrypted && directory.is_folded;
    let mut offset = 0;
    while offset < block.bytes.len() {
        let needs_hash = has_hashes && position > 1;
        let entry = entry_at(block.bytes, offset);
        let Some(entry) = entry.filter(|entry| !needs_hash || has_room_for_hash(entry)) else {
            let mut place = block.place();
            place.entry = Some(offset as u32);
            state.problem(ProblemKind::DirectoryCorrupt, place);
            break;
        };
        if let Some(Hashing(version)) = hashing.filter(|_| entry.inode != 0) {
            let hash = version.map_or(0, |v| layout::hash::dx_hash(v, seed, entry.name).major);
            (low, high) = (low.min(hash), high.max(hash));
        }
        if entries::check(state, block, &entry, position) {
            names.add(entry.name, offset);
        }
        position += 1;
        offset += entry.record_length;
    }
    names.report(state, block);
    hashing.map(|_| (low, high))
}

/// True if an entry has room for a hash after its name. Unused ones, too, have it.
fn has_room_for_hash(entry: &Entry<'_>) -> bool {
    let name = HEADER_SIZE + entry.name.len().max(1);
    entry.record_length >= name.next_multiple_of(4) + HASH_BYTES
}
