//! The tree by path: directories, links, removal, rename.

use std::ffi::{c_char, c_int};

use jext::Error;
use jext::volume::{DeviceNumber, FileKind, RenameMode};
use rustix::io::Errno;

use crate::call::call;
use crate::failure::{Failure, Result};
use crate::pointers;
use crate::volume::{Volume, at};

/// `flags` of jext_rename: an existing target is not replaced.
pub const JEXT_RENAME_NOREPLACE: u32 = 1;
/// `flags` of jext_rename: the two are exchanged; both have to exist.
pub const JEXT_RENAME_EXCHANGE: u32 = 2;

/// Creates a directory with the permissions of `mode`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_mkdir(volume: *mut Volume, path: *const c_char, mode: u32) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let new = unsafe { pointers::handle(volume, "volume") }?
            .shared()
            .new_inode(mode);
        // SAFETY: the contract of pointers.
        unsafe {
            at(volume, path, |volume, path| {
                volume.with_parent_of(path, |parent, name| {
                    volume.make_directory(parent, name, &new).map(drop)
                })
            })
        }
    })
}

/// Creates a device node, a fifo, a socket or an empty regular file: `mode` has the type and the
/// permissions, `major` and `minor` the number of a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_mknod(
    volume: *mut Volume,
    path: *const c_char,
    mode: u32,
    major: u32,
    minor: u32,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let new = unsafe { pointers::handle(volume, "volume") }?
            .shared()
            .new_inode(mode);
        let kinds = [
            FileKind::Regular,
            FileKind::CharacterDevice,
            FileKind::BlockDevice,
            FileKind::Fifo,
            FileKind::Socket,
        ];
        let is_kind = |kind: &FileKind| u32::from(kind.mode()) == mode & 0o170_000;
        let Some(kind) = kinds.into_iter().find(is_kind) else {
            let text = format!("mode {mode:#o} has no type that jext_mknod makes");
            return Err(Failure::invalid(text));
        };
        let device = DeviceNumber { major, minor };
        // SAFETY: the contract of pointers.
        unsafe {
            at(volume, path, |volume, path| {
                volume.with_parent_of(path, |parent, name| {
                    let made = volume.make_node(parent, name, kind, device, &new);
                    made.map(drop)
                })
            })
        }
    })
}

/// Removes an empty directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_rmdir(volume: *mut Volume, path: *const c_char) -> c_int {
    // SAFETY: the contract of pointers.
    call(|| unsafe {
        at(volume, path, |volume, path| {
            volume.remove_directory_at(path)
        })
    })
}

/// Removes a name that is not a directory. An open file stays until it is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_unlink(volume: *mut Volume, path: *const c_char) -> c_int {
    // SAFETY: the contract of pointers.
    call(|| unsafe { at(volume, path, |volume, path| volume.remove_file(path)) })
}

/// Renames a path, in one step. An existing target is replaced as by rename(2), unless `flags` has
/// JEXT_RENAME_NOREPLACE or JEXT_RENAME_EXCHANGE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_rename(
    volume: *mut Volume,
    from: *const c_char,
    to: *const c_char,
    flags: u32,
) -> c_int {
    call(|| {
        let mode = match flags {
            0 => RenameMode::Replace,
            JEXT_RENAME_NOREPLACE => RenameMode::NoReplace,
            JEXT_RENAME_EXCHANGE => RenameMode::Exchange,
            _ => {
                return Err(Failure::invalid(format!(
                    "flags of the rename are {flags:#x}"
                )));
            }
        };
        // SAFETY: the contract of pointers.
        unsafe {
            on_two(volume, from, to, |volume, from, to| {
                volume.with_parent_of(from, |parent, name| {
                    volume.with_parent_of(to, |new_parent, new_name| {
                        volume.rename(parent, name, new_parent, new_name, mode)
                    })
                })
            })
        }
    })
}

/// Adds a hard link to a file. A symbolic link at the end of `original` is not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_link(
    volume: *mut Volume,
    original: *const c_char,
    path: *const c_char,
) -> c_int {
    // SAFETY: the contract of pointers.
    call(|| unsafe {
        on_two(volume, original, path, |volume, original, path| {
            volume.hard_link(original, path)
        })
    })
}

/// Creates a symbolic link at `path`, whose text is `target`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_symlink(
    volume: *mut Volume,
    target: *const c_char,
    path: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let (target, new) = unsafe {
            let shared = pointers::handle(volume, "volume")?.shared();
            (pointers::text(target, "target")?, shared.new_inode(0o777))
        };
        // SAFETY: the contract of pointers.
        unsafe {
            at(volume, path, |volume, path| {
                volume.with_parent_of(path, |parent, name| {
                    volume.symlink(parent, name, target, &new).map(drop)
                })
            })
        }
    })
}

/// Returns the text of a symbolic link, and a zero behind it. `length`, which may be NULL, becomes
/// the length without the zero, also if the result is -ERANGE because the buffer of `size` bytes is
/// too small.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_readlink(
    volume: *mut Volume,
    path: *const c_char,
    buffer: *mut c_char,
    size: usize,
    length: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let (buffer, mut target) = unsafe {
            (
                pointers::buffer(buffer.cast(), size, "buffer")?,
                at(volume, path, |volume, path| volume.read_link_at(path))?,
            )
        };
        if !length.is_null() {
            // SAFETY: the contract of pointers.
            unsafe { pointers::out(length, "length") }?.set(target.len());
        }
        target.push(0);
        copy_out(&target, buffer)
    })
}

/// Copies a result into a buffer of the caller.
pub(crate) fn copy_out(from: &[u8], buffer: &mut [u8]) -> Result<()> {
    match buffer.get_mut(..from.len()) {
        Some(start) => {
            start.copy_from_slice(from);
            Ok(())
        }
        None => Err(Failure::new(
            Errno::RANGE,
            format!(
                "the result has {} bytes, and the buffer {}",
                from.len(),
                buffer.len()
            ),
        )),
    }
}

/// Calls `work` with a volume and the bytes of two paths.
///
/// # Safety
/// The contract of pointers for all.
unsafe fn on_two(
    volume: *mut Volume,
    first: *const c_char,
    second: *const c_char,
    work: impl FnOnce(&jext::Volume, &[u8], &[u8]) -> Result<(), Error>,
) -> Result<()> {
    // SAFETY: the caller vouches for them.
    let (volume, first, second) = unsafe {
        (
            pointers::handle(volume, "volume")?,
            pointers::text(first, "the first path")?,
            pointers::text(second, "the second path")?,
        )
    };
    let done = match first.is_empty() || second.is_empty() {
        true => Err(Failure::new(Errno::NOENT, "a path is empty")),
        false => volume.shared().with(|volume| work(volume, first, second)),
    };
    let both = [first, second].map(String::from_utf8_lossy);
    done.map_err(|failure| failure.about(both.join(" and ")))
}
