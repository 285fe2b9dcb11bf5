//! Extended attributes, including access control lists. They are stored within the inode, if it has
//! more than 128 bytes, and in one attribute block, which inodes with equal attributes share.
//!
//! | module | contents |
//! |---|---|
//! | `name` | names: a prefix, which is a number, and a suffix |
//! | `set` | the attributes of one place, as values and as bytes |
//! | `placement` | the choice between the inode and the block |
//! | `block` | attribute blocks, their sharing, and the search by contents |
//! | `values` | values in inodes of their own (`ea_inode`) |
//! | `change` | a change, decided before its transaction and made within it |
//! | `list` | access control lists: their two forms, and their relation to modes |
//! | `inherit` | attributes that a new inode gets from the default ACL of its directory |
//! | `contents` | the attribute that holds the contents of the inode itself (`inline_data`) |
//!
//! # Rules
//!
//! - A change is one transaction, and so atomic across a crash. `fsync` makes it durable,
//!   `fdatasync` does not.
//! - Attributes within an inode live in the inode table's buffer and nowhere else; the inode's lock
//!   protects them.
//! - Interactions: deleting an inode releases its block ([`block::release`]); a short symbolic link
//!   differs from a long one by the sectors without those of the block, or by its size if sectors
//!   may be those of values ([`InodeState::has_map`]); a change of the mode changes the list in the
//!   same transaction ([`change_of_mode`]).
//!
//! Source: Linux `Documentation/filesystems/ext4/attributes.rst`, `xattr(7)`, `acl(5)`.

mod block;
mod change;
pub(crate) mod contents;
mod inherit;
mod list;
mod name;
mod placement;
mod set;
mod values;

use std::borrow::Cow;

use jbd2::Credits;
use layout::inode_flags::InodeFlags;
use layout::{BlockNr, InodeNr};

pub(crate) use block::{hold_for_release, release};
pub(crate) use change::Change;
pub(crate) use inherit::{Inherited, inherit};
pub(crate) use values::credits_of_values;

use crate::cache::inode::Inode;
use crate::cache::quotas::Owners;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::{InodeState, now, table};
use crate::disk::kind::FileKind;
use crate::error::{Error, Result};
use crate::writeback;
use change::Broken;
use list::List;
use name::AttributeName;
use placement::Placed;
use set::Value;
use values::Owner;

/// The condition under which an attribute is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetMode {
    /// Set in any case.
    #[default]
    Any,
    /// Fail if the attribute exists (`XATTR_CREATE`).
    Create,
    /// Fail if the attribute does not exist (`XATTR_REPLACE`).
    Replace,
}

/// Returns the value of an attribute.
pub(crate) fn get(core: &Core, nr: InodeNr, name: &[u8]) -> Result<Vec<u8>> {
    let name = AttributeName::parse(name)?;
    let inode = core.inode(nr)?;
    let state = inode.state.read();
    state.check_exists()?;
    let (placed, _) = change::read(core, nr, &state)?;
    let value = placed.get(&name).ok_or(Error::NoAttribute)?;
    let value = bytes_of(core, (nr, &state), &name, value)?;
    if name.list().is_some() {
        let list = List::from_ext(nr, &value).map_err(|damage| core.damaged(damage))?;
        return Ok(list.to_programs());
    }
    Ok(value.into_owned())
}

/// Returns the bytes of an attribute's value, read from its inode if it has one.
fn bytes_of<'v>(
    core: &Core,
    (nr, state): (InodeNr, &InodeState),
    name: &AttributeName,
    value: &'v Value,
) -> Result<Cow<'v, [u8]>> {
    match value {
        Value::Bytes(bytes) | Value::New(bytes) => Ok(Cow::Borrowed(bytes)),
        Value::Inode(reference) => {
            let owner = Owner::new(nr, state);
            values::read(core, owner, name, reference).map(Cow::Owned)
        }
    }
}

/// Returns the names of all attributes.
pub(crate) fn list_names(core: &Core, nr: InodeNr) -> Result<Vec<Vec<u8>>> {
    let inode = core.inode(nr)?;
    let state = inode.state.read();
    state.check_exists()?;
    let (placed, _) = change::read(core, nr, &state)?;
    Ok(placed.names().filter_map(AttributeName::whole).collect())
}

