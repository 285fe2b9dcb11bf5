//! Values in inodes of their own (`ea_inode`): reading, storing and counting them.
//!
//! ```text
//! entry: e_value_inum, e_value_size, e_hash  ->  inode: size, hash of the value, references
//! ```
//!
//! # Rules
//!
//! - A value is journaled like metadata in every data mode. It is stored before the handle that
//!   adds its entry, in as many handles as its blocks need: until then its inode is an orphan, an
//!   ordinary file without links. The handle that adds the entry takes it off the orphan list and
//!   makes it an inode of a value.
//! - The handle that drops the last reference makes it an ordinary file without links again, and an
//!   orphan. Linux refuses an orphan that is marked as the inode of a value.
//! - References change within a handle and under the lock of the attribute blocks
//!   ([`Core::attribute_blocks`]). An entry in an attribute block is one reference, however many
//!   inodes share the block.
//! - No thread finds the inode of a value in the cache: a load refuses it. A new one lies there
//!   without links until its entry is added, so that a stale number does not load the orphan.
//! - An inode of Lustre has no count. It belongs to the one inode that it names, and goes with the
//!   entry.
//!
//! Interactions: an inode counts the blocks of its values among its own, each entry for itself; the
//! deletion of a file drops its values first ([`super::drop_values`]); quotas count an orphan for
//! the owners of the inode that gets its entry, or has had it (`core::quota`).
//!
//! Source: Linux `Documentation/filesystems/ext4/attributes.rst`.

use std::collections::BTreeMap;
use std::sync::Arc;

use jbd2::{Buffer, Credits};
use layout::attribute::{VALUE_INODE_SIZE_MAX, ValueInode, entry_hash_of_inode, value_hash};
use layout::inode::Inode as Base;
use layout::inode_flags::InodeFlags;
use layout::time::InodeTime;
use layout::{Block, BlockNr, FileBlock, InodeNr};
use zerocopy::FromBytes;

use super::name::AttributeName;
use super::placement::has_attributes_within;
use super::set::{AttributeSet, Reference};
use crate::alloc::CREDITS_INODE;
use crate::cache::inode::Inode;
use crate::cache::quotas::Owners;
use crate::core::Core;
use crate::core::handle::{CREDITS_MAX_EXTENTS, Handle};
use crate::disk::inode::{InodeState, table};
use crate::disk::kind::FileKind;
use crate::disk::metadata::Kind;
use crate::error::{Corrupt, Error, Result};
use crate::map::{FileMap, Mapped};
use crate::orphan;

/// Number of blocks of a value that one handle writes.
const BLOCKS_PER_STEP: u32 = 16;
/// Number of blocks that a change of one count may dirty: the inode, and a slot of the orphan file
/// or the inode that is the predecessor on the list. The superblock has a credit of its own.
const CREDITS_COUNT: u32 = 2;
/// Permissions of the inode of a value.
const PERMISSIONS: u16 = 0o600;

/// Returns the number of blocks that changing the counts of `count` values may dirty.
pub(crate) const fn credits_of_values(count: u32) -> u32 {
    CREDITS_COUNT * count
}

/// Returns the credits of the handle that makes the inode and writes its first blocks.
const fn credits_to_make(map: FileMap) -> Credits {
    let inode = CREDITS_INODE + orphan::CREDITS_ORPHAN;
    Credits::blocks(inode + map.credits_to_map() + BLOCKS_PER_STEP)
}

/// Returns the credits of a handle that writes more blocks.
const fn credits_to_go_on(map: FileMap) -> Credits {
    Credits::blocks(map.credits_to_map() + BLOCKS_PER_STEP)
}

const FLAT: FileMap = FileMap::Extents { depth: 0 };
const _: () = assert!(credits_to_make(FileMap::Indirect).blocks <= CREDITS_MAX_EXTENTS);
const _: () = assert!(credits_to_make(FLAT).blocks <= CREDITS_MAX_EXTENTS);
const _: () = assert!(credits_to_go_on(FileMap::Indirect).blocks <= CREDITS_MAX_EXTENTS);
const _: () = assert!(credits_to_go_on(FileMap::DEEPEST).blocks <= CREDITS_MAX_EXTENTS);

/// The inode that has the attributes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    pub(super) nr: InodeNr,
    pub(super) generation: u32,
    pub(super) owners: Owners,
}

