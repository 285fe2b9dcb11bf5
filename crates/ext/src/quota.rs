//! Quota files: loading them, entries of new owners and of former ones, limits.
//!
//! Each owner of an inode has an entry before the handle that gives it the inode starts
//! ([`prepare`]): within a handle, counts change and no block is allocated for them. A new entry is
//! a handle of its own; a crash after it leaves an entry without use. The operation claims the
//! entry until it has ended.
//!
//! Entries without use, limits and claims are removed before a file grows, and when the volume is
//! closed ([`remove_unused`]). So the room of a former owner is that of the next one, and a file
//! does not grow with owners that come and go.
//!
//! # Locks
//!
//! The lock of new entries comes behind those of inodes, and before handles.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jbd2::Credits;
use layout::quota::{Entry, QuotaKind};
use layout::{Block, BlockNr, FileBlock, InodeNr};
use rt::Mutex;

use crate::cache::inode::Inode;
use crate::cache::quotas::{Claim, Contents, OWNERS, Owners, QuotaFile, Quotas};
use crate::core::Core;
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::disk::metadata::Kind;
use crate::disk::quota::{ENTRY_BLOCKS_MAX, QuotaTree, REMOVAL_BLOCKS_MAX};
use crate::error::{Corrupt, Error, Result};
use crate::map::{FileMap, Visited};

/// Number of blocks that a new entry changes: those of the file, and its inode.
const CREDITS_ENTRY: u32 = ENTRY_BLOCKS_MAX + 1;
/// Largest size of a quota file that is loaded, in bytes: more than a million owners. Tests have no
/// time for so many.
const BYTES_MAX: u64 = if cfg!(test) { 1 << 18 } else { 128 << 20 };
/// Number of unused entries that are removed before a file grows. More than one, so that their
/// number falls, also if they share blocks with others.
const REMOVALS: u32 = 8;

/// The claims of an operation to the entries of its owners, by the number of their kind.
pub(crate) type Claims<'c> = [Option<Claim<'c>>; OWNERS];

/// Loads the quota files that the superblock names.
///
/// # Errors
/// - [`Corrupt::Quota`] if a file is damaged.
pub(crate) fn load(core: &Core) -> Result<Quotas> {
    let mut quotas = Quotas::default();
    for (kind, nr) in core.superblock.quota_inodes() {
        quotas.files.push(load_file(core, kind, nr)?);
    }
    Ok(quotas)
}

fn load_file(core: &Core, kind: QuotaKind, nr: InodeNr) -> Result<QuotaFile> {
    let damaged = |why| Error::from(Corrupt::Quota { inode: nr, why });
    let inode = match Inode::load(core, nr) {
        Err(Error::NotFound) => return Err(damaged("its inode is free")),
        inode => inode?,
    };
    let state = inode.state.read();
    let is_possible = state.kind == FileKind::Regular && state.size <= BYTES_MAX;
    if !is_possible {
        return Err(damaged("it is no regular file, or too large"));
    }
    let label = Kind::Contents.of_inode(nr, state.generation);
    let blocks = blocks_of(core, &inode, &state)?;
    let mut bytes = Vec::new();
    // The file may have grown by a block that no entry needs.
    let used = state.size.div_ceil(core.block_bytes() as u64);
    for block in blocks.iter().take(used as usize) {
        let buffer = core.buffers.get(*block, label);
        let buffer = buffer.map_err(crate::cache::buffers::Refused::of_volume)?;
        bytes.extend_from_slice(&buffer.read());
    }
    if bytes.len() < state.size as usize {
        return Err(damaged("it has a hole"));
    }
    bytes.truncate(state.size as usize);
    let tree = QuotaTree::decode(kind, bytes).map_err(damaged)?;
    if let Some(why) = tree.list_fault() {
        tracing::warn!(kind = kind.name(), "quota file: {why}");
        core.note_damage(&Corrupt::Quota { inode: nr, why });
    }
    Ok(QuotaFile {
        kind,
        inode: nr,
        label,
        contents: Mutex::new(Contents {
            tree,
            blocks,
            claims: BTreeMap::new(),
        }),
    })
}

/// Returns the blocks of a file up to its first hole.
fn blocks_of(core: &Core, inode: &Inode, state: &InodeState) -> Result<Vec<BlockNr>> {
    let mut blocks = Vec::new();
    FileMap::of(state).walk(core, inode, state, &mut |visited, run| {
        if visited == Visited::Data(FileBlock::new(blocks.len() as u64)) {
            blocks.extend((0..u64::from(run.count)).map(|index| run.first + index));
        }
        Ok(())
    })?;
    Ok(blocks)
}

/// Adds entries for owners that have none. They stay until the claims are dropped, which is after
/// the handle that uses them has ended. The caller has no open handle.
///
/// # Errors
/// - [`Error::NoSpace`] if a quota file cannot grow.
pub(crate) fn prepare(core: &Core, owners: Owners) -> Result<Claims<'_>> {
    let mut claims = Claims::default();
    if rt::mutant!("quota/owner-without-entry") {
        return Ok(claims);
    }
    for file in &core.quotas.files {
        let kind = file.kind as usize;
        claims[kind] = Some(claim(core, file, owners[kind])?);
    }
    Ok(claims)
}

