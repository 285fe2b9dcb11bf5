//! Directories: entries in blocks, linear or indexed by an htree.
//!
//! The functions here change directory blocks within a transaction of the caller, which holds the
//! directory's inode lock. Steps that can fail precede the first change, so that an error leaves
//! the directory as it was.
//!
//! | directory | superblock has `dir_index` | inode has the index flag | treated as |
//! |---|---|---|---|
//! | ignores case (`casefold`) | any | any | linear, and never changed: hashes need Unicode |
//! | within its inode | any | no | as the block that it becomes; see `inline` |
//! | one block | no | no | always linear |
//! | one block | yes | no | linear, read in hash order; see below |
//! | any | yes | yes, with a known hash | htree |
//! | any | yes | yes, with an unknown hash | linear; the first change clears the flag |
//! | any | no | yes | linear; the first change clears the flag |
//! | several blocks | any | no | always linear |
//!
//! With `metadata_csum` a change that would clear the flag is refused as damage, as in Linux.
//!
//! A directory of one block on a volume with `dir_index` becomes an htree when the block is full.
//!
//! A damaged block is read up to its first damage, and is not changed.
//!
//! Names of encrypted directories are shown, and looked up, in another form; see `no_key`.
//!
//! A reader's cookie is the offset of an entry in a directory that stays linear, where no change
//! moves entries, and is derived from the name's hash in all others. So the order of a directory
//! does not change while the volume is open.
//!
//! A simulated host is charged for the entries that a search compares, where a kernel would search:
//! in [`remove`], [`set`] and [`add`] always, in [`find`] unless its cache of names has the answer.
//! Names whose inodes are in memory are taken for cached, and so are names that were absent lately.

mod cookie;
mod growth;
mod htree;
mod index;
mod inline;
mod leaf;
mod linear;
mod no_key;
mod search;
mod tails;

use std::sync::Arc;

use jbd2::Buffer;
use layout::hash::HashVersion;
use layout::inode_flags::InodeFlags;
use layout::{BlockNr, FileBlock, InodeNr};

/// A reader's callback, called with a cookie and the entry before it; returns false to stop.
type Visit<'v> = dyn FnMut(u64, Entry) -> bool + 'v;

use crate::alloc::CREDITS_PER_GROUP;
use crate::cache::buffers::Refused;
use crate::cache::inode::Inode;
use crate::cache::leaf_names;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::entry::{self, Bad, BlockForm, Entry, NewEntry};
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::disk::metadata::{Kind, Label};
use crate::error::{Corrupt, Error, Result};
use crate::map::{FileMap, Mapped};

pub(crate) use htree::levels_max;
pub(crate) use index::blocks_below;
use search::Search;
pub(crate) use tails::{credits_to_reserve, reserve_tail};

/// Number of journal blocks that adding an entry may dirty besides allocation and the directory's
/// inode: leaf, new leaf, two split index levels, root.
pub(crate) const CREDITS_ADD: u32 = 6;
/// Number of further blocks with `large_dir`: one more level of the index is split, into a node
/// with its new one, which is allocated.
pub(crate) const CREDITS_ADD_LARGE: u32 = 2 + CREDITS_PER_GROUP;

impl Bad {
    /// Records the damage, and returns the error with its location.
    #[track_caller]
    pub(crate) fn at(self, core: &Core, inode: InodeNr, file_block: FileBlock) -> Error {
        let offset = u32::try_from(self.offset).unwrap_or(u32::MAX);
        core.damaged(Corrupt::Directory {
            inode,
            file_block,
            offset,
            why: self.why,
        })
    }
}

/// The place of an entry.
#[derive(Debug, Clone, Copy)]
struct Place {
    inode: InodeNr,
    file_block: FileBlock,
    offset: usize,
}

/// Looks up a name. Returns the inode and the block of the entry.
pub(crate) fn find(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    name: &[u8],
) -> Result<Option<(InodeNr, FileBlock)>> {
    let mut search = Search::default();
    let place = place_of(core, directory, state, name, &mut search)?;
    search.charge_unless(&directory.names_index, || {
        is_name_cached(core, directory, name, place)
    });
    Ok(place.map(|place| (place.inode, place.file_block)))
}

/// Returns true if a kernel would know the result of a search from its cache of names.
fn is_name_cached(core: &Core, directory: &Inode, name: &[u8], place: Option<Place>) -> bool {
    match place {
        Some(place) => core.inodes.has(place.inode),
        None => core.absent_names.note(directory.nr, name),
    }
}

/// Returns the block of a name's entry, if there is one: a caller that holds it can change the
/// entry without reading.
pub(crate) fn hold(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    name: &[u8],
) -> Result<Option<Arc<Buffer>>> {
    let place = place_of(core, directory, state, name, &mut Search::default())?;
    place
        .map(|place| block(core, directory, state, place.file_block))
        .transpose()
}

