//! Attributes of inodes, and changes of them.

use layout::InodeNr;
use layout::device::DeviceNumber;
use layout::inode_flags::InodeFlags;
use layout::time::InodeTime;

use super::Volume;
use crate::cache::inode::Inode;
use crate::cache::quotas::Owners;
use crate::core::Core;
use crate::disk::inode::{InodeState, now};
use crate::disk::kind::FileKind;
use crate::error::{Error, Result};
use crate::file::with_values;
use crate::quota::{self, Claims};
use crate::xattr::{self, CountedValues};
use jbd2::Credits;

/// The attributes that stat returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    /// Inode number.
    pub inode: InodeNr,
    /// Generation.
    pub generation: u32,
    /// File type.
    pub kind: FileKind,
    /// Permission bits with set-id and sticky: the lower 12 bits of the mode.
    pub permissions: u16,
    /// Owning user.
    pub uid: u32,
    /// Owning group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Number of 512-byte units of allocated space.
    pub sectors: u64,
    /// Link count.
    pub links: u32,
    /// Time of the last access.
    pub atime: InodeTime,
    /// Time of the last change of contents.
    pub mtime: InodeTime,
    /// Time of the last change of the inode.
    pub ctime: InodeTime,
    /// Time of birth, if the inode has room for it.
    pub crtime: Option<InodeTime>,
    /// Inode flags.
    pub flags: InodeFlags,
    /// Project; 0 on a volume without projects.
    pub project: u32,
    /// Device number of a device inode.
    pub device: Option<DeviceNumber>,
}

/// A time to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// The current time.
    Now,
    /// This time.
    At(InodeTime),
}

/// The changes of an inode; fields that are `None` stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permission bits.
    pub permissions: Option<u16>,
    /// Owning user.
    pub uid: Option<u32>,
    /// Owning group.
    pub gid: Option<u32>,
    /// Size of a regular file.
    pub size: Option<u64>,
    /// Time of the last access.
    pub atime: Option<SetTime>,
    /// Time of the last change of contents.
    pub mtime: Option<SetTime>,
    /// Time of the last change of the inode, for a cache above this crate that kept the times of
    /// its writes; otherwise it becomes the current time.
    pub ctime: Option<SetTime>,
    /// Inode flags that a user may set.
    pub flags: Option<InodeFlags>,
    /// Project, on a volume with the feature `project`.
    pub project: Option<u32>,
}

impl SetAttributes {
    /// Returns true if a cache above reports the times of its writes, and nothing else.
    fn are_times_of_writes(&self) -> bool {
        let times = Self {
            mtime: self.mtime,
            ctime: self.ctime,
            ..Self::default()
        };
        self.ctime.is_some() && *self == times
    }

    /// Returns true for `utime(FILE, NULL)`, which append-only files allow: both times become the
    /// current time. A cache above that keeps times itself sends the current time as the times of
    /// modification and change.
    fn is_touch(&self) -> bool {
        let times = Self {
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            ..Self::default()
        };
        let is_present = |time: SetTime| time == SetTime::Now || Some(time) == self.ctime;
        self.atime == Some(SetTime::Now) && self.mtime.is_some_and(is_present) && *self == times
    }
}

impl Volume {
    /// Returns the attributes of an inode, as stat.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the inode does not exist.
    pub fn attributes(&self, nr: InodeNr) -> Result<Attributes> {
        rt::charge(rt::Cost::Syscall);
        let inode = self.core.inode(nr)?;
        let state = inode.state.read();
        state.check_exists()?;
        Ok(describe(&self.core, &inode, &state))
    }

    /// Changes owner, mode, size, times or flags.
    ///
    /// # Errors
    /// - [`Error::NotFound`] if the inode does not exist.
    /// - [`Error::NotPermitted`] if the inode is immutable or append-only.
    /// - [`Error::IsDirectory`], [`Error::Invalid`] and [`Error::FileTooLarge`] for a size that it
    ///   cannot have; [`Error::NoKey`] and [`Error::Verity`] if its contents do not change.
    /// - [`Error::CaseFolded`] if the flag CASEFOLD would change.
    pub fn set_attributes(&self, nr: InodeNr, change: &SetAttributes) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        self.core.check_writable()?;
        let inode = self.core.inode(nr)?;
        // The times of what was written before the inode became immutable.
        let is_late = change.are_times_of_writes() && self.is_open_for_writing(nr);
        check_changeable(&inode.state.read(), change, is_late)?;
        check_folding(&inode.state.read(), change)?;
        if let Some(size) = change.size {
            crate::file::truncate(&self.core, &inode, size)?;
        }
        if let Some(flags) = change.flags {
            set_journaled(&self.core, &inode, flags)?;
            set_extents(&self.core, &inode, flags)?;
        }
        let without_size = SetAttributes {
            size: None,
            ..change.clone()
        };
        if without_size == SetAttributes::default() {
            return Ok(());
        }
        with_values(&self.core, || {
            change_state(&self.core, &inode, &without_size)
        })
    }
}

