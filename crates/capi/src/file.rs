//! Open files.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use jext::volume::{FileId, FileKind, NewInode, OpenFlags, SetAttributes};
use jext::{Error, InodeNr};
use rustix::io::Errno;

use crate::attributes::Stat;
use crate::call::call;
use crate::failure::{Failure, Result};
use crate::shared::Shared;
use crate::volume::Volume;
use crate::{pointers, versioned};

/// `flags` of jext_file_open: for reading.
pub const JEXT_READ: u32 = 1;
/// `flags` of jext_file_open: for writing.
pub const JEXT_WRITE: u32 = 2;
/// `flags` of jext_file_open: every write goes to the end.
pub const JEXT_APPEND: u32 = 4;
/// `flags` of jext_file_open: a missing file is created.
pub const JEXT_CREATE: u32 = 8;
/// `flags` of jext_file_open: an existing file is refused.
pub const JEXT_EXCLUSIVE: u32 = 16;
/// `flags` of jext_file_open: an existing file becomes empty.
pub const JEXT_TRUNCATE: u32 = 32;
/// `flags` of jext_file_open: what was written is durable when the call returns.
pub const JEXT_SYNC: u32 = 64;

/// All flags of an open.
const FLAGS: u32 =
    JEXT_READ | JEXT_WRITE | JEXT_APPEND | JEXT_CREATE | JEXT_EXCLUSIVE | JEXT_TRUNCATE | JEXT_SYNC;

/// Origins of a seek, as SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA and SEEK_HOLE of Linux.
const FROM_START: c_int = 0;
const FROM_POSITION: c_int = 1;
const FROM_END: c_int = 2;
const TO_DATA: c_int = 3;
const TO_HOLE: c_int = 4;

/// An open file.
pub struct File {
    shared: Arc<Shared>,
    id: FileId,
    /// Path at the open, for messages.
    path: Vec<u8>,
    appends: bool,
    // [lock] Held while the file is read or written at the position; before all of the engine's.
    position: Mutex<u64>,
}

impl File {
    /// Calls `work` with the volume. A message begins with the path.
    fn with<T>(&self, work: impl FnOnce(&jext::Volume, FileId) -> jext::Result<T>) -> Result<T> {
        self.shared.at(&self.path, |volume| work(volume, self.id))
    }

    fn size(&self) -> Result<u64> {
        self.with(|volume, id| Ok(volume.attributes(volume.inode_of(id)?)?.size))
    }

    /// Writes all bytes at an offset. Returns the number of bytes that were written, with the
    /// failure if there are more. A close of the volume waits for all of it.
    fn write(&self, offset: u64, bytes: &[u8]) -> (usize, Result<()>) {
        let mut done = 0;
        let result = self.with(|volume, id| {
            // Also of nothing: the file has to be open for writing.
            if bytes.is_empty() {
                volume.write(id, offset, bytes)?;
            }
            while done < bytes.len() {
                match volume.write(id, offset.saturating_add(done as u64), &bytes[done..])? {
                    0 => return Err(Error::NoSpace),
                    count => done += count,
                }
            }
            Ok(())
        });
        (done, result)
    }
}

/// Opens a regular file. `flags` has JEXT_READ, JEXT_WRITE or both, and any of the others. `mode`
/// is the permissions of a new file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_file_open(
    volume: *mut Volume,
    path: *const c_char,
    flags: u32,
    mode: u32,
    file: *mut *mut File,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let (out, volume, path) = unsafe {
            (
                pointers::out(file, "file")?.cleared(),
                pointers::handle(volume, "volume")?,
                pointers::text(path, "path")?,
            )
        };
        check_flags(flags).map_err(|failure| failure.at(path))?;
        let shared = Arc::clone(volume.shared());
        let new = shared.new_inode(mode);
        let id = shared.at(path, |volume| open(volume, path, flags, &new))?;
        out.give(File {
            shared,
            id,
            path: path.to_vec(),
            appends: flags & JEXT_APPEND != 0,
            position: Mutex::new(0),
        });
        Ok(())
    })
}

/// Closes a file. The file is gone in any case; a result that is not 0 says that an earlier write
/// failed. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_file_close(file: *mut File) -> c_int {
    call(|| {
        if file.is_null() {
            return Ok(());
        }
        // SAFETY: the contract of pointers.
        let file = unsafe { pointers::take(file, "file") }?;
        closed(file.with(|volume, id| volume.release(id)))
    })
}

/// Returns the result of the close of a file; the volume may have been closed before.
pub(crate) fn closed(result: Result<()>) -> Result<()> {
    match result {
        Err(failure) if failure.number == Errno::BADF.raw_os_error() => Ok(()),
        result => result,
    }
}

