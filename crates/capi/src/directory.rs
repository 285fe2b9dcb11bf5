//! Open directories.

use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::sync::Arc;

use jext::Error;
use jext::volume::{Entry, FileId, FileKind, OpenFlags};

use crate::call::call;
use crate::failure::Result;
use crate::file::closed;
use crate::pointers;
use crate::shared::Shared;
use crate::volume::Volume;

/// Number of entries that are read at a time.
const ENTRIES_AT_A_TIME: usize = 64;

/// An open directory. One thread uses it at a time.
pub struct Directory {
    shared: Arc<Shared>,
    id: FileId,
    /// Path at the open, for messages.
    path: Vec<u8>,
    /// Entries that were read and not returned yet, each with the cookie behind it.
    entries: VecDeque<(u64, Entry)>,
    /// Place from which the next entries are read.
    cookie: u64,
    /// True if there are no more.
    is_over: bool,
    /// The entry that was returned last, and its name.
    current: DirectoryEntry,
    name: CString,
}

/// An entry of a directory.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DirectoryEntry {
    /// Inode number.
    pub inode: u64,
    /// The place behind the entry, for jext_dir_seek.
    pub cookie: u64,
    /// Name, which ends with a zero.
    pub name: *const c_char,
    /// Length of the name in bytes.
    pub name_length: u32,
    /// Type, as the type bits of st_mode in stat(2); 0 if the file system does not store it here.
    pub r#type: u32,
}

impl Directory {
    fn with<T>(&self, work: impl FnOnce(&jext::Volume, FileId) -> jext::Result<T>) -> Result<T> {
        self.shared.at(&self.path, |volume| work(volume, self.id))
    }

    /// Reads the next entries, if none are left. Entries before damage are returned before it is.
    fn fill(&mut self) -> Result<()> {
        if !self.entries.is_empty() || self.is_over {
            return Ok(());
        }
        let (mut found, mut last, mut count) = (VecDeque::new(), self.cookie, 0);
        let from = self.cookie;
        let read = self.with(|volume, id| {
            volume.read_directory(volume.inode_of(id)?, from, &mut |next, entry| {
                (last, count) = (next, count + 1);
                if entry.name != b"." && entry.name != b".." {
                    found.push_back((next, entry));
                }
                count < ENTRIES_AT_A_TIME
            })
        });
        self.entries = found;
        self.cookie = last;
        match read {
            Err(failure) if self.entries.is_empty() => Err(failure),
            Err(_) => Ok(()),
            Ok(()) => {
                self.is_over = count < ENTRIES_AT_A_TIME;
                Ok(())
            }
        }
    }
}

/// Opens a directory, at its first entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_dir_open(
    volume: *mut Volume,
    path: *const c_char,
    dir: *mut *mut Directory,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let (out, volume, path) = unsafe {
            (
                pointers::out(dir, "dir")?.cleared(),
                pointers::handle(volume, "volume")?,
                pointers::text(path, "path")?,
            )
        };
        let shared = Arc::clone(volume.shared());
        let id = shared.at(path, |volume| {
            volume.with_inode_at(path, true, |nr| match volume.attributes(nr)?.kind {
                FileKind::Directory => volume.open_inode(nr, OpenFlags::READ),
                _ => Err(Error::NotDirectory),
            })
        })?;
        out.give(Directory {
            shared,
            id,
            path: path.to_vec(),
            entries: VecDeque::new(),
            cookie: 0,
            is_over: false,
            current: DirectoryEntry {
                inode: 0,
                cookie: 0,
                name: ptr::null(),
                name_length: 0,
                r#type: 0,
            },
            name: CString::default(),
        });
        Ok(())
    })
}

/// Returns the next entry, or NULL behind the last one. "." and ".." are left out. The entry is
/// valid until the next call for the directory. Entries that are added or removed meanwhile are
/// returned or not; all others are returned once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_dir_read(
    dir: *mut Directory,
    entry: *mut *const DirectoryEntry,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let (out, dir) = unsafe {
            let out = pointers::out(entry, "entry")?;
            out.set(ptr::null());
            (out, pointers::handle_mut(dir, "dir")?)
        };
        dir.fill()?;
        if let Some((cookie, entry)) = dir.entries.pop_front() {
            let name_length = entry.name.len() as u32;
            // The engine refuses names with a zero byte.
            dir.name = CString::new(entry.name).unwrap_or_default();
            dir.current = DirectoryEntry {
                inode: entry.inode.get().into(),
                cookie,
                name: dir.name.as_ptr(),
                name_length,
                r#type: entry.kind.map_or(0, |kind| kind.mode().into()),
            };
            out.set(&raw const dir.current);
        }
        Ok(())
    })
}

/// Moves to a place of the directory: 0 for its start, or the cookie of an entry for the place
/// behind it. Cookies stay valid while the directory changes, and for other opens of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_dir_seek(dir: *mut Directory, cookie: u64) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let dir = unsafe { pointers::handle_mut(dir, "dir") }?;
        dir.entries.clear();
        dir.cookie = cookie;
        dir.is_over = false;
        Ok(())
    })
}

/// Makes a directory durable: its entries, as fsync(2) of a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_dir_sync(dir: *mut Directory) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let dir = unsafe { pointers::handle(dir, "dir") }?;
        dir.with(|volume, id| volume.sync_file(id, false))
    })
}

/// Closes a directory. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_dir_close(dir: *mut Directory) -> c_int {
    call(|| {
        if dir.is_null() {
            return Ok(());
        }
        // SAFETY: the contract of pointers.
        let dir = unsafe { pointers::take(dir, "dir") }?;
        closed(dir.with(|volume, id| volume.release(id)))
    })
}