/// Returns the block of `..`, as [`hold`] does. A damaged directory may have no such entry.
pub(crate) fn hold_parent(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
) -> Result<Arc<Buffer>> {
    let (offset, why) = (0, "the directory has no \"..\"");
    hold(core, directory, state, b"..")?
        .ok_or_else(|| Bad { offset, why }.at(core, directory.nr, FileBlock::new(0)))
}

/// Makes room for an entry in a directory that lies within its inode, in a step of its own: it
/// moves into a block if it is full. Other directories get their blocks when the entry is added.
///
/// # Errors
/// - [`Error::NoSpace`] if no block is left; nothing has changed.
pub(crate) fn make_room(
    core: &Core,
    directory: &Inode,
    state: &mut InodeState,
    name: &[u8],
) -> Result<()> {
    if !state.is_inline() {
        return Ok(());
    }
    let new = NewEntry {
        name,
        inode: directory.nr,
        type_byte: 0,
    };
    inline::make_room(core, directory, state, new)
}

/// Adds an entry for a new name. Changes `state` (size, block map, flags), which the caller stores.
///
/// # Errors
/// - [`Error::NoSpace`] if no block is left, [`Error::DirectoryFull`] if the index is full; nothing
///   has changed.
pub(crate) fn add(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
    name: &[u8],
    inode: InodeNr,
    kind: FileKind,
) -> Result<()> {
    let new = NewEntry {
        name,
        inode,
        type_byte: type_byte(core, kind),
    };
    if state.is_inline() {
        if inline::add(core, handle, directory, state, new)? {
            return Ok(());
        }
        inline::move_out(core, handle, directory, state)?;
    }
    if let Some(tree) = htree::open(core, directory, state)? {
        if rt::mutant!("directory/linear-into-indexed")
            && linear::add_in_place(core, handle, directory, state, new)?
        {
            return Ok(());
        }
        return htree::add(core, handle, directory, state, &tree, new);
    }
    drop_index(core, handle, directory, state)?;
    if stays_linear(core, state) {
        handle.note_linear(directory.nr);
    }
    if linear::add_in_place(core, handle, directory, state, new)? {
        return Ok(());
    }
    if let Some(version) = future_hash(core, state) {
        directory.names_index.lock().forget();
        return htree::convert_and_add(core, handle, directory, state, version, new);
    }
    linear::append(core, handle, directory, state, new)
}

/// Removes the entry of an existing name.
pub(crate) fn remove(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
    name: &[u8],
) -> Result<InodeNr> {
    let mut search = Search::default();
    let place = place_of(core, directory, state, name, &mut search)?.ok_or(Error::NotFound)?;
    if state.is_inline() {
        search.charge(&directory.names_index);
        inline::remove(core, handle, directory, state, place)?;
        return Ok(place.inode);
    }
    drop_unusable_index(core, handle, directory, state)?;
    let buffer = block(core, directory, state, place.file_block)?;
    let previous = leaf_names::previous_of(&buffer, place.offset, &mut search.entries);
    search.charge(&directory.names_index);
    let mut bytes = handle.write(&buffer)?;
    let is_encrypted = state.flags.contains(InodeFlags::ENCRYPT);
    let stored = is_encrypted.then(|| entry::at(&bytes, place.offset).name.to_vec());
    leaf_names::erase(&mut bytes, previous, place.offset);
    let mut index = directory.names_index.lock();
    index.remove(stored.as_deref().unwrap_or(name));
    index.set_summary(place.file_block.get(), &bytes);
    Ok(place.inode)
}

/// Points the entry of an existing name to another inode; returns the previous inode.
pub(crate) fn set(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
    name: &[u8],
    inode: InodeNr,
    kind: FileKind,
) -> Result<InodeNr> {
    let mut search = Search::default();
    let place = place_of(core, directory, state, name, &mut search)?.ok_or(Error::NotFound)?;
    search.charge(&directory.names_index);
    let type_byte = type_byte(core, kind);
    if state.is_inline() {
        inline::set(core, handle, directory, state, (place, inode, type_byte))?;
        return Ok(place.inode);
    }
    if stays_linear(core, state) {
        // A replay removes and adds the name, which may get another place.
        handle.refuse("a name of a linear directory has another inode");
    }
    let buffer = block(core, directory, state, place.file_block)?;
    leaf_names::point_to(&mut handle.write(&buffer)?, place.offset, inode, type_byte);
    Ok(place.inode)
}

