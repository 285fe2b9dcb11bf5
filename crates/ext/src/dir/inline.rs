//! Directories within their inodes (`inline_data`).
//!
//! ```text
//! | 0: the parent | 4: entries, to byte 60 | 60: entries, to the end of the attribute |
//! ```
//!
//! No entry crosses byte 60. `.` and `..` have no entries: readers see a directory as the block
//! that it becomes when it is full, with these two before the entries. So an entry has one offset,
//! and one cookie, in both forms. As in Linux the attribute grows to all of the room at once.
//!
//! To move out is a step of its own, before an operation that needs more room.

use core::ops::Range;

use jbd2::{Buffer, Credits};
use layout::{Block, BlockNr, FileBlock, InodeNr};

use super::search::Search;
use super::{Place, Readable, block_form, label, type_byte};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::entry::{self, Bad, NewEntry, size_of_name};
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::error::Result;
use crate::map::FileMap;
use crate::xattr::contents::{self, Contents, WORDS_BYTES};

/// Number of bytes of the parent's number.
const PARENT_BYTES: usize = 4;
/// Offset of `..` in the block.
const DOTDOT: usize = size_of_name(1);
/// Difference of the offsets of an entry in the block and in the contents.
const SHIFT: usize = DOTDOT + size_of_name(2) - PARENT_BYTES;
/// Number of blocks that moving out may dirty besides those that mapping a block may: the inode,
/// and the block.
const CREDITS_MOVE: u32 = 2;

/// Returns the places of the entries in contents of this length.
fn areas(length: usize) -> [Range<usize>; 2] {
    [
        PARENT_BYTES..WORDS_BYTES.min(length),
        WORDS_BYTES.min(length)..length,
    ]
}

/// Returns the block that the directory becomes when it is full.
pub(super) fn readable(core: &Core, directory: &Inode, state: &InodeState) -> Result<Readable> {
    let Contents { bytes, .. } = contents::read(core, directory.nr, state)?;
    let (image, bad) = image(core, directory.nr, &bytes);
    let buffer = Buffer::new(BlockNr::new(0), image.into_arc());
    Ok(Readable { buffer, bad })
}

/// Returns the block, and the first damage. What follows damage in an area is left out.
fn image(core: &Core, own: InodeNr, bytes: &[u8]) -> (Block, Option<Bad>) {
    let form = block_form(core);
    let type_byte = type_byte(core, FileKind::Directory);
    let mut image = entry::first_block(form, own, parent_of(bytes), type_byte);
    let mut bad = None;
    // The last entry so far, and the end of the entries so far.
    let (mut last, mut end) = (DOTDOT, PARENT_BYTES + SHIFT);
    for area in areas(bytes.len()) {
        for found in entry::entries(&bytes[area.clone()]) {
            let start = area.start + SHIFT;
            match found {
                Ok(found) => {
                    let raw = &bytes[area.start + found.offset..][..found.length];
                    entry::set_length(&mut image, last, end - last);
                    last = start + found.offset;
                    end = last + found.length;
                    image[last..end].copy_from_slice(raw);
                }
                Err(Bad { offset, why }) => {
                    let offset = start + offset;
                    bad = bad.or(Some(Bad { offset, why }));
                }
            }
        }
        end = (area.end + SHIFT).next_multiple_of(layout::directory::ALIGNMENT);
        entry::set_length(&mut image, last, end - last);
    }
    entry::set_length(&mut image, last, form.end() - last);
    (image, bad)
}

/// Finds a name, as a search of the block would, without the block. A name that may follow damage
/// is not missing: the damage is the error.
pub(super) fn find(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    name: &[u8],
    search: &mut Search,
) -> Result<Option<Place>> {
    let Contents { bytes, .. } = contents::read(core, directory.nr, state)?;
    let file_block = FileBlock::new(0);
    let found = match find_within(&bytes, directory.nr, name, &mut search.entries) {
        Ok(found) => found,
        Err(bad) => return Err(bad.at(core, directory.nr, file_block)),
    };
    let Some((inode, offset)) = found else {
        return Ok(None);
    };
    match core.check_inode_nr(inode) {
        Ok(inode) => Ok(Some(Place {
            inode,
            file_block,
            offset,
        })),
        Err(why) => Err(Bad { offset, why }.at(core, directory.nr, file_block)),
    }
}