impl Owner {
    pub(super) fn new(nr: InodeNr, state: &InodeState) -> Self {
        Self {
            nr,
            generation: state.generation,
            owners: state.owners(),
        }
    }
}

/// The inode of a value that was found good, with its block of the table.
pub(super) struct Found {
    table: Arc<Buffer>,
    state: InodeState,
    value: ValueInode,
    is_of_lustre: bool,
}

impl Found {
    /// Returns true if Lustre wrote the inode: it has no count, and its blocks are not counted.
    pub(super) fn is_of_lustre(&self) -> bool {
        self.is_of_lustre
    }

    /// Returns true if the inode is still the one that was found. It is not if a count was too low,
    /// so that another entry's change has deleted it. The caller holds the attribute blocks.
    fn is_there(&self, core: &Core, nr: InodeNr) -> Result<bool> {
        let now = match load(core, nr, &self.table) {
            Ok(now) => now,
            Err(Error::NotFound) => return Ok(false),
            Err(error) => return Err(error),
        };
        let hash = ValueInode::of(&read_base(core, nr, &self.table)?).hash;
        Ok(now.flags.contains(InodeFlags::ATTRIBUTE_INODE)
            && now.links > 0
            && now.generation == self.state.generation
            && hash == self.value.hash)
    }
}

/// Returns the error of an entry that names no good inode.
fn damaged(core: &Core, owner: InodeNr, why: &'static str) -> Error {
    core.damaged(Corrupt::Attributes { inode: owner, why })
}

/// Reads and checks the inode that an entry names.
///
/// # Errors
/// - [`Corrupt::Attributes`] describes the damage, of the inode or of the entry.
pub(super) fn find(
    core: &Core,
    owner: Owner,
    name: &AttributeName,
    reference: &Reference,
) -> Result<Found> {
    let bad = |why| Err(damaged(core, owner.nr, why));
    let nr = reference.inode;
    let geometry = core.geometry();
    if nr < geometry.first_inode || nr.get() > geometry.inode_count || nr == owner.nr {
        return bad("a value lies in an inode that cannot be");
    }
    let (table, offset) = core.hold_table_of(nr)?;
    let block = table.read();
    let bytes = &block[offset..offset + usize::from(geometry.inode_bytes)];
    let state = match table::decode(&core.superblock, geometry, nr, bytes) {
        Ok(state) => state,
        Err(Error::NotFound) => return bad("a value lies in a free inode"),
        Err(error) => return Err(core.noted(error)),
    };
    let (base, _) = Base::read_from_prefix(bytes).expect("an inode has at least its base");
    let has_attributes = state.attribute_block != BlockNr::new(0) || has_attributes_within(bytes);
    drop(block);
    if has_attributes {
        return bad("a value lies in an inode with attributes of its own");
    }
    let is_marked = state.flags.contains(InodeFlags::ATTRIBUTE_INODE);
    if !is_marked || state.kind != FileKind::Regular {
        return bad("a value lies in an inode that is not one of a value");
    }
    if state.links == 0 || core.orphans.lock().contains(nr) {
        return bad("a value lies in an inode that is deleted");
    }
    if state.size != u64::from(reference.size) || reference.size > VALUE_INODE_SIZE_MAX {
        return bad("a value has another size than its inode");
    }
    let value = ValueInode::of(&base);
    let is_counted = value.has_entry(&name.suffix, reference.hash);
    if !is_counted && !value.is_owned_by(owner.nr.get(), owner.generation) {
        return bad("an entry does not match the hash of its value's inode");
    }
    if is_counted && value.references == 0 {
        return bad("a value lies in an inode without references");
    }
    Ok(Found {
        table,
        state,
        value,
        is_of_lustre: !is_counted,
    })
}

