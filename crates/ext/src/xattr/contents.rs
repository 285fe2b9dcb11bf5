//! Contents within an inode (`inline_data`): of files, directories and symbolic links.
//!
//! ```text
//! | i_block: the first 60 bytes | ... | attributes within the inode: ..., system.data: the rest |
//! ```
//!
//! An inode with the flag has the attribute, if only with an empty value. It never moves to the
//! block: other attributes do if the inode has no room for both. Programs do not see it.

use std::sync::Arc;

use layout::attribute::MAGIC;
use layout::inode::MAP_WORDS;
use layout::{Block, BlockNr, FileBlock, InodeNr};

use super::name::AttributeName;
use super::placement::{self, Room, place_within};
use super::set::{AttributeSet, Value};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::{InodeState, extra_size};
use crate::disk::kind::FileKind;
use crate::disk::words::Words;
use crate::error::{Corrupt, Result};
use crate::map::FileMap;

/// Number of bytes in the words.
pub(crate) const WORDS_BYTES: usize = MAP_WORDS * 4;
/// Alignment of a value in bytes.
const ALIGNMENT: usize = layout::attribute::ALIGNMENT;

/// The contents of an inode.
#[derive(Debug, Clone)]
pub(crate) struct Contents {
    /// The bytes in the words, then those of the attribute. A file may end before, or behind them.
    pub(crate) bytes: Vec<u8>,
    /// The number of bytes that the inode has room for.
    pub(crate) room: usize,
}

/// Reads the contents of an inode that has the flag.
///
/// # Errors
/// - [`Corrupt::Attributes`] if it lacks the attribute.
pub(crate) fn read(core: &Core, nr: InodeNr, state: &InodeState) -> Result<Contents> {
    let (buffer, offset) = core.hold_table_of(nr)?;
    let image = buffer.read();
    let inode = &image[offset..offset + usize::from(core.geometry().inode_bytes)];
    let found = value_within(core, inode);
    let (value, room) =
        found.map_err(|why| core.damaged(Corrupt::Attributes { inode: nr, why }))?;
    let mut bytes = state.words.to_bytes().to_vec();
    bytes.extend(value);
    Ok(Contents {
        bytes,
        room: WORDS_BYTES + room,
    })
}

/// Returns the value of the attribute in an inode of the table, and the room for one.
fn value_within(core: &Core, inode: &[u8]) -> Result<(Vec<u8>, usize), &'static str> {
    const MISSING: &str = "an inode with contents has no attribute for them";
    let extra = extra_size(inode);
    let Some((MAGIC, place)) = place_within(inode, extra) else {
        return Err(MISSING);
    };
    let mut set = AttributeSet::decode(place, 0, core.superblock.has_ea_inode())?;
    let name = AttributeName::of_contents();
    let Some(Value::Bytes(value)) = set.get(&name).cloned() else {
        return Err(MISSING);
    };
    set.put(&name, Value::Bytes(Vec::new()));
    let all = Room::of(&core.superblock, extra).inode;
    let room = all.saturating_sub(set.bytes());
    Ok((value, room - room % ALIGNMENT))
}

/// Stores contents in an inode that has the flag, and the inode with them (one credit). They must
/// fit.
pub(crate) fn store(
    core: &Core,
    handle: &mut Handle<'_>,
    nr: InodeNr,
    state: &mut InodeState,
    bytes: &[u8],
) -> Result<()> {
    let (head, value) = bytes.split_at(bytes.len().min(WORDS_BYTES));
    let mut words = [0; WORDS_BYTES];
    words[..head.len()].copy_from_slice(head);
    put(core, handle, nr, Some(value))?;
    state.claims(handle).words = Words::from_bytes(&words);
    state.store(core, handle, nr, true)
}

