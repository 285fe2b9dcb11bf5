//! Structures of C that may grow: the first field is the size that the caller was compiled with.
//!
//! | size of the caller | a structure that is read | a structure that is filled |
//! |---|---|---|
//! | smaller than the first version | `EINVAL` | `EINVAL` |
//! | smaller than here | the rest is zero | filled as far as it reaches |
//! | larger than here | `E2BIG`, unless the rest is zero | the rest becomes zero |
//! | larger than [`SIZE_MAX`] | `EINVAL`: it was not set | `EINVAL` |
//!
//! A filled structure has the size of what was filled afterwards.

use std::mem::MaybeUninit;
use std::ptr;
use std::slice;

use rustix::io::Errno;

use crate::failure::{Failure, Result};

/// Maximum size of a structure in bytes.
const SIZE_MAX: usize = 4096;

/// A structure whose first field is its size.
///
/// # Safety
/// The type is `repr(C)`, its first field is the size as a `usize`, and all zeros are a valid value
/// of it.
pub(crate) unsafe trait Versioned: Copy {
    /// Name in C.
    const NAME: &'static str;
    /// Size of the first version in bytes: up to its last field, whatever follows later.
    const SIZE_MIN: usize;
}

/// Returns the size that the caller has set.
///
/// # Safety
/// The pointer is valid for a read of a `usize`.
unsafe fn size_of_caller<T: Versioned>(pointer: *const T) -> Result<usize> {
    // SAFETY: the caller vouches for it, and the size is the first field.
    let size = unsafe { pointer.cast::<usize>().read() };
    if size < T::SIZE_MIN || size > SIZE_MAX {
        let name = T::NAME;
        let text = format!("struct_size of {name} is {size}: set it to sizeof({name})");
        return Err(Failure::invalid(text));
    }
    Ok(size)
}

/// Returns a copy of a structure; all zeros if the pointer is null.
///
/// # Safety
/// The pointer is null, or valid for reads of as many bytes as the first field says.
pub(crate) unsafe fn read<T: Versioned>(pointer: *const T) -> Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    if !pointer.is_null() {
        // SAFETY: a structure begins with its size.
        let size = unsafe { size_of_caller(pointer) }?;
        let known = size_of::<T>();
        // SAFETY: the caller vouches for `size` bytes, and the value has room for `known`.
        unsafe {
            let from = pointer.cast::<u8>();
            ptr::copy_nonoverlapping(from, value.as_mut_ptr().cast(), size.min(known));
            let rest = slice::from_raw_parts(from.add(size.min(known)), size.saturating_sub(known));
            if rest.iter().any(|byte| *byte != 0) {
                let text = format!(
                    "{} has fields that libjext {} does not know: leave them zero, or use a newer libjext",
                    T::NAME,
                    env!("CARGO_PKG_VERSION")
                );
                return Err(Failure::new(Errno::TOOBIG, text));
            }
        }
    }
    // SAFETY: zeros are a valid value, and so are the fields that the caller has set.
    Ok(unsafe { value.assume_init() })
}

/// Checks that a structure can be filled.
///
/// # Safety
/// As for [`fill`].
pub(crate) unsafe fn check<T: Versioned>(pointer: *mut T, name: &str) -> Result<()> {
    if pointer.is_null() {
        return Err(Failure::invalid(format!("the argument {name} is NULL")));
    }
    // SAFETY: the caller vouches for it.
    unsafe { size_of_caller(pointer) }.map(drop)
}

/// Fills a structure of the caller.
///
/// # Safety
/// The pointer is null, or valid for a read of its first field, and for writes of as many bytes as
/// that says.
pub(crate) unsafe fn fill<T: Versioned>(pointer: *mut T, name: &str, value: &T) -> Result<()> {
    // SAFETY: the caller vouches for it.
    unsafe { check(pointer, name) }?;
    // SAFETY: a structure begins with its size, and is valid for writes of it.
    unsafe {
        let size = size_of_caller(pointer)?;
        let filled = size.min(size_of::<T>());
        let to = pointer.cast::<u8>();
        ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<u8>(), to, filled);
        ptr::write_bytes(to.add(filled), 0, size - filled);
        pointer.cast::<usize>().write(filled);
    }
    Ok(())
}