/// Reads up to `count` bytes at the position, and advances it. `done` becomes their number: fewer
/// only at the end of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_file_read(
    file: *mut File,
    buffer: *mut c_void,
    count: usize,
    done: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let (file, buffer, done) = unsafe { reading(file, buffer, count, done) }?;
        let mut position = file.position.lock().unwrap_or_else(PoisonError::into_inner);
        let read = file.with(|volume, id| volume.read(id, *position, buffer))?;
        *position += read as u64;
        done.set(read);
        Ok(())
    })
}

/// Reads up to `count` bytes at an offset. `done` becomes their number: fewer only at the end of
/// the file. The position stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_file_pread(
    file: *mut File,
    buffer: *mut c_void,
    count: usize,
    offset: u64,
    done: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let (file, buffer, done) = unsafe { reading(file, buffer, count, done) }?;
        done.set(file.with(|volume, id| volume.read(id, offset, buffer))?);
        Ok(())
    })
}

/// # Safety
/// The contract of pointers.
unsafe fn reading<'a>(
    file: *mut File,
    buffer: *mut c_void,
    count: usize,
    done: *mut usize,
) -> Result<(&'a File, &'a mut [u8], pointers::Out<usize>)> {
    // SAFETY: the caller vouches for them.
    unsafe {
        let done = pointers::out(done, "done")?;
        done.set(0);
        Ok((
            pointers::handle(file, "file")?,
            pointers::buffer(buffer, count, "buffer")?,
            done,
        ))
    }
}

/// Writes `count` bytes at the position, or at the end with JEXT_APPEND, and advances the position.
/// All are written unless the call fails; `done`, which may be NULL, becomes the number of those
/// that were.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_file_write(
    file: *mut File,
    data: *const c_void,
    count: usize,
    done: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let (file, bytes) = unsafe { writing(file, data, count, done) }?;
        let mut position = file.position.lock().unwrap_or_else(PoisonError::into_inner);
        let (written, result) = file.write(*position, bytes);
        // SAFETY: the contract of pointers.
        unsafe { note(done, written) }?;
        *position += written as u64;
        // The bytes are written, also if the volume was closed in between.
        if file.appends
            && written > 0
            && let Ok(end) = file.size()
        {
            *position = end;
        }
        result
    })
}

/// Writes `count` bytes at an offset, or at the end with JEXT_APPEND. All are written unless the
/// call fails; `done`, which may be NULL, becomes the number of those that were. The position
/// stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_file_pwrite(
    file: *mut File,
    data: *const c_void,
    count: usize,
    offset: u64,
    done: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let (file, bytes) = unsafe { writing(file, data, count, done) }?;
        let (written, result) = file.write(offset, bytes);
        // SAFETY: the contract of pointers.
        unsafe { note(done, written) }?;
        result
    })
}

/// # Safety
/// The contract of pointers.
unsafe fn writing<'a>(
    file: *mut File,
    data: *const c_void,
    count: usize,
    done: *mut usize,
) -> Result<(&'a File, &'a [u8])> {
    // SAFETY: the caller vouches for them.
    unsafe {
        note(done, 0)?;
        Ok((
            pointers::handle(file, "file")?,
            pointers::bytes(data, count, "data")?,
        ))
    }
}

/// # Safety
/// The contract of pointers.
unsafe fn note(done: *mut usize, count: usize) -> Result<()> {
    if !done.is_null() {
        // SAFETY: the caller vouches for it.
        unsafe { pointers::out(done, "done") }?.set(count);
    }
    Ok(())
}

/// Moves the position by `offset` from the start, the position or the end: SEEK_SET, SEEK_CUR,
/// SEEK_END of stdio.h; or to the next data or hole from `offset` on: SEEK_DATA and SEEK_HOLE of
/// Linux, with -ENXIO if there is none. `position`, which may be NULL, becomes the new one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_file_seek(
    file: *mut File,
    offset: i64,
    whence: c_int,
    position: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let file = unsafe { pointers::handle(file, "file") }?;
        let mut current = file.position.lock().unwrap_or_else(PoisonError::into_inner);
        let beyond =
            || Failure::new(Errno::NXIO, format!("nothing from {offset} on")).at(&file.path);
        let sought = match (whence, u64::try_from(offset)) {
            (FROM_START, _) => 0_u64.checked_add_signed(offset),
            (FROM_POSITION, _) => current.checked_add_signed(offset),
            (FROM_END, _) => file.size()?.checked_add_signed(offset),
            (TO_DATA, Ok(offset)) => {
                let found = file.with(|volume, id| volume.seek_data(volume.inode_of(id)?, offset));
                Some(found?.ok_or_else(beyond)?)
            }
            (TO_HOLE, Ok(offset)) => {
                let found = file.with(|volume, id| volume.seek_hole(volume.inode_of(id)?, offset));
                Some(found?.ok_or_else(beyond)?)
            }
            _ => None,
        };
        let Some(sought) = sought.filter(|sought| i64::try_from(*sought).is_ok()) else {
            let text = format!("no position: offset {offset}, whence {whence}");
            return Err(Failure::invalid(text).at(&file.path));
        };
        *current = sought;
        if !position.is_null() {
            // SAFETY: the contract of pointers.
            unsafe { pointers::out(position, "position") }?.set(sought);
        }
        Ok(())
    })
}

