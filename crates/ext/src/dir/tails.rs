//! Room for the tails of checksums in directories of a volume that has none yet.
//!
//! A volume opened to make room writes directory blocks as if it had checksums
//! (`MountOptions::reserves_tails`): to others a tail is an unused entry. Index blocks have their
//! own form, which shows in their limit, and stay as they are.

use jbd2::Credits;
use layout::FileBlock;
use layout::directory::EntryTail;
use layout::inode_flags::InodeFlags;

use super::leaf::{self, Hashed};
use super::{block, block_count, block_form, drop_unusable_index, future_hash, htree, linear};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::entry::{self, NewEntry};
use crate::disk::inode::InodeState;
use crate::error::{Error, Result};
use crate::map::FileMap;

/// Returns the credits for [`reserve_tail`]: those of an entry that is added.
pub(crate) const fn credits_to_reserve(map: FileMap) -> Credits {
    Credits {
        blocks: map.credits_to_map_entry() + super::CREDITS_ADD + super::CREDITS_ADD_LARGE + 3,
        revokes: 0,
    }
}

/// Gives a block of a directory the room for a tail. If its names do not fit, some move to another
/// block. Changes `state` (size, block map, flags), which the caller stores.
///
/// # Errors
/// - [`Error::NoSpace`](crate::Error::NoSpace) and
///   [`Error::DirectoryFull`](crate::Error::DirectoryFull) if they have no other place; nothing has
///   changed then.
pub(crate) fn reserve_tail(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
    file_block: FileBlock,
) -> Result<()> {
    let reserved = reserve(core, handle, directory, state, file_block);
    directory.names_index.lock().forget();
    reserved
}

fn reserve(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
    file_block: FileBlock,
) -> Result<()> {
    if state.flags.contains(InodeFlags::CASEFOLD) {
        return Err(Error::CaseFolded);
    }
    let form = block_form(core);
    let buffer = block(core, directory, state, file_block)?;
    let bad = |bad: entry::Bad| bad.at(core, directory.nr, file_block);
    if let Some(tree) = htree::open(core, directory, state)? {
        let hasher = |name: &[u8]| tree.hash_of(core, name);
        let entries = leaf::hashed(&buffer.image(), &hasher).map_err(bad)?;
        if let Some(packed) = leaf::compacted(form, &entries) {
            return handle.replace(&buffer, packed.into_arc());
        }
        return htree::split_whole(core, handle, directory, state, &tree, file_block, entries);
    }
    drop_unusable_index(core, handle, directory, state)?;
    let mut entries = leaf::hashed(&buffer.image(), &|_| (0, 0)).map_err(bad)?;
    if let Some(packed) = leaf::compacted(form, &entries) {
        return handle.replace(&buffer, packed.into_arc());
    }
    let moved = entries.pop().expect("a full block has names");
    if let Some(version) = future_hash(core, state) {
        let new = new_entry(&moved);
        let rest = leaf::compacted(form, &entries).expect("they fit without one name");
        let before = buffer.image();
        handle.replace(&buffer, rest.into_arc())?;
        let added = htree::convert_and_add(core, handle, directory, state, version, new);
        if added.is_err() {
            handle.replace(&buffer, before)?;
        }
        return added;
    }
    move_behind(core, handle, directory, state, &moved)?;
    let rest = leaf::compacted(form, &entries).expect("they fit without one name");
    handle.replace(&buffer, rest.into_arc())
}

/// Adds a name of another block to the last block, if that has a tail and room, or to a new one.
fn move_behind(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
    moved: &Hashed,
) -> Result<()> {
    let new = new_entry(moved);
    let last = FileBlock::new(block_count(core, state) - 1);
    let buffer = block(core, directory, state, last)?;
    let room = {
        let bytes = buffer.read();
        match EntryTail::of_block(&bytes) {
            None => None,
            Some(_) => entry::find_room(&bytes, new.name.len(), &mut 0)
                .map_err(|bad| bad.at(core, directory.nr, last))?,
        }
    };
    match room {
        Some(offset) => {
            entry::insert(&mut handle.write(&buffer)?, offset, new);
            Ok(())
        }
        None => linear::append(core, handle, directory, state, new),
    }
}

fn new_entry(moved: &Hashed) -> NewEntry<'_> {
    NewEntry {
        name: &moved.name,
        inode: layout::InodeNr::new(moved.inode),
        type_byte: moved.type_byte,
    }
}
