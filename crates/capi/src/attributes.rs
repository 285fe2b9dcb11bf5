//! Attributes of inodes: stat, and changes of mode, owner, times and size.

use std::ffi::{c_char, c_int};
use std::mem::offset_of;

use jext::Error;
use jext::volume::{Attributes, FileKind, InodeTime, SetAttributes, SetTime};

use crate::call::call;
use crate::failure::{Failure, Result};
use crate::versioned::{self, Versioned};
use crate::volume::{Volume, at};

/// `flags` of calls by path: a symbolic link at the end of the path is not followed.
pub const JEXT_NOFOLLOW: u32 = 1;
/// `nanoseconds` of a time that is to be set: the current time.
pub const JEXT_TIME_NOW: u32 = 0x3fff_ffff;
/// `nanoseconds` of a time that is to be set: the time stays as it is.
pub const JEXT_TIME_OMIT: u32 = 0x3fff_fffe;

/// A time since 1970.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Time {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds within the second; for jext_utimens also JEXT_TIME_NOW or JEXT_TIME_OMIT.
    pub nanoseconds: u32,
    /// Zero.
    pub reserved: u32,
}

/// Attributes of an inode. Set struct_size before the call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Stat {
    /// sizeof(struct jext_stat).
    pub struct_size: usize,
    /// Inode number.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Allocated space in units of 512 bytes.
    pub sectors: u64,
    /// Type and permissions, as st_mode of stat(2).
    pub mode: u32,
    /// Number of links.
    pub links: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Major number of a device node.
    pub device_major: u32,
    /// Minor number of a device node.
    pub device_minor: u32,
    /// Inode flags, as lsattr(1) shows them.
    pub inode_flags: u32,
    /// Generation, which changes when the number of the inode is used again.
    pub generation: u32,
    /// Project.
    pub project: u32,
    /// Nonzero if the time of birth is stored.
    pub has_birth_time: u32,
    /// Time of the last access.
    pub access_time: Time,
    /// Time of the last change of the contents.
    pub modification_time: Time,
    /// Time of the last change of the inode.
    pub change_time: Time,
    /// Time of birth.
    pub birth_time: Time,
}

// SAFETY: the size comes first, and zeros are numbers.
unsafe impl Versioned for Stat {
    const NAME: &'static str = "struct jext_stat";
    const SIZE_MIN: usize = offset_of!(Self, birth_time) + size_of::<Time>();
}

impl From<InodeTime> for Time {
    fn from(time: InodeTime) -> Self {
        Self {
            seconds: time.seconds,
            nanoseconds: time.nanos,
            reserved: 0,
        }
    }
}

impl From<Attributes> for Stat {
    fn from(found: Attributes) -> Self {
        let device = found.device.unwrap_or_default();
        Self {
            struct_size: size_of::<Self>(),
            inode: found.inode.get().into(),
            size: found.size,
            sectors: found.sectors,
            mode: u32::from(found.kind.mode() | found.permissions),
            links: found.links,
            uid: found.uid,
            gid: found.gid,
            device_major: device.major,
            device_minor: device.minor,
            inode_flags: found.flags.bits(),
            generation: found.generation,
            project: found.project,
            has_birth_time: found.crtime.is_some().into(),
            access_time: found.atime.into(),
            modification_time: found.mtime.into(),
            change_time: found.ctime.into(),
            birth_time: found.crtime.map(Time::from).unwrap_or_default(),
        }
    }
}

/// Returns the attributes of a path. A symbolic link at its end is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_stat(
    volume: *mut Volume,
    path: *const c_char,
    stat: *mut Stat,
) -> c_int {
    // SAFETY: the contract of pointers.
    call(|| unsafe { look(volume, path, true, stat) })
}

/// Returns the attributes of a path. A symbolic link at its end is not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_lstat(
    volume: *mut Volume,
    path: *const c_char,
    stat: *mut Stat,
) -> c_int {
    // SAFETY: the contract of pointers.
    call(|| unsafe { look(volume, path, false, stat) })
}