/// Reads a value from its inode.
///
/// # Errors
/// - [`Corrupt::Attributes`] describes the damage.
pub(super) fn read(
    core: &Core,
    owner: Owner,
    name: &AttributeName,
    reference: &Reference,
) -> Result<Vec<u8>> {
    let found = find(core, owner, name, reference)?;
    let inode = Inode::new(reference.inode, found.state.clone());
    let block_bytes = core.block_bytes();
    let mut bytes = Vec::with_capacity(reference.size as usize);
    let mut left = reference.size as usize;
    let mut at = FileBlock::new(0);
    let label = Kind::Contents.of_volume();
    while left > 0 {
        let count = u32::try_from(left.div_ceil(block_bytes)).unwrap_or(u32::MAX);
        let map = FileMap::of(&found.state);
        let Mapped::Run(run) = map.find(core, &inode, &found.state, at, count)? else {
            return Err(damaged(core, owner.nr, "a value has a hole"));
        };
        for step in 0..u64::from(run.count) {
            let read = core.buffers.get(run.first + step, label);
            let buffer = read.map_err(|refused| {
                let why = "a block of a value is in use as another one";
                refused.into_error(|_| damaged(core, owner.nr, why))
            })?;
            let part = left.min(block_bytes);
            bytes.extend_from_slice(&buffer.read()[..part]);
            left -= part;
        }
        at = at + u64::from(run.count);
    }
    let is_good = value_hash(core.superblock.value_seed(), &bytes) == found.value.hash;
    if !is_good && !found.is_of_lustre {
        return Err(damaged(core, owner.nr, "a value does not match its hash"));
    }
    Ok(bytes)
}

/// A value that is stored in an inode of its own, which is an orphan until an entry is added.
pub(super) struct Stored {
    inode: Arc<Inode>,
    // Its block of the table: nothing is read once something has changed.
    table: Arc<Buffer>,
    pub(super) reference: Reference,
}

impl Stored {
    /// Ends the use of the inode in the cache. If no entry was added the inode is left to be
    /// deleted.
    pub(super) fn end(&self, core: &Core, is_linked: bool) {
        core.inodes.unpin(&self.inode);
        core.inodes.remove(self.inode.nr);
        if !is_linked {
            orphan::note_left(core, self.inode.nr);
        }
    }
}

/// Stores a value in an inode of its own, which is an orphan then. The caller has no open handle.
///
/// # Errors
/// - [`Error::NoInodes`] and [`Error::NoSpace`]: what was allocated is left to be deleted.
pub(super) fn store(
    core: &Core,
    owner: Owner,
    name: &AttributeName,
    bytes: &[u8],
) -> Result<Stored> {
    let _superblock = core.hold_superblock()?;
    let hash = value_hash(core.superblock.value_seed(), bytes);
    let mut handle = core.begin(credits_to_make(form_of_new(core)))?;
    let nr = match core.allocate_inode(&mut handle, owner.nr, false) {
        Ok(nr) => nr,
        Err(error) => {
            handle.finish()?;
            return Err(error);
        }
    };
    let table = match core.hold_table(nr) {
        Ok(table) => table,
        Err(error) => {
            core.free_inode(&mut handle, nr, false)?;
            handle.finish()?;
            return Err(error);
        }
    };
    let dead = fresh_state(core, nr, owner);
    let mut state = dead.clone();
    state.size = bytes.len() as u64;
    state.flags |= InodeFlags::JOURNAL_DATA;
    if core.superblock.has_extents() {
        state.use_extents();
    }
    let inode = Arc::new(Inode::new(nr, dead));
    core.insert_inode(Arc::clone(&inode));
    core.inodes.pin(&inode);
    let reference = Reference {
        inode: nr,
        size: bytes.len() as u32,
        hash: entry_hash_of_inode(&name.suffix, hash),
    };
    let stored = Stored {
        inode,
        table: Arc::clone(&table),
        reference,
    };
    let written = orphan::add(core, &mut handle, nr, &mut state)
        .and_then(|()| state.store(core, &mut handle, nr, true))
        .and_then(|()| write(core, &mut handle, &stored.inode, &mut state, bytes))
        .and_then(|()| state.store(core, &mut handle, nr, true))
        .and_then(|()| {
            core.change_in_table(&mut handle, nr, &table, |bytes| {
                let value = ValueInode {
                    hash,
                    references: 0,
                    ..ValueInode::of(base_of(bytes))
                };
                set_value(bytes, &value);
            })
        });
    core.discard_window(&stored.inode.window);
    let finished = handle.finish();
    if let Err(error) = written.and(finished.map(drop)) {
        stored.end(core, false);
        return Err(error);
    }
    Ok(stored)
}

/// Returns the form of the block map of a new inode.
fn form_of_new(core: &Core) -> FileMap {
    if core.superblock.has_extents() {
        FLAT
    } else {
        FileMap::Indirect
    }
}