/// Maps the first block of an inode whose contents move out. It has them on the device when this
/// returns, unless the caller journals them. The caller stores the inode and removes the attribute.
///
/// # Errors
/// - [`NoSpace`](crate::Error::NoSpace), or the device's error. Nothing has changed then, and the
///   caller finishes the handle.
pub(crate) fn leave(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    image: &Arc<Block>,
) -> Result<BlockNr> {
    let sectors = state.sectors;
    let old = state.leave_inline(handle, core.superblock.has_extents());
    let (map, first) = (FileMap::of(state), FileBlock::new(0));
    let error = match map.find_or_allocate(core, handle, inode, state, first, 1) {
        Ok((run, _)) => {
            let is_later = state.is_journaled(core) || rt::mutant!("inline/moved-without-order");
            let written = match is_later {
                true => Ok(()),
                false => core.write_first(run.first, image),
            };
            let Err(error) = written else {
                return Ok(run.first);
            };
            state.claims(handle).sectors = sectors;
            core.free_blocks(handle, run)?;
            error
        }
        Err(error) => error,
    };
    state.return_inline(handle, old);
    Err(error)
}

/// Removes the attribute of contents that have moved out (one credit).
pub(crate) fn remove(core: &Core, handle: &mut Handle<'_>, nr: InodeNr) -> Result<()> {
    if rt::mutant!("inline/attribute-kept") {
        return Ok(());
    }
    put(core, handle, nr, None)
}

fn put(core: &Core, handle: &mut Handle<'_>, nr: InodeNr, value: Option<&[u8]>) -> Result<()> {
    let (buffer, offset) = core.table_of(nr)?;
    let end = offset + usize::from(core.geometry().inode_bytes);
    let set = set_with(core, &buffer.read()[offset..end], value);
    // Damage is met before the handle has changed anything.
    let set = set.map_err(|why| core.damaged(Corrupt::Attributes { inode: nr, why }))?;
    core.change_in_table(handle, nr, &buffer, |inode| {
        placement::write_within(inode, &set);
    })
}

/// Sets or removes the attribute in an inode of the table.
///
/// # Errors
/// Returns a description of the damage; nothing has changed then.
pub(crate) fn put_within(
    core: &Core,
    inode: &mut [u8],
    value: Option<&[u8]>,
) -> Result<(), &'static str> {
    let set = set_with(core, inode, value)?;
    placement::write_within(inode, &set);
    Ok(())
}

/// Returns the attributes of an inode of the table with another value for its contents, or none.
fn set_with(core: &Core, inode: &[u8], value: Option<&[u8]>) -> Result<AttributeSet, &'static str> {
    let extra = extra_size(inode);
    let mut set = match place_within(inode, extra) {
        Some((MAGIC, place)) => AttributeSet::decode(place, 0, core.superblock.has_ea_inode())?,
        Some(_) => AttributeSet::default(),
        None => return Err("the inode has no room for attributes"),
    };
    let name = AttributeName::of_contents();
    set.remove(&name);
    if let Some(value) = value {
        set.put(&name, Value::Bytes(value.to_vec()));
    }
    if set.bytes() > Room::of(&core.superblock, extra).inode {
        return Err("the inode has no room for its contents");
    }
    Ok(set)
}

/// Checks that an inode of the table has the attribute.
///
/// # Errors
/// Returns a description of the damage.
pub(crate) fn check_within(core: &Core, inode: &[u8]) -> Result<(), &'static str> {
    value_within(core, inode).map(drop)
}

/// Returns the attributes with which a new inode of this kind starts, if it keeps its contents.
pub(super) fn of_new(core: &Core, kind: FileKind, room: Room) -> Option<AttributeSet> {
    let has_contents = matches!(kind, FileKind::Regular | FileKind::Directory);
    if !has_contents || !core.superblock.has_inline_data() {
        return None;
    }
    let mut set = AttributeSet::default();
    set.put(&AttributeName::of_contents(), Value::Bytes(Vec::new()));
    (set.bytes() <= room.inode).then_some(set)
}