/// Makes a file durable: contents and attributes, as fsync(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_file_sync(file: *mut File) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let file = unsafe { pointers::handle(file, "file") }?;
        file.with(|volume, id| volume.sync_file(id, false))
    })
}

/// Makes the contents of a file durable, as fdatasync(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_file_datasync(file: *mut File) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let file = unsafe { pointers::handle(file, "file") }?;
        file.with(|volume, id| volume.sync_file(id, true))
    })
}

/// Sets the size of a file that is open for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_file_truncate(file: *mut File, size: u64) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let file = unsafe { pointers::handle(file, "file") }?;
        file.with(|volume, id| {
            if !volume.is_writable(id) {
                return Err(Error::BadHandle);
            }
            let change = SetAttributes {
                size: Some(size),
                ..SetAttributes::default()
            };
            volume.set_attributes(volume.inode_of(id)?, &change)
        })
    })
}

/// Returns the attributes of an open file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_file_stat(file: *mut File, stat: *mut Stat) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        unsafe {
            versioned::check(stat, "stat")?;
            let file = pointers::handle(file, "file")?;
            let found = file.with(|volume, id| volume.attributes(volume.inode_of(id)?))?;
            versioned::fill(stat, "stat", &found.into())
        }
    })
}

fn check_flags(flags: u32) -> Result<()> {
    let has = |flag: u32| flags & flag != 0;
    let refuse = |text: &str| Err(Failure::invalid(format!("flags are {flags:#x}: {text}")));
    if has(!FLAGS) {
        return refuse("some are unknown");
    }
    if !has(JEXT_READ | JEXT_WRITE) {
        return refuse("JEXT_READ or JEXT_WRITE is missing");
    }
    if has(JEXT_APPEND | JEXT_TRUNCATE) && !has(JEXT_WRITE) {
        return refuse("JEXT_APPEND and JEXT_TRUNCATE need JEXT_WRITE");
    }
    if has(JEXT_EXCLUSIVE) && !has(JEXT_CREATE) {
        return refuse("JEXT_EXCLUSIVE needs JEXT_CREATE");
    }
    Ok(())
}

/// Opens a file; creates it if the flags ask for that.
fn open(volume: &jext::Volume, path: &[u8], flags: u32, new: &NewInode) -> jext::Result<FileId> {
    let has = |flag: u32| flags & flag != 0;
    let opened_with = OpenFlags {
        read: has(JEXT_READ),
        write: has(JEXT_WRITE),
        append: has(JEXT_APPEND),
        truncate: has(JEXT_TRUNCATE),
        sync: has(JEXT_SYNC),
        ..OpenFlags::default()
    };
    loop {
        if !has(JEXT_EXCLUSIVE) {
            let opened = volume.with_inode_at(path, true, |nr| open_inode(volume, nr, opened_with));
            match opened {
                Err(Error::NotFound) if has(JEXT_CREATE) => {}
                opened => return opened,
            }
        }
        if path.last() == Some(&b'/') {
            return Err(Error::IsDirectory);
        }
        let made = volume.with_parent_of(path, |parent, name| {
            volume.create(parent, name, new)?;
            // By name, since another thread may have replaced it.
            let nr = volume.lookup(parent, name)?;
            volume.open_inode(nr, opened_with)
        });
        match made {
            // Made by another thread meanwhile, unless it is a dangling link.
            Err(Error::Exists) if !has(JEXT_EXCLUSIVE) && !is_link(volume, path) => {}
            // Removed by another thread meanwhile.
            Err(Error::NotFound) if volume.with_parent_of(path, |_, _| Ok(())).is_ok() => {}
            made => return made,
        }
    }
}

fn is_link(volume: &jext::Volume, path: &[u8]) -> bool {
    let found = volume.metadata(path, false);
    found.is_ok_and(|found| found.kind == FileKind::Symlink)
}

fn open_inode(volume: &jext::Volume, nr: InodeNr, flags: OpenFlags) -> jext::Result<FileId> {
    match volume.attributes(nr)?.kind {
        FileKind::Directory => Err(Error::IsDirectory),
        FileKind::Regular => volume.open_inode(nr, flags),
        _ => Err(Error::Invalid("only regular files can be opened")),
    }
}