/// Returns the inode of a name, and the offset of its entry in the block.
fn find_within(
    bytes: &[u8],
    own: InodeNr,
    name: &[u8],
    compared: &mut u64,
) -> Result<Option<(u32, usize)>, Bad> {
    *compared += 1;
    if name == b"." {
        return Ok(Some((own.get(), 0)));
    }
    *compared += 1;
    if name == b".." {
        return Ok(Some((parent_of(bytes).get(), DOTDOT)));
    }
    let mut wrong = None;
    for area in areas(bytes.len()) {
        let start = area.start + SHIFT;
        for found in entry::entries(&bytes[area]) {
            match found {
                Ok(found) => {
                    *compared += 1;
                    if found.inode != 0 && found.name == name {
                        return Ok(Some((found.inode, start + found.offset)));
                    }
                }
                Err(Bad { offset, why }) => {
                    let offset = start + offset;
                    wrong = wrong.or(Some(Bad { offset, why }));
                }
            }
        }
    }
    wrong.map_or(Ok(None), Err)
}

/// Returns the number of the parent.
fn parent_of(bytes: &[u8]) -> InodeNr {
    let mut raw = [0; PARENT_BYTES];
    raw.copy_from_slice(&bytes[..PARENT_BYTES]);
    InodeNr::new(u32::from_le_bytes(raw))
}

/// Returns the contents for a change, for which they have to be sound.
fn sound(core: &Core, directory: &Inode, state: &InodeState) -> Result<Contents> {
    let found = contents::read(core, directory.nr, state)?;
    match image(core, directory.nr, &found.bytes).1 {
        None => Ok(found),
        Some(bad) => Err(bad.at(core, directory.nr, FileBlock::new(0))),
    }
}

/// Fills the contents of a new directory, which has the flag already. The caller stores the inode,
/// with an empty attribute.
pub(super) fn initialise(handle: &mut Handle<'_>, state: &mut InodeState, parent: InodeNr) {
    let mut bytes = [0; WORDS_BYTES];
    bytes[..PARENT_BYTES].copy_from_slice(&parent.get().to_le_bytes());
    entry::set_length(&mut bytes[PARENT_BYTES..], 0, WORDS_BYTES - PARENT_BYTES);
    state.claims(handle).words = crate::disk::words::Words::from_bytes(&bytes);
    state.size = WORDS_BYTES as u64;
}

/// Inserts an entry into the contents; returns false if there is no room.
fn insert(contents: &mut Contents, new: NewEntry<'_>) -> Result<bool, Bad> {
    if insert_in_place(&mut contents.bytes, new)? {
        return Ok(true);
    }
    Ok(grow(contents)? && insert_in_place(&mut contents.bytes, new)?)
}

fn insert_in_place(bytes: &mut [u8], new: NewEntry<'_>) -> Result<bool, Bad> {
    for area in areas(bytes.len()) {
        let part = &mut bytes[area];
        if let Some(offset) = entry::find_room(part, new.name.len(), &mut 0)? {
            entry::insert(part, offset, new);
            return Ok(true);
        }
    }
    Ok(false)
}

/// Gives the attribute all of the room that the inode has; returns false if that is too little for
/// any entry.
fn grow(contents: &mut Contents) -> Result<bool, Bad> {
    let Contents { bytes, room } = contents;
    let old = bytes.len();
    if *room < old + size_of_name(1) {
        return Ok(false);
    }
    bytes.resize(*room, 0);
    let last = entry::entries(&bytes[WORDS_BYTES..old])
        .last()
        .transpose()?;
    let offset = last.map_or(0, |last| last.offset);
    let area = &mut bytes[WORDS_BYTES..];
    let length = area.len() - offset;
    entry::set_length(area, offset, length);
    Ok(true)
}