/// Creates the first block of a new directory, with `.` and `..`, or the contents of its inode.
pub(crate) fn initialise(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
    parent: InodeNr,
) -> Result<()> {
    if state.is_inline() {
        inline::initialise(handle, state, parent);
        return Ok(());
    }
    let start = FileBlock::new(0);
    let (run, _) = FileMap::of(state).find_or_allocate(core, handle, directory, state, start, 1)?;
    let type_byte = type_byte(core, FileKind::Directory);
    let image = entry::first_block(block_form(core), directory.nr, parent, type_byte);
    let buffer = core.buffers.get_new(run.first, label(directory, state));
    handle.replace(&buffer, image.into_arc())?;
    state.size = core.block_bytes() as u64;
    Ok(())
}

/// Returns true if the directory has no entries except `.` and `..`.
pub(crate) fn is_empty(core: &Core, directory: &Inode, state: &InodeState) -> Result<bool> {
    let mut search = Search::default();
    let mut is_empty = true;
    'blocks: for file_block in 0..block_count(core, state) {
        let file_block = FileBlock::new(file_block);
        let Readable { buffer, bad } = readable(core, directory, state, file_block)?;
        let bytes = buffer.read();
        for found in entry::entries(&bytes) {
            let found = found.map_err(|bad| bad.at(core, directory.nr, file_block))?;
            search.entries += 1;
            is_empty = found.inode == 0 || found.name == b"." || found.name == b"..";
            if !is_empty {
                break 'blocks;
            }
        }
        // Damage within an inode is left out of the block that is made of it.
        if let Some(bad) = bad {
            return Err(bad.at(core, directory.nr, file_block));
        }
    }
    search.charge(&directory.names_index);
    Ok(is_empty)
}

/// Calls `visit` for every entry from a cookie on (0 = start) until it returns false; the cookie
/// passed with an entry continues after it. Cookies stay valid while other entries are added and
/// removed.
///
/// # Errors
/// - [`Corrupt`] after all readable entries, or if `visit` has returned false after the damage.
pub(crate) fn read(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    cookie: u64,
    visit: &mut Visit<'_>,
) -> Result<()> {
    let mut wrong = None;
    let shown = no_key::Shown::of(core, directory, state)?;
    let mut checked = |next, mut entry: Entry| {
        entry.name = shown.name(core, entry.name);
        // A path built from such a name would refer to another file.
        if entry.name.contains(&b'/') || entry.name.contains(&0) {
            wrong.get_or_insert(entry.name);
            return true;
        }
        visit(next, entry)
    };
    let visit = &mut checked;
    match htree::open(core, directory, state)? {
        Some(tree) => cookie::read_indexed(core, directory, state, &tree, cookie, visit),
        None => match future_hash(core, state) {
            Some(hash) if !rt::mutant!("directory/one-block-by-offset") => {
                cookie::read_one_block(core, directory, state, hash, cookie, visit)
            }
            _ => linear::read(core, directory, state, cookie, visit),
        },
    }?;
    match wrong {
        Some(name) => Err(core.damaged(Corrupt::Name {
            inode: directory.nr,
            name: String::from_utf8_lossy(&name).into_owned(),
        })),
        None => Ok(()),
    }
}

/// Returns the hash of the htree that a directory of one block becomes when it is full; none if it
/// stays linear.
fn future_hash(core: &Core, state: &InodeState) -> Option<HashVersion> {
    let is_one_block = state.is_inline() || state.size == core.block_bytes() as u64;
    let stays_linear = state.flags.contains(InodeFlags::CASEFOLD);
    if !is_one_block || stays_linear || !core.superblock.has_dir_index() {
        return None;
    }
    HashVersion::from_raw(core.superblock.hash_version)
}

/// Returns true if the directory is linear and stays so: names go to the first place with room, and
/// no block is compacted, so that the names that fit depend on those before them.
fn stays_linear(core: &Core, state: &InodeState) -> bool {
    let has_index = state.flags.contains(InodeFlags::INDEX) && core.superblock.has_dir_index();
    !has_index && future_hash(core, state).is_none()
}

/// Returns the place of a name, and adds the work that finds it to `search`.
fn place_of(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    name: &[u8],
    search: &mut Search,
) -> Result<Option<Place>> {
    if (name == b"." || name == b"..") && !state.is_inline() {
        return linear::find_in_block(core, directory, state, FileBlock::new(0), name, search);
    }
    let is_plain = name == b"." || name == b".." || !state.flags.contains(InodeFlags::ENCRYPT);
    if !is_plain {
        return no_key::find(core, directory, state, name, search);
    }
    place_of_stored(core, directory, state, name, search)
}

/// Returns the place of a name as it is stored, and adds the work that finds it to `search`.
fn place_of_stored(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    name: &[u8],
    search: &mut Search,
) -> Result<Option<Place>> {
    if state.is_inline() {
        return inline::find(core, directory, state, name, search);
    }
    match htree::open(core, directory, state)? {
        Some(tree) => htree::find(core, directory, state, &tree, name, search),
        None => linear::find(core, directory, state, name, search),
    }
}