/// # Safety
/// The contract of pointers.
unsafe fn look(
    volume: *mut Volume,
    path: *const c_char,
    follow: bool,
    stat: *mut Stat,
) -> Result<()> {
    // SAFETY: the caller vouches for them.
    unsafe {
        versioned::check(stat, "stat")?;
        let found = at(volume, path, |volume, path| volume.metadata(path, follow))?;
        versioned::fill(stat, "stat", &found.into())
    }
}

/// Sets the permissions, with set-id and sticky bits. `flags` is 0 or JEXT_NOFOLLOW.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_chmod(
    volume: *mut Volume,
    path: *const c_char,
    mode: u32,
    flags: u32,
) -> c_int {
    let change = SetAttributes {
        permissions: Some((mode & 0o7777) as u16),
        ..SetAttributes::default()
    };
    // SAFETY: the contract of pointers.
    call(|| unsafe { set(volume, path, flags, &change) })
}

/// Sets user and group; UINT32_MAX leaves one as it is. `flags` is 0 or JEXT_NOFOLLOW.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_chown(
    volume: *mut Volume,
    path: *const c_char,
    uid: u32,
    gid: u32,
    flags: u32,
) -> c_int {
    let given = |id: u32| (id != u32::MAX).then_some(id);
    let change = SetAttributes {
        uid: given(uid),
        gid: given(gid),
        ..SetAttributes::default()
    };
    // SAFETY: the contract of pointers.
    call(|| unsafe { set(volume, path, flags, &change) })
}

/// Sets the time of access to the first of `times`, and that of modification to the second. If it
/// is NULL, both become the current time. `flags` is 0 or JEXT_NOFOLLOW.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_utimens(
    volume: *mut Volume,
    path: *const c_char,
    times: *const Time,
    flags: u32,
) -> c_int {
    call(|| {
        let now = Time {
            nanoseconds: JEXT_TIME_NOW,
            ..Time::default()
        };
        let times = match times.is_null() {
            true => [now, now],
            // SAFETY: the contract of pointers.
            false => unsafe { times.cast::<[Time; 2]>().read() },
        };
        let [atime, mtime] = times.map(set_time);
        let change = SetAttributes {
            atime: atime?,
            mtime: mtime?,
            ..SetAttributes::default()
        };
        // SAFETY: the contract of pointers.
        unsafe { set(volume, path, flags, &change) }
    })
}

/// Sets the size of a regular file. A symbolic link at the end of the path is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_truncate(
    volume: *mut Volume,
    path: *const c_char,
    size: u64,
) -> c_int {
    let change = SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    // SAFETY: the contract of pointers.
    call(|| unsafe { set(volume, path, 0, &change) })
}

/// # Safety
/// The contract of pointers.
unsafe fn set(
    volume: *mut Volume,
    path: *const c_char,
    flags: u32,
    change: &SetAttributes,
) -> Result<()> {
    let follow = follows(flags)?;
    // SAFETY: the caller vouches for them.
    unsafe {
        at(volume, path, |volume, path| {
            volume.with_inode_at(path, follow, |nr| {
                // As truncate(2); the engine itself has no such call for other kinds.
                let kind = volume.attributes(nr)?.kind;
                match (change.size, kind) {
                    (Some(_), FileKind::Directory) => Err(Error::IsDirectory),
                    _ => volume.set_attributes(nr, change),
                }
            })
        })
    }
}

fn set_time(time: Time) -> Result<Option<SetTime>> {
    match time.nanoseconds {
        JEXT_TIME_NOW => Ok(Some(SetTime::Now)),
        JEXT_TIME_OMIT => Ok(None),
        nanos @ 0..1_000_000_000 => Ok(Some(SetTime::At(InodeTime::new(time.seconds, nanos)))),
        nanos => Err(Failure::invalid(format!("{nanos} nanoseconds are no time"))),
    }
}

/// Returns true if the flags of a call by path ask for the target of a symbolic link.
pub(crate) fn follows(flags: u32) -> Result<bool> {
    match flags {
        0 => Ok(true),
        JEXT_NOFOLLOW => Ok(false),
        _ => Err(Failure::invalid(format!(
            "flags are {flags:#x}, not 0 or JEXT_NOFOLLOW"
        ))),
    }
}