/// Sets an attribute.
pub(crate) fn set(
    core: &Core,
    nr: InodeNr,
    name: &[u8],
    value: &[u8],
    mode: SetMode,
) -> Result<()> {
    let name = AttributeName::parse(name)?;
    match name.list() {
        Some(is_default) => set_list(core, nr, is_default, value),
        None => edit(core, nr, |state, placed, room| {
            check_users(state, &name)?;
            match (mode, placed.get(&name)) {
                (SetMode::Create, Some(_)) => Err(Error::Exists),
                (SetMode::Replace, None) => Err(Error::NoAttribute),
                _ => placed.put(&name, value, room),
            }
        }),
    }
}

/// Removes an attribute.
pub(crate) fn remove(core: &Core, nr: InodeNr, name: &[u8]) -> Result<()> {
    let name = AttributeName::parse(name)?;
    match name.list() {
        Some(is_default) => set_list(core, nr, is_default, &[]),
        None => edit(core, nr, |state, placed, _| {
            check_users(state, &name)?;
            if placed.remove(&name) {
                Ok(())
            } else {
                Err(Error::NoAttribute)
            }
        }),
    }
}

/// Sets an access control list, or removes it if none is given. The access ACL and the mode are
/// changed together; a list equivalent to a mode is not stored.
fn set_list(core: &Core, nr: InodeNr, is_default: bool, bytes: &[u8]) -> Result<()> {
    let name = AttributeName::of_list(is_default);
    edit(core, nr, |state, placed, room| {
        if state.kind == FileKind::Symlink {
            let text = "symbolic links have no access control lists";
            return Err(Error::Unsupported(text.to_owned()));
        }
        let list = List::from_programs(bytes)?;
        if is_default && state.kind != FileKind::Directory && list.is_some() {
            return Err(Error::Invalid("only directories have lists to inherit"));
        }
        let mut kept = list.as_ref();
        if let Some(list) = list.as_ref().filter(|_| !is_default) {
            state.permissions = state.permissions & !0o777 | list.permissions();
            kept = Some(list).filter(|list| !list.is_minimal());
        }
        match kept {
            Some(list) => placed.put(&name, &list.to_ext(), room),
            None => {
                placed.remove(&name);
                Ok(())
            }
        }
    })
}

/// Checks that the inode may have `user.` attributes: only files and directories, because the
/// permission bits of other inodes do not control writing them.
fn check_users(state: &InodeState, name: &AttributeName) -> Result<()> {
    let is_for_users = matches!(state.kind, FileKind::Regular | FileKind::Directory);
    if name.is_users() && !is_for_users {
        return Err(Error::NotPermitted);
    }
    Ok(())
}

/// Changes an inode's attributes, and optionally its mode, in one transaction. The caller tries
/// again if there is no space.
fn edit(
    core: &Core,
    nr: InodeNr,
    work: impl FnOnce(&mut InodeState, &mut Placed, placement::Room) -> Result<()>,
) -> Result<()> {
    core.check_writable()?;
    let inode = core.inode(nr)?;
    let mut locked = inode.state.write();
    locked.check_exists()?;
    if locked
        .flags
        .intersects(InodeFlags::IMMUTABLE | InodeFlags::APPEND)
    {
        return Err(Error::NotPermitted);
    }
    let mut state = locked.clone();
    let (old, room) = change::read(core, nr, &state)?;
    let mut new = old.clone();
    work(&mut state, &mut new, room)?;
    let change = Change::new(core, nr, &state, &old, new)?;
    state.ctime = now();
    let stored = store(core, &inode, &mut state, &change);
    change.end(core);
    let tid = stored?;
    *locked = state;
    writeback::sync_operation(core, &locked, tid)
}

/// Makes a change and stores the inode, in one transaction.
pub(crate) fn store(
    core: &Core,
    inode: &Inode,
    state: &mut InodeState,
    change: &Change,
) -> Result<Option<layout::Tid>> {
    let nr = inode.nr;
    let _table = core.hold_for_names(&[nr])?;
    let credits = change.credits();
    let mut handle = core.begin(Credits {
        blocks: credits.blocks + 1,
        ..credits
    })?;
    if let Err(error) = change.change_blocks(core, &mut handle, nr, state) {
        handle.finish()?;
        return Err(error);
    }
    if rt::mutant!("attributes/change-in-two-steps") {
        handle.tear(change.credits())?;
    }
    state.store(core, &mut handle, nr, false)?;
    change.change_inode(core, &mut handle, nr)?;
    handle.finish()
}