/// Returns the name of an entry, as it is stored.
fn block_name(core: &Core, directory: &Inode, state: &InodeState, place: Place) -> Result<Vec<u8>> {
    let Readable { buffer, .. } = readable(core, directory, state, place.file_block)?;
    let bytes = buffer.read();
    Ok(entry::at(&bytes, place.offset).name.to_vec())
}

/// Clears the index flag if the index is unusable: an index that changes do not maintain must not
/// be trusted later.
fn drop_unusable_index(
    core: &Core,
    handle: &Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
) -> Result<()> {
    if state.flags.contains(InodeFlags::INDEX) && htree::open(core, directory, state)?.is_none() {
        drop_index(core, handle, directory, state)?;
    }
    Ok(())
}

/// Clears the index flag of a directory whose index is unusable. With checksums the index has to be
/// repaired instead: a linear directory has no index blocks, whose checksums are of another form.
fn drop_index(
    core: &Core,
    handle: &Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
) -> Result<()> {
    if !state.flags.contains(InodeFlags::INDEX) {
        return Ok(());
    }
    if core.superblock.checksums.has_tails() {
        let (offset, why) = (0, "the index is unusable");
        return Err(Bad { offset, why }.at(core, directory.nr, FileBlock::new(0)));
    }
    handle.refuse("a directory loses its index");
    state.flags.remove(InodeFlags::INDEX);
    Ok(())
}

fn type_byte(core: &Core, kind: FileKind) -> u8 {
    if core.superblock.has_filetype() {
        kind.entry_type().raw()
    } else {
        0
    }
}

/// Returns the form of the directory blocks that are no index blocks.
fn block_form(core: &Core) -> BlockForm {
    BlockForm {
        size: core.block_bytes(),
        has_tail: core.superblock.checksums.has_tails() || core.options.reserves_tails,
    }
}

fn block_count(core: &Core, state: &InodeState) -> u64 {
    if state.is_inline() {
        return 1;
    }
    state.size / core.block_bytes() as u64
}

/// A block of a directory. If it is damaged, this is a copy of it, for reading only.
struct Readable {
    buffer: Arc<Buffer>,
    /// The first damage.
    bad: Option<Bad>,
}

/// Returns a block of the directory for a change, for which the whole block has to be sound.
fn block(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    file_block: FileBlock,
) -> Result<Arc<Buffer>> {
    let found = readable(core, directory, state, file_block)?;
    match found.bad {
        None => Ok(found.buffer),
        Some(bad) => Err(bad.at(core, directory.nr, file_block)),
    }
}

/// Returns a block of the directory for reading: entries before damage can still be found.
fn readable(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    file_block: FileBlock,
) -> Result<Readable> {
    rt::charge(rt::Cost::Lookup);
    let bad = |why| Bad { offset: 0, why };
    if file_block.get() >= block_count(core, state) {
        let bad = bad("the block lies beyond the directory's end");
        return Err(bad.at(core, directory.nr, file_block));
    }
    if state.is_inline() {
        return inline::readable(core, directory, state);
    }
    let Mapped::Run(run) = FileMap::of(state).find(core, directory, state, file_block, 1)? else {
        let bad = bad("a directory has no holes");
        return Err(bad.at(core, directory.nr, file_block));
    };
    match core.buffers.get(run.first, label(directory, state)) {
        Ok(buffer) => Ok(Readable { buffer, bad: None }),
        Err(Refused::Damaged(damaged)) => Ok(Readable {
            buffer: damaged.copy,
            bad: Some(damaged.bad),
        }),
        Err(Refused::Failed(error)) => Err(core.noted(error)),
    }
}

/// Returns the label of a directory's blocks.
fn label(directory: &Inode, state: &InodeState) -> Label {
    let generation = match rt::mutant!("checksums/directory-without-generation") {
        true => 0,
        false => state.generation,
    };
    Kind::Directory.of_inode(directory.nr, generation)
}

/// Allocates `count` blocks after the directory's end, or none at all. The caller fills them and
/// sets the size.
fn allocate_behind(
    core: &Core,
    handle: &mut Handle<'_>,
    directory: &Inode,
    state: &mut InodeState,
    count: u64,
) -> Result<Vec<BlockNr>> {
    let end = FileBlock::new(block_count(core, state));
    let size = (end.get() + count) * core.block_bytes() as u64;
    if size > u64::from(u32::MAX) && !core.superblock.has_large_dir() {
        return Err(Error::DirectoryFull);
    }
    FileMap::of(state).allocate_each(core, handle, directory, state, end, count)
}

#[cfg(test)]
mod tests;