/// Changes fields of the inode itself, and with the mode its access control list.
fn change_state(core: &Core, inode: &std::sync::Arc<Inode>, change: &SetAttributes) -> Result<()> {
    let mut state = inode.state.write();
    state.check_exists()?;
    let _claims = prepare_owners(core, inode, &state, change)?;
    let of_list = match change.permissions {
        Some(permissions) => xattr::change_of_mode(core, inode.nr, &state, permissions)?,
        None => None,
    };
    if let Some(of_list) = of_list {
        let mut changed = state.clone();
        apply(&mut changed, change);
        let stored = xattr::store(core, inode, &mut changed, &of_list);
        of_list.end(core);
        let tid = stored?;
        *state = changed;
        inode.note_times_seen();
        return crate::writeback::sync_operation(core, &state, tid);
    }
    let values = values_to_move(core, inode.nr, &state, change)?;
    let _table = core.hold_table(inode.nr)?;
    let mut handle = core.begin(Credits {
        blocks: 1,
        revokes: 0,
    })?;
    if state.kind == FileKind::Regular && change.flags.is_none() {
        handle.describe();
    }
    apply(&mut state, change);
    inode.note_times_seen();
    state.store(core, &mut handle, inode.nr, false)?;
    if let Some(values) = values {
        values.follow(core, &mut handle, &state)?;
    }
    let tid = handle.finish()?;
    crate::writeback::sync_operation(core, &state, tid)
}

/// Checks that the inode can have its new project, and adds entries for its new owners to the quota
/// files.
fn prepare_owners<'c>(
    core: &'c Core,
    inode: &Inode,
    state: &InodeState,
    change: &SetAttributes,
) -> Result<Claims<'c>> {
    if change
        .project
        .is_some_and(|project| project != state.project)
    {
        if !core.superblock.has_project() {
            let text = "the volume has no projects: it lacks the feature project";
            return Err(Error::Unsupported(text.to_owned()));
        }
        if !core.has_room_for_project(inode.nr, state)? {
            return Err(Error::Invalid("the inode has no room for a project"));
        }
    }
    quota::prepare(core, owners_after(state, change))
}

/// Returns the owners of an inode after a change.
fn owners_after(state: &InodeState, change: &SetAttributes) -> Owners {
    [
        change.uid.unwrap_or(state.uid),
        change.gid.unwrap_or(state.gid),
        change.project.unwrap_or(state.project),
    ]
}

/// Returns the values of attributes that other owners will count; none if the owners stay.
fn values_to_move(
    core: &Core,
    nr: InodeNr,
    state: &InodeState,
    change: &SetAttributes,
) -> Result<Option<CountedValues>> {
    let has_moved = owners_after(state, change) != state.owners();
    let values = has_moved.then(|| CountedValues::of(core, nr, state));
    values.transpose()
}

/// Switches data journaling for `+j` and `-j`, which is more than a change of the flag.
fn set_journaled(core: &Core, inode: &std::sync::Arc<Inode>, flags: InodeFlags) -> Result<()> {
    let (kind, is_on) = {
        let state = inode.state.read();
        (state.kind, state.flags.contains(InodeFlags::JOURNAL_DATA))
    };
    let wanted = flags.contains(InodeFlags::JOURNAL_DATA);
    if kind == FileKind::Regular && wanted != is_on {
        crate::file::set_journaled(core, inode, wanted)?;
    }
    Ok(())
}

