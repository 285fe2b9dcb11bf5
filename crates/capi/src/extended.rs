//! Extended attributes by path.

use std::ffi::{c_char, c_int, c_void};

use jext::volume::SetMode;

use crate::attributes::{JEXT_NOFOLLOW, follows};
use crate::call::call;
use crate::failure::{Failure, Result};
use crate::pointers;
use crate::tree::copy_out;
use crate::volume::{Volume, at};

/// `flags` of jext_setxattr: an existing attribute is not replaced.
pub const JEXT_XATTR_CREATE: u32 = 2;
/// `flags` of jext_setxattr: a missing attribute is not created.
pub const JEXT_XATTR_REPLACE: u32 = 4;

/// Returns the value of an extended attribute, such as "user.colour". `length`, which may be NULL,
/// becomes its length, also if the result is -ERANGE because the buffer of `size` bytes is too
/// small. With `size` 0 only the length is returned. `flags` is 0 or JEXT_NOFOLLOW. -ENODATA if
/// there is no such attribute.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_getxattr(
    volume: *mut Volume,
    path: *const c_char,
    name: *const c_char,
    value: *mut c_void,
    size: usize,
    length: *mut usize,
    flags: u32,
) -> c_int {
    call(|| {
        let follow = follows(flags)?;
        // SAFETY: the contract of pointers.
        let (name, found) = unsafe {
            let name = pointers::text(name, "name")?;
            let found = at(volume, path, |volume, path| {
                volume.get_attribute_at(path, follow, name)
            })?;
            (name, found)
        };
        // SAFETY: the contract of pointers.
        let returned = unsafe { give(&found, value, size, length) };
        returned.map_err(|failure| failure.at(name))
    })
}

/// Sets an extended attribute. `flags` has any of JEXT_NOFOLLOW and either JEXT_XATTR_CREATE or
/// JEXT_XATTR_REPLACE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_setxattr(
    volume: *mut Volume,
    path: *const c_char,
    name: *const c_char,
    value: *const c_void,
    size: usize,
    flags: u32,
) -> c_int {
    call(|| {
        let follow = flags & JEXT_NOFOLLOW == 0;
        let mode = match flags & !JEXT_NOFOLLOW {
            0 => SetMode::Any,
            JEXT_XATTR_CREATE => SetMode::Create,
            JEXT_XATTR_REPLACE => SetMode::Replace,
            _ => {
                return Err(Failure::invalid(format!(
                    "flags of the attribute are {flags:#x}"
                )));
            }
        };
        // SAFETY: the contract of pointers.
        unsafe {
            let name = pointers::text(name, "name")?;
            let value = pointers::bytes(value, size, "value")?;
            at(volume, path, |volume, path| {
                volume.set_attribute_at(path, follow, name, value, mode)
            })
        }
    })
}

/// Returns the names of all extended attributes, each with a zero behind it. `length`, `size` and
/// `flags` are as for jext_getxattr.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_listxattr(
    volume: *mut Volume,
    path: *const c_char,
    names: *mut c_char,
    size: usize,
    length: *mut usize,
    flags: u32,
) -> c_int {
    call(|| {
        let follow = follows(flags)?;
        // SAFETY: the contract of pointers.
        let found = unsafe {
            at(volume, path, |volume, path| {
                volume.list_attributes_at(path, follow)
            })
        }?;
        let mut list = Vec::new();
        for name in found {
            list.extend(name);
            list.push(0);
        }
        // SAFETY: the contract of pointers.
        unsafe { give(&list, names.cast(), size, length) }
    })
}

/// Removes an extended attribute. `flags` is 0 or JEXT_NOFOLLOW.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_removexattr(
    volume: *mut Volume,
    path: *const c_char,
    name: *const c_char,
    flags: u32,
) -> c_int {
    call(|| {
        let follow = follows(flags)?;
        // SAFETY: the contract of pointers.
        unsafe {
            let name = pointers::text(name, "name")?;
            at(volume, path, |volume, path| {
                volume.remove_attribute_at(path, follow, name)
            })
        }
    })
}

/// Returns bytes and their length; with the size 0 only the length.
///
/// # Safety
/// The contract of pointers.
unsafe fn give(found: &[u8], buffer: *mut c_void, size: usize, length: *mut usize) -> Result<()> {
    if !length.is_null() {
        // SAFETY: the caller vouches for it.
        unsafe { pointers::out(length, "length") }?.set(found.len());
    }
    if size == 0 {
        return Ok(());
    }
    // SAFETY: the caller vouches for it.
    copy_out(found, unsafe { pointers::buffer(buffer, size, "buffer") }?)
}