/// Returns the change of the access ACL for new permissions; none if there is no list.
pub(crate) fn change_of_mode(
    core: &Core,
    nr: InodeNr,
    state: &InodeState,
    permissions: u16,
) -> Result<Option<Change>> {
    let name = AttributeName::of_list(false);
    let (old, room) = change::read(core, nr, state)?;
    let Some(value) = old.get(&name) else {
        return Ok(None);
    };
    let value = bytes_of(core, (nr, state), &name, value)?;
    let mut list = List::from_ext(nr, &value).map_err(|damage| core.damaged(damage))?;
    list.set_permissions(permissions);
    let mut new = old.clone();
    new.put(&name, &list.to_ext(), room)?;
    Change::new(core, nr, state, &old, new).map(Some)
}

/// The values that the owners of an inode count (`quota`).
pub(crate) struct CountedValues {
    owners: Owners,
    count: u64,
}

impl CountedValues {
    /// Counts the values of an inode that may get other owners. The caller has no open handle.
    ///
    /// # Errors
    /// - [`crate::Corrupt::Attributes`] if they are damaged: what the owners count is not known.
    pub(crate) fn of(core: &Core, nr: InodeNr, state: &InodeState) -> Result<Self> {
        let count = match core.counts_values() {
            true => change::read(core, nr, state)?.0.value_count(),
            false => 0,
        };
        let owners = state.owners();
        Ok(Self { owners, count })
    }

    /// Moves them to the owners that the inode has now, in the handle that stores it.
    pub(crate) fn follow(
        self,
        core: &Core,
        handle: &mut Handle<'_>,
        state: &InodeState,
    ) -> Result<()> {
        if rt::mutant!("quota/chown-leaves-values") {
            return Ok(());
        }
        let Self { owners, count } = self;
        core.move_values(handle, (owners, count), (state.owners(), count))
    }
}

/// Returns the number of values of an inode of the table, whose bytes are given.
pub(crate) fn count_values(core: &Core, nr: InodeNr, bytes: &[u8]) -> Result<u64> {
    let state = table::decode(&core.superblock, core.geometry(), nr, bytes)?;
    let has_block = state.attribute_block != BlockNr::new(0);
    if !has_block && !placement::has_attributes_within(bytes) {
        return Ok(0);
    }
    change::read(core, nr, &state).map(|(placed, _)| placed.value_count())
}

/// Number of values that one handle of [`drop_values`] drops.
const DROPPED_PER_STEP: usize = 4;

/// Drops the values in inodes of their own of an inode that is deleted, in as many handles as they
/// need; it is on the orphan list. Afterwards it has no attribute block, or one without such
/// values. Returns true if there were any. Damaged attributes are left alone.
pub(crate) fn drop_values(core: &Core, inode: &Inode, state: &mut InodeState) -> Result<bool> {
    if !core.superblock.has_ea_inode() {
        return Ok(false);
    }
    let nr = inode.nr;
    let mut has_dropped = false;
    loop {
        let old = match change::read(core, nr, state) {
            Ok((old, _)) => old,
            Err(Error::Corrupt(_)) => return Ok(has_dropped),
            Err(error) => return Err(error),
        };
        let in_block = old.block.references().next().is_some();
        if in_block && block::count(core, nr, state.attribute_block)? > 1 {
            let _table = core.hold_table(nr)?;
            let sectors = old.block.sizes_of_values();
            let sectors: i64 = sectors.map(|size| change::sectors_of(core, size)).sum();
            let (owners, values) = (state.owners(), old.block.sizes_of_values().count() as u64);
            let mut handle = core.begin(Credits::blocks(2))?;
            if block::release_shared(core, &mut handle, nr, state)? {
                let claims = state.claims(&mut handle);
                claims.sectors = claims.sectors.saturating_add_signed(-sectors);
                state.store(core, &mut handle, nr, false)?;
                core.move_values(&mut handle, (owners, values), (owners, 0))?;
            }
            handle.finish()?;
            continue;
        }
        let mut new = old.clone();
        let all = old.inode.references().chain(old.block.references());
        let names: Vec<&AttributeName> = all.map(|(name, _)| name).collect();
        if names.is_empty() {
            return Ok(has_dropped);
        }
        for name in names.iter().take(DROPPED_PER_STEP) {
            new.remove(name);
        }
        let owner = Owner::new(nr, state);
        let change = Change::prepare(core, owner, state, (&old, new), Broken::Removed)?;
        let stored = store(core, inode, state, &change);
        change.end(core);
        stored?;
        has_dropped = true;
    }
}