/// Gives a regular file extents for `+e`. They stay with `-e`.
fn set_extents(core: &Core, inode: &std::sync::Arc<Inode>, flags: InodeFlags) -> Result<()> {
    let is_new = {
        let state = inode.state.read();
        state.kind == FileKind::Regular && !state.flags.contains(InodeFlags::EXTENTS)
    };
    match is_new && flags.contains(InodeFlags::EXTENTS) {
        true => crate::file::use_extents(core, inode),
        false => Ok(()),
    }
}

/// Checks that a directory does not start or stop to ignore case.
fn check_folding(state: &InodeState, change: &SetAttributes) -> Result<()> {
    let folds = |flags: InodeFlags| flags.contains(InodeFlags::CASEFOLD);
    match change.flags {
        Some(flags) if folds(flags) != folds(state.flags) => Err(Error::CaseFolded),
        _ => Ok(()),
    }
}

fn check_changeable(state: &InodeState, change: &SetAttributes, is_late: bool) -> Result<()> {
    let clears = change.flags.is_some();
    let frozen = if is_late {
        InodeFlags::empty()
    } else if change.are_times_of_writes() || change.is_touch() {
        InodeFlags::IMMUTABLE
    } else {
        InodeFlags::IMMUTABLE | InodeFlags::APPEND
    };
    if state.flags.intersects(frozen) && !clears {
        return Err(Error::NotPermitted);
    }
    let is_moved = change
        .project
        .is_some_and(|project| project != state.project);
    let stays_frozen = |flags: InodeFlags| flags.intersects(state.flags & frozen);
    if is_moved && change.flags.is_some_and(stays_frozen) {
        return Err(Error::NotPermitted);
    }
    if change.size.is_some() {
        match state.kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Error::IsDirectory),
            _ => {
                return Err(Error::Invalid(
                    "only a regular file has a size that can be set",
                ));
            }
        }
    }
    Ok(())
}

fn apply(state: &mut InodeState, change: &SetAttributes) {
    let present = now();
    let resolve = |time: SetTime| match time {
        SetTime::Now => present,
        SetTime::At(time) => time,
    };
    if let Some(permissions) = change.permissions {
        state.permissions = permissions & 0o7777;
    }
    if let Some(uid) = change.uid {
        state.uid = uid;
    }
    if let Some(gid) = change.gid {
        state.gid = gid;
    }
    if let Some(time) = change.atime {
        state.atime = resolve(time);
    }
    if let Some(time) = change.mtime {
        state.mtime = resolve(time);
    }
    if let Some(flags) = change.flags {
        let mut settable = InodeFlags::USER_MODIFIABLE.masked_for(state.kind.mode());
        if state.kind == FileKind::Regular {
            // It was switched before, under the lock. Another thread may have switched it since,
            // and written: the flag alone would leave images in the log that replace later data.
            settable.remove(InodeFlags::JOURNAL_DATA);
        }
        state.flags = state.flags.difference(settable) | flags.intersection(settable);
    }
    if let Some(project) = change.project {
        state.project = project;
    }
    state.ctime = change.ctime.map_or(present, resolve);
}

/// Returns the size that a program sees: that of what it reads, for an encrypted symbolic link.
fn shown_size(state: &InodeState) -> u64 {
    let is_encrypted = state.flags.contains(InodeFlags::ENCRYPT);
    match state.kind {
        FileKind::Symlink if is_encrypted => layout::encryption::symlink_length(state.size),
        _ => state.size,
    }
}

/// Converts a state into attributes.
pub(crate) fn describe(core: &Core, inode: &Inode, state: &InodeState) -> Attributes {
    let has_extra = core.geometry().has_extra_times();
    let device = match state.kind {
        FileKind::CharacterDevice | FileKind::BlockDevice => Some(state.words.device()),
        _ => None,
    };
    // A page without a block counts as if it had one, and its cluster.
    let delayed = inode.pages.lock().delayed_pieces() * core.sectors_per_cluster();
    inode.note_times_seen();
    Attributes {
        inode: inode.nr,
        generation: state.generation,
        kind: state.kind,
        permissions: state.permissions,
        uid: state.uid,
        gid: state.gid,
        size: shown_size(state),
        sectors: state.sectors + delayed,
        links: u32::from(state.links),
        atime: state.atime.storable(has_extra),
        mtime: state.mtime.storable(has_extra),
        ctime: state.ctime.storable(has_extra),
        crtime: state.crtime,
        flags: state.flags,
        project: state.project,
        device,
    }
}