/// Returns the state of a new inode without links. While a volume is made, it follows from the
/// number and the time at which it is made.
fn fresh_state(core: &Core, nr: InodeNr, owner: Owner) -> InodeState {
    let made = core.made_generation(nr);
    let generation = made.unwrap_or_else(|| rt::random_u64() as u32);
    let (kind, [uid, gid, project]) = (FileKind::Regular, owner.owners);
    let mut state = InodeState::fresh(kind, PERMISSIONS, uid, gid, generation);
    state.project = project;
    if made.is_some() {
        let seconds = core.superblock.raw.creation_time.get();
        state.mtime = InodeTime::new(i64::from(seconds), 0);
        state.crtime = Some(state.mtime);
    }
    (state.atime, state.ctime) = (InodeTime::default(), InodeTime::default());
    state.without_links()
}

/// Writes a value to new blocks. At a restart, and after an error, the inode is stored.
fn write(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    bytes: &[u8],
) -> Result<()> {
    let block_bytes = core.block_bytes();
    let label = Kind::Contents.of_volume();
    let count = bytes.len().div_ceil(block_bytes) as u64;
    let mut at = 0;
    while at < count {
        let map = FileMap::of(state);
        if handle.credits_left() <= map.credits_to_map() {
            state.store(core, handle, inode.nr, true)?;
            handle.restart(credits_to_go_on(map))?;
        }
        let room = handle.credits_left().saturating_sub(map.credits_to_map());
        let most = u32::try_from(count - at).unwrap_or(u32::MAX).min(room);
        let from = FileBlock::new(at);
        let found = map.find_or_allocate(core, handle, inode, state, from, most.max(1));
        let run = match found {
            Ok((run, _)) => run,
            Err(error) => {
                state.store(core, handle, inode.nr, true)?;
                return Err(error);
            }
        };
        for step in 0..u64::from(run.count) {
            let mut block = Block::zeroed(block_bytes);
            let start = (at + step) as usize * block_bytes;
            let part = &bytes[start..bytes.len().min(start + block_bytes)];
            block[..part.len()].copy_from_slice(part);
            let nr = run.first + step;
            if rt::mutant!("attributes/value-not-journaled") {
                let offset = core.geometry().byte_offset(nr);
                core.device.write_blocks(offset, vec![block.into_arc()])?;
                continue;
            }
            let buffer = core.buffers.get_new(nr, label);
            handle.replace(&buffer, block.into_arc())?;
        }
        at += u64::from(run.count);
    }
    Ok(())
}

/// Counts one more reference of each of these inodes; those that were stored for the change get
/// their first. The caller holds the superblock.
pub(super) fn raise(
    core: &Core,
    handle: &mut Handle<'_>,
    (found, stored): (&BTreeMap<InodeNr, Found>, &[Stored]),
    references: &[InodeNr],
) -> Result<()> {
    let _counts = core.attribute_blocks.write();
    for nr in references {
        if let Some(stored) = stored.iter().find(|stored| stored.inode.nr == *nr) {
            link(core, handle, stored)?;
        } else if let Some(found) = found.get(nr).filter(|found| !found.is_of_lustre)
            && found.is_there(core, *nr)?
            && !rt::mutant!("attributes/value-not-counted")
        {
            core.change_in_table(handle, *nr, &found.table, |bytes| {
                let mut value = ValueInode::of(base_of(bytes));
                value.references = value.references.saturating_add(1);
                set_value(bytes, &value);
            })?;
        }
    }
    Ok(())
}

/// Makes an orphan the inode of a value with one reference.
fn link(core: &Core, handle: &mut Handle<'_>, stored: &Stored) -> Result<()> {
    let (nr, table) = (stored.inode.nr, &stored.table);
    let mut state = load(core, nr, table)?;
    state.is_orphan = true;
    state.flags.remove(InodeFlags::JOURNAL_DATA);
    state.flags.insert(InodeFlags::ATTRIBUTE_INODE);
    state.claims(handle).links = 1;
    orphan::remove(core, handle, nr, &mut state)?;
    store_counted(core, handle, nr, table, (&mut state, 1))
}