/// Adds an entry, and stores the inode; returns false if there is no room.
pub(super) fn add(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
    new: NewEntry<'_>,
) -> Result<bool> {
    let mut found = sound(core, directory, state)?;
    let inserted = insert(&mut found, new);
    if !inserted.map_err(|bad| bad.at(core, directory.nr, FileBlock::new(0)))? {
        return Ok(false);
    }
    state.size = found.bytes.len() as u64;
    contents::store(core, handle, directory.nr, state, &found.bytes)?;
    Ok(true)
}

/// Returns the area of an entry in the contents, and its offset in there.
fn place_within(length: usize, place: Place) -> (Range<usize>, usize) {
    let offset = place.offset - SHIFT;
    let [first, second] = areas(length);
    match offset < second.start {
        true => (first.clone(), offset - first.start),
        false => (second.clone(), offset - second.start),
    }
}

/// Removes an entry, and stores the inode.
pub(super) fn remove(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
    place: Place,
) -> Result<()> {
    let Contents { mut bytes, .. } = sound(core, directory, state)?;
    let (area, offset) = place_within(bytes.len(), place);
    let part = &mut bytes[area];
    let previous = entry::previous_of(part, offset, &mut 0);
    entry::erase(part, previous, offset);
    contents::store(core, handle, directory.nr, state, &bytes)
}

/// Points an entry, or `..`, to another inode, and stores the directory's inode.
pub(super) fn set(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
    (place, inode, type_byte): (Place, InodeNr, u8),
) -> Result<()> {
    let Contents { mut bytes, .. } = sound(core, directory, state)?;
    if place.offset == DOTDOT {
        if rt::mutant!("inline/parent-not-changed") {
            return Ok(());
        }
        bytes[..PARENT_BYTES].copy_from_slice(&inode.get().to_le_bytes());
    } else {
        let (area, offset) = place_within(bytes.len(), place);
        entry::point_to(&mut bytes[area], offset, inode, type_byte);
    }
    contents::store(core, handle, directory.nr, state, &bytes)
}

/// Moves the entries into a block, in a step of its own, if there is no room for another one.
///
/// # Errors
/// - [`NoSpace`](crate::Error::NoSpace); nothing has changed then.
pub(super) fn make_room(
    core: &Core,
    directory: &Inode,
    state: &mut InodeState,
    new: NewEntry<'_>,
) -> Result<()> {
    let mut found = sound(core, directory, state)?;
    let inserted = insert(&mut found, new);
    if inserted.map_err(|bad| bad.at(core, directory.nr, FileBlock::new(0)))? {
        return Ok(());
    }
    let _table = core.hold_table(directory.nr)?;
    let credits = Credits {
        blocks: FileMap::DEEPEST.credits_to_map() + CREDITS_MOVE,
        revokes: 0,
    };
    let mut handle = core.begin(credits)?;
    let moved = move_out(core, &mut handle, directory, state);
    handle.finish()?;
    moved
}

/// Moves the entries into a block, and stores the inode. If it fails for lack of space, or since
/// the block cannot be written, nothing has changed.
pub(super) fn move_out(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
) -> Result<()> {
    let Contents { mut bytes, .. } = sound(core, directory, state)?;
    if rt::mutant!("inline/entries-of-attribute-lost") {
        bytes.truncate(WORDS_BYTES);
    }
    let (image, _) = image(core, directory.nr, &bytes);
    let image = image.into_arc();
    let block = contents::leave(core, handle, directory, state, &image)?;
    let buffer = core.buffers.get_new(block, label(directory, state));
    handle.replace(&buffer, image)?;
    state.size = core.block_bytes() as u64;
    state.store(core, handle, directory.nr, true)?;
    contents::remove(core, handle, directory.nr)
}
