//! Values behind pointers of C.
//!
//! Every function refuses a null pointer by the name of the argument. For the rest it relies on the
//! contract in `jext.h`: a pointer that is not null is valid for its type and length during the
//! call, and handles come from this library and were not closed.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::slice;

use crate::failure::{Failure, Result};

fn refuse(name: &str) -> Failure {
    Failure::invalid(format!("the argument {name} is NULL"))
}

/// Returns the object behind a handle.
///
/// # Safety
/// The pointer is null, or a handle of this type that is not closed during `'a`.
pub(crate) unsafe fn handle<'a, T>(pointer: *const T, name: &str) -> Result<&'a T> {
    // SAFETY: the caller vouches for it, and null gives none.
    unsafe { pointer.as_ref() }.ok_or_else(|| refuse(name))
}

/// Returns the object behind a handle that one thread uses at a time.
///
/// # Safety
/// The pointer is null, or a handle of this type that is not closed, and that nothing else uses,
/// during `'a`.
pub(crate) unsafe fn handle_mut<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T> {
    // SAFETY: the caller vouches for it, and null gives none.
    unsafe { pointer.as_mut() }.ok_or_else(|| refuse(name))
}

/// Takes an object back from its handle.
///
/// # Safety
/// The pointer is null, or comes from [`Out::give`] and is not used again.
pub(crate) unsafe fn take<T>(pointer: *mut T, name: &str) -> Result<Box<T>> {
    match NonNull::new(pointer) {
        // SAFETY: `give` made it of a box, and this is its last use.
        Some(pointer) => Ok(unsafe { Box::from_raw(pointer.as_ptr()) }),
        None => Err(refuse(name)),
    }
}

/// Returns the bytes of a text without its terminating zero.
///
/// # Safety
/// The pointer is null, or a text that ends with a zero and does not change during `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a [u8]> {
    if pointer.is_null() {
        return Err(refuse(name));
    }
    // SAFETY: the caller vouches for it, and it is not null.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// Returns a text in UTF-8; none if the pointer is null.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn option<'a>(pointer: *const c_char, name: &str) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller vouches for it.
    let bytes = unsafe { text(pointer, name) }?;
    match str::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(Failure::invalid(format!("{name} is not UTF-8"))),
    }
}

/// Returns a path of the host.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn host_path<'a>(pointer: *const c_char, name: &str) -> Result<&'a Path> {
    // SAFETY: the caller vouches for it.
    let bytes = unsafe { text(pointer, name) }?;
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// Returns bytes to be read. Null is allowed if there are none.
///
/// # Safety
/// The pointer is null, or valid for reads of `count` bytes that do not change during `'a`.
pub(crate) unsafe fn bytes<'a>(
    pointer: *const c_void,
    count: usize,
    name: &str,
) -> Result<&'a [u8]> {
    check(pointer, count, name)?;
    match count {
        0 => Ok(&[]),
        // SAFETY: the caller vouches for it, and it is neither null nor too long.
        _ => Ok(unsafe { slice::from_raw_parts(pointer.cast(), count) }),
    }
}

/// Returns a buffer to be filled. Null is allowed if it is empty.
///
/// # Safety
/// The pointer is null, or valid for writes of `count` bytes that nothing else uses during `'a`.
pub(crate) unsafe fn buffer<'a>(
    pointer: *mut c_void,
    count: usize,
    name: &str,
) -> Result<&'a mut [u8]> {
    check(pointer, count, name)?;
    match count {
        0 => Ok(&mut []),
        // SAFETY: the caller vouches for it, and it is neither null nor too long. Memory of another
        // language counts as initialized.
        _ => Ok(unsafe { slice::from_raw_parts_mut(pointer.cast(), count) }),
    }
}

fn check(pointer: *const c_void, count: usize, name: &str) -> Result<()> {
    if pointer.is_null() && count > 0 {
        return Err(refuse(name));
    }
    match isize::try_from(count) {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::invalid(format!("{name} has {count} bytes"))),
    }
}

/// The place of a result.
pub(crate) struct Out<T>(NonNull<T>);

/// Returns the place of a result.
///
/// # Safety
/// The pointer is null, or valid for a write, also after the end of the call's other uses of it.
pub(crate) unsafe fn out<T>(pointer: *mut T, name: &str) -> Result<Out<T>> {
    NonNull::new(pointer).map(Out).ok_or_else(|| refuse(name))
}

impl<T> Out<T> {
    /// Stores a result.
    pub(crate) fn set(&self, value: T) {
        // SAFETY: the caller of `out` vouches for it.
        unsafe { self.0.write(value) };
    }
}

impl<T> Out<*mut T> {
    /// Stores null, which stays if the call fails.
    pub(crate) fn cleared(self) -> Self {
        self.set(std::ptr::null_mut());
        self
    }

    /// Stores a new handle.
    pub(crate) fn give(&self, object: T) {
        self.set(Box::into_raw(Box::new(object)));
    }
}
