//! Linear directories: blocks of unsorted entries, searched from the first.

use core::ops::Range;

use layout::FileBlock;

use super::search::Search;
use super::{
    Place, Readable, Visit, allocate_behind, block, block_count, block_form, label, readable,
};
use crate::cache::inode::Inode;
use crate::cache::leaf_names;
use crate::cache::names_index::{Hint, NamesIndex};
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::entry::{self, NewEntry};
use crate::disk::inode::InodeState;
use crate::error::{Error, Result};

/// Number of blocks from which a directory gets an in-memory index of its names.
const INDEXED_BLOCKS_MIN: u64 = 2;

/// Finds a name by a search of all blocks.
pub(super) fn find(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    name: &[u8],
    search: &mut Search,
) -> Result<Option<Place>> {
    let count = block_count(core, state);
    if count >= INDEXED_BLOCKS_MIN {
        match hint(core, directory, state, name)? {
            Hint::Absent => {
                search.skipped = 0..count;
                return Ok(None);
            }
            Hint::Block(at) => {
                search.skipped = 0..u64::from(at);
                let file_block = FileBlock::new(u64::from(at));
                let found = find_in_block(core, directory, state, file_block, name, search)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            Hint::Unknown => {}
        }
    }
    for file_block in 0..count {
        let file_block = FileBlock::new(file_block);
        let found = find_in_block(core, directory, state, file_block, name, search)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Looks up a name in the in-memory index, which is built if it does not exist.
fn hint(core: &Core, directory: &Inode, state: &InodeState, name: &[u8]) -> Result<Hint> {
    if directory.names_index.lock().is_absent() {
        build_index(core, directory, state)?;
    }
    Ok(directory.names_index.lock().find(name))
}

fn build_index(core: &Core, directory: &Inode, state: &InodeState) -> Result<()> {
    let mut index = NamesIndex::default();
    index.begin();
    for file_block in 0..block_count(core, state) {
        let file_block = FileBlock::new(file_block);
        let Readable { buffer, .. } = readable(core, directory, state, file_block)?;
        let added = index.add_block(&buffer.read());
        added.map_err(|bad| bad.at(core, directory.nr, file_block))?;
    }
    *directory.names_index.lock() = index;
    Ok(())
}

/// Finds a name in one block.
pub(super) fn find_in_block(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    file_block: FileBlock,
    name: &[u8],
    search: &mut Search,
) -> Result<Option<Place>> {
    let Readable { buffer, .. } = readable(core, directory, state, file_block)?;
    let found = leaf_names::find(&buffer, name, &mut search.entries);
    found
        .map_err(|bad| bad.at(core, directory.nr, file_block))?
        .map(|found| {
            let inode = core.check_inode_nr(found.inode).map_err(|why| {
                entry::Bad {
                    offset: found.offset,
                    why,
                }
                .at(core, directory.nr, file_block)
            })?;
            Ok(Place {
                inode,
                file_block,
                offset: found.offset,
            })
        })
        .transpose()
}

/// Finds the first entry whose name satisfies `is_it`, in all blocks.
pub(super) fn find_by(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    is_it: &dyn Fn(&[u8]) -> bool,
    search: &mut Search,
) -> Result<Option<Place>> {
    for file_block in 0..block_count(core, state) {
        let file_block = FileBlock::new(file_block);
        let Readable { buffer, .. } = readable(core, directory, state, file_block)?;
        let image = buffer.image();
        for found in entry::entries(&image) {
            let found = found.map_err(|bad| bad.at(core, directory.nr, file_block))?;
            search.entries += 1;
            if found.inode != 0 && is_it(found.name) {
                return find_in_block(core, directory, state, file_block, found.name, search);
            }
        }
    }
    Ok(None)
}

/// Charges a search for blocks that the in-memory index saved.
fn charge_skipped(directory: &Inode, skipped: Range<u64>) {
    let entries = 0;
    Search { entries, skipped }.charge(&directory.names_index);
}

/// Adds an entry in the first block with room; returns false if there is none.
pub(super) fn add_in_place(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    state: &InodeState,
    new: NewEntry<'_>,
) -> Result<bool> {
    let count = block_count(core, state);
    let size = entry::size_of_name(new.name.len());
    let mut next = 0;
    loop {
        let room = directory.names_index.lock().room(next, size);
        let Some(at) = room.filter(|at| *at < count) else {
            charge_skipped(directory, next..count);
            return Ok(false);
        };
        charge_skipped(directory, next..at);
        let mut search = Search::default();
        let file_block = FileBlock::new(at);
        let buffer = block(core, directory, state, file_block)?;
        let room = leaf_names::find_room(&buffer, new.name.len(), &mut search.entries)
            .map_err(|bad| bad.at(core, directory.nr, file_block))?;
        search.charge(&directory.names_index);
        if let Some(offset) = room {
            let mut bytes = handle.write(&buffer)?;
            leaf_names::insert(&mut bytes, offset, new);
            let mut index = directory.names_index.lock();
            index.insert(new.name, at);
            index.set_summary(at, &bytes);
            return Ok(true);
        }
        next = at + 1;
    }
}

/// Appends a block with one entry.
pub(super) fn append(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
    new: NewEntry<'_>,
) -> Result<()> {
    let blocks = allocate_behind(core, handle, directory, state, 1)?;
    let buffer = core.buffers.get_new(blocks[0], label(directory, state));
    let image = entry::packed(block_form(core), &[new]);
    handle.replace(&buffer, image.into_arc())?;
    state.size += core.block_bytes() as u64;
    let bytes = buffer.read();
    let mut index = directory.names_index.lock();
    if index.add_block(&bytes).is_err() {
        index.forget();
    }
    Ok(())
}

/// Visits entries in the order of their places. A cookie is the byte offset after an entry.
/// Removing entries merges them, so that a cookie may point into the middle of one: reading
/// continues with the first entry that starts at or after it.
pub(super) fn read(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    cookie: u64,
    visit: &mut Visit<'_>,
) -> Result<()> {
    let block_bytes = core.block_bytes() as u64;
    let mut first_damage: Option<Error> = None;
    let mut search = Search::default();
    'blocks: for file_block in cookie / block_bytes..block_count(core, state) {
        let start = file_block * block_bytes;
        let file_block = FileBlock::new(file_block);
        let Readable { buffer, bad } = match readable(core, directory, state, file_block) {
            Ok(found) => found,
            Err(Error::Corrupt(damage)) => {
                first_damage.get_or_insert(damage.into());
                continue;
            }
            Err(error) => return Err(error),
        };
        if let Some(bad) = bad {
            first_damage.get_or_insert(bad.at(core, directory.nr, file_block));
        }
        let image = buffer.image();
        for found in entry::entries(&image) {
            let found = match found {
                Ok(found) => found,
                Err(bad) => {
                    first_damage.get_or_insert(bad.at(core, directory.nr, file_block));
                    break;
                }
            };
            search.entries += 1;
            let is_behind = start + found.offset as u64 >= cookie;
            if found.inode == 0 || !is_behind {
                continue;
            }
            let next = start + (found.offset + found.length) as u64;
            if !visit(next, found.to_entry()) {
                break 'blocks;
            }
        }
    }
    search.charge(&directory.names_index);
    first_damage.map_or(Ok(()), Err)
}