/// Claims the entry of an owner, which is added first if it has none.
fn claim<'c>(core: &'c Core, file: &'c QuotaFile, owner: u32) -> Result<Claim<'c>> {
    let (claim, is_there) = Claim::new(file, owner);
    if !is_there {
        add_entry(core, file, owner)?;
    }
    Ok(claim)
}

fn add_entry(core: &Core, file: &QuotaFile, owner: u32) -> Result<()> {
    let _growth = core.quotas.growth.lock();
    let length = || {
        let contents = file.contents.lock();
        let tree = &contents.tree;
        (!tree.contains(owner)).then(|| (tree.len(), tree.len_with(owner)))
    };
    let mut removals = 0;
    let length = loop {
        let Some((length, wanted)) = length() else {
            return Ok(());
        };
        if wanted == length || removals == REMOVALS || !remove_one(core, file)? {
            break wanted;
        }
        removals += 1;
    };
    if length as u64 > BYTES_MAX {
        tracing::warn!(kind = file.kind.name(), "the quota file is full");
        return Err(Error::NoSpace);
    }
    // Nothing else has this inode: its lock, which would come before that of the caller's, is not
    // taken.
    let mut inode = Inode::load(core, file.inode)?;
    let mut state = inode.state.get_mut().clone();
    let mut grow_to = |bytes| {
        while file.contents.lock().blocks.len() * core.block_bytes() < bytes {
            grow(core, file, &inode, &mut state)?;
        }
        Ok(())
    };
    let has_grown: Result<()> = grow_to(length);
    core.discard_window(&inode.window);
    has_grown?;
    let mut handle = core.begin(Credits {
        blocks: CREDITS_ENTRY,
        revokes: 0,
    })?;
    if state.size < length as u64 {
        state.size = length as u64;
        state.store(core, &mut handle, file.inode, true)?;
    }
    let mut contents = file.contents.lock();
    contents.tree.insert(owner);
    core.store_quota(&mut handle, file, &mut contents)?;
    drop(contents);
    handle.finish().map(drop)
}

/// Adds a block of zeroes to the end of a quota file.
fn grow(core: &Core, file: &QuotaFile, inode: &Inode, state: &mut InodeState) -> Result<()> {
    let map = FileMap::of(state);
    let mut handle = core.begin(Credits {
        blocks: map.credits_to_map() + 2,
        revokes: 0,
    })?;
    let count = file.contents.lock().blocks.len() as u64;
    let from = FileBlock::new(count);
    let run = match map.find_or_allocate(core, &mut handle, inode, state, from, 1) {
        Ok((run, _)) => run,
        Err(error) => {
            handle.finish()?;
            return Err(error);
        }
    };
    let buffer = core.buffers.get_new(run.first, file.label);
    handle.replace(&buffer, Block::zeroed(core.block_bytes()).into_arc())?;
    state.size = (count + 1) * core.block_bytes() as u64;
    state.store(core, &mut handle, file.inode, true)?;
    handle.finish()?;
    file.contents.lock().blocks.push(run.first);
    Ok(())
}

/// Removes an entry without use, limits and claims. Returns false if there is none. The caller
/// holds the lock of new entries, unless the volume is being closed.
fn remove_one(core: &Core, file: &QuotaFile) -> Result<bool> {
    if file.contents.lock().reusable().is_none() {
        return Ok(false);
    }
    let mut handle = core.begin(Credits {
        blocks: REMOVAL_BLOCKS_MAX,
        revokes: 0,
    })?;
    let mut contents = file.contents.lock();
    let owner = contents.reusable();
    if let Some(owner) = owner {
        contents.tree.remove(owner);
        core.store_quota(&mut handle, file, &mut contents)?;
    }
    drop(contents);
    handle.finish()?;
    Ok(owner.is_some())
}

/// Removes the entries of owners without use and limits. The volume is being closed.
pub(crate) fn remove_unused(core: &Core) -> Result<()> {
    if rt::mutant!("quota/unused-entries-kept") {
        return Ok(());
    }
    for file in &core.quotas.files {
        while remove_one(core, file)? {}
    }
    Ok(())
}

/// Returns the entries of a kind of owners, by id; none if the volume does not count it.
pub(crate) fn entries(quotas: &Quotas, kind: QuotaKind) -> Option<Vec<Entry>> {
    let file = quotas.files.iter().find(|file| file.kind == kind)?;
    Some(file.contents.lock().tree.entries().collect())
}

/// Changes the entry of an owner, which is added first if it has none.
pub(crate) fn edit(
    core: &Core,
    kind: QuotaKind,
    owner: u32,
    edit: impl FnOnce(&mut Entry),
) -> Result<()> {
    core.check_writable()?;
    let file = core.quotas.files.iter().find(|file| file.kind == kind);
    let file = file.ok_or(Error::Invalid("the volume does not count these owners"))?;
    let _claim = claim(core, file, owner)?;
    let mut handle = core.begin(Credits {
        blocks: 1,
        revokes: 0,
    })?;
    let mut contents = file.contents.lock();
    contents.tree.edit(owner, edit);
    core.store_quota(&mut handle, file, &mut contents)?;
    drop(contents);
    handle.finish().map(drop)
}