/// Drops one reference of each of these inodes. One without references becomes an orphan, and is
/// left to be deleted; it belongs to the owners of the inode that had the entry. The caller holds
/// the superblock.
pub(super) fn lower(
    core: &Core,
    handle: &mut Handle<'_>,
    (found, stored): (&BTreeMap<InodeNr, Found>, &[Stored]),
    references: &[InodeNr],
    owners: Owners,
) -> Result<()> {
    let _counts = core.attribute_blocks.write();
    for nr in references {
        let stored = stored.iter().find(|stored| stored.inode.nr == *nr);
        let (table, is_alone) = match (found.get(nr), stored) {
            (Some(found), _) if found.is_there(core, *nr)? => {
                (Arc::clone(&found.table), found.is_of_lustre)
            }
            (None, Some(stored)) => (Arc::clone(&stored.table), false),
            _ => continue,
        };
        let count = ValueInode::of(&read_base(core, *nr, &table)?).references;
        if is_alone || count <= 1 {
            if rt::mutant!("attributes/value-not-deleted") {
                continue;
            }
            unlink(core, handle, *nr, &table, owners)?;
            continue;
        }
        if rt::mutant!("attributes/reference-not-dropped") {
            continue;
        }
        core.change_in_table(handle, *nr, &table, |bytes| {
            let mut value = ValueInode::of(base_of(bytes));
            value.references -= 1;
            set_value(bytes, &value);
        })?;
    }
    Ok(())
}

/// Makes the inode of a value without references an orphan. Does nothing if it is one already, as
/// when a damaged count was too low.
fn unlink(
    core: &Core,
    handle: &mut Handle<'_>,
    nr: InodeNr,
    table: &Arc<Buffer>,
    owners: Owners,
) -> Result<()> {
    let mut state = load(core, nr, table)?;
    if state.links == 0 {
        return Ok(());
    }
    if core.counts_values() && !rt::mutant!("quota/orphan-of-former-owner") {
        [state.uid, state.gid, state.project] = owners;
    }
    state.flags.remove(InodeFlags::ATTRIBUTE_INODE);
    state.flags.insert(InodeFlags::JOURNAL_DATA);
    state.claims(handle).links = 0;
    orphan::add(core, handle, nr, &mut state)?;
    store_counted(core, handle, nr, table, (&mut state, 0))?;
    orphan::note_left(core, nr);
    Ok(())
}

/// Stores the inode of a value and its count; the time that the count takes the place of is left
/// alone.
fn store_counted(
    core: &Core,
    handle: &mut Handle<'_>,
    nr: InodeNr,
    table: &Arc<Buffer>,
    (state, references): (&mut InodeState, u64),
) -> Result<()> {
    let before = ValueInode::of(&read_base(core, nr, table)?);
    state.store(core, handle, nr, true)?;
    core.change_in_table(handle, nr, table, |bytes| {
        let value = ValueInode {
            references,
            ..before
        };
        set_value(bytes, &value);
    })
}

/// Decodes an inode of the table.
fn load(core: &Core, nr: InodeNr, table: &Buffer) -> Result<InodeState> {
    let (_, offset) = core.inode_location(nr)?;
    let bytes = usize::from(core.geometry().inode_bytes);
    let block = table.read();
    let inode = &block[offset..offset + bytes];
    let decoded = table::decode(&core.superblock, core.geometry(), nr, inode);
    decoded.map_err(|error| core.noted(error))
}

fn read_base(core: &Core, nr: InodeNr, table: &Buffer) -> Result<Base> {
    let (_, offset) = core.inode_location(nr)?;
    let block = table.read();
    let (base, _) = Base::read_from_prefix(&block[offset..]).expect("an inode has its base");
    Ok(base)
}

fn base_of(bytes: &[u8]) -> &Base {
    let (base, _) = Base::ref_from_prefix(bytes).expect("an inode has at least its base");
    base
}

fn set_value(bytes: &mut [u8], value: &ValueInode) {
    let (base, _) = Base::mut_from_prefix(bytes).expect("an inode has at least its base");
    value.store(base);
}

/// Returns the inodes that entries of one set name more often than those of another.
pub(super) fn more(set: &AttributeSet, than: &AttributeSet) -> Vec<InodeNr> {
    let mut others: Vec<InodeNr> = numbers(than).collect();
    numbers(set)
        .filter(|nr| match others.iter().position(|other| other == nr) {
            Some(at) => {
                others.swap_remove(at);
                false
            }
            None => true,
        })
        .collect()
}

/// Returns the inodes that the entries of a set name.
pub(super) fn numbers(set: &AttributeSet) -> impl Iterator<Item = InodeNr> {
    set.references().map(|(_, reference)| reference.inode)
}
