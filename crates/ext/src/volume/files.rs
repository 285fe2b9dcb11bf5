//! Open files: a handle pins its inode and keeps its open flags and the write errors it has
//! reported.

use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::Arc;

use layout::InodeNr;
use layout::inode_flags::InodeFlags;
use rt::Mutex;

use super::Volume;
use crate::cache::inode::Inode;
use crate::cache::read_ahead::ReadAhead;
use crate::cache::shard_of;
use crate::disk::kind::FileKind;
use crate::error::{Error, Result};
use crate::file::{self, WriteOptions};

/// The identifier of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(u64);

impl FileId {
    /// Returns the raw number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Creates a handle from its raw number; every use of a handle that is not open fails.
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

/// The flags of an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFlags {
    /// True to open for reading.
    pub read: bool,
    /// True to open for writing.
    pub write: bool,
    /// True if every write goes to the end.
    pub append: bool,
    /// True to truncate the file to 0 at open.
    pub truncate: bool,
    /// True for O_SYNC.
    pub sync: bool,
    /// True for O_DSYNC.
    pub data_sync: bool,
    /// True for O_DIRECT.
    pub direct: bool,
}

impl OpenFlags {
    /// Flags for reading only.
    pub const READ: Self = Self {
        read: true,
        write: false,
        append: false,
        truncate: false,
        sync: false,
        data_sync: false,
        direct: false,
    };
    /// Flags for reading and writing.
    pub const READ_WRITE: Self = Self {
        write: true,
        ..Self::READ
    };
}

/// One open file.
struct OpenFile {
    inode: Arc<Inode>,
    flags: OpenFlags,
    /// True if the inode was append-only when it was opened.
    only_appends: bool,
    /// Number of write errors of the file at the handle's last check.
    seen_errors: Mutex<u64>,
    /// The pattern of its reads. A leaf lock, held for memory work only.
    ahead: Mutex<ReadAhead>,
}

impl OpenFile {
    /// True if the file may be written anywhere.
    fn is_unbounded(&self) -> bool {
        self.flags.write && !self.only_appends
    }
}

/// Number of tables that the open files are spread over.
const TABLES: usize = 16;
/// Number of consecutive inodes whose files are in the same table: those of new files are.
const TABLE_RUN: u32 = 16;

/// All open files of a volume. Those of an inode are in the same table.
#[derive(Default)]
pub(super) struct OpenFiles {
    tables: [Mutex<Table>; TABLES],
}

impl OpenFiles {
    /// Returns the table of an inode's files, and its number.
    fn of_inode(&self, nr: InodeNr) -> (&Mutex<Table>, usize) {
        let at = shard_of((nr.get() / TABLE_RUN).into(), TABLES);
        (&self.tables[at], at)
    }

    /// Returns the table of a file.
    fn of_file(&self, id: FileId) -> &Mutex<Table> {
        &self.tables[(id.0 % TABLES as u64) as usize]
    }
}

/// Some of the open files.
#[derive(Default)]
struct Table {
    /// Number of files that were opened so far.
    count: u64,
    files: BTreeMap<u64, Arc<OpenFile>>,
    /// Number of opens of each inode.
    opens: BTreeMap<InodeNr, Opens>,
}

#[derive(Default)]
struct Opens {
    all: u32,
    for_writing: u32,
    /// Number of those for writing whose inode was not append-only.
    unbounded: u32,
}

impl Table {
    /// Inserts a file. `at` is the table's own number, which a file's number tells.
    fn insert(&mut self, file: Arc<OpenFile>, at: usize) -> FileId {
        let opens = self.opens.entry(file.inode.nr).or_default();
        opens.all += 1;
        opens.for_writing += u32::from(file.flags.write);
        opens.unbounded += u32::from(file.is_unbounded());
        self.count += 1;
        let id = self.count * TABLES as u64 + at as u64;
        self.files.insert(id, file);
        FileId(id)
    }

    /// Removes a file; returns true if its inode is no longer open.
    fn remove(&mut self, id: FileId) -> Option<(Arc<OpenFile>, bool)> {
        let file = self.files.remove(&id.0)?;
        let opens = self.opens.entry(file.inode.nr).or_default();
        opens.all = opens.all.saturating_sub(1);
        let is_for_writing = u32::from(file.flags.write);
        opens.for_writing = opens.for_writing.saturating_sub(is_for_writing);
        let is_unbounded = u32::from(file.is_unbounded());
        opens.unbounded = opens.unbounded.saturating_sub(is_unbounded);
        let is_last = opens.all == 0;
        if is_last {
            self.opens.remove(&file.inode.nr);
        }
        Some((file, is_last))
    }
}

impl Volume {
    /// Opens a regular file (or a directory, for syncing it).
    ///
    /// # Errors
    /// - [`Error::NotFound`] if the inode does not exist.
    /// - [`Error::IsDirectory`] for a directory with write access.
    /// - [`Error::NotPermitted`] if the inode is immutable, or append-only and `flags` do not
    ///   append; [`Error::Verity`] for a file with verity, with write access.
    /// - [`Error::NoKey`] for an encrypted file.
    pub fn open_inode(&self, nr: InodeNr, flags: OpenFlags) -> Result<FileId> {
        rt::charge(rt::Cost::Syscall);
        let inode = self.core.inode(nr)?;
        self.core.inodes.pin(&inode);
        match self.check_open(&inode, flags) {
            Ok(only_appends) => Ok(self.insert_open(inode, flags, only_appends)),
            Err(error) => {
                self.unpin(&inode)?;
                Err(error)
            }
        }
    }

    /// Returns true if an inode is open for writing.
    pub fn is_open_for_writing(&self, nr: InodeNr) -> bool {
        let table = self.open_files.of_inode(nr).0.lock();
        table
            .opens
            .get(&nr)
            .is_some_and(|opens| opens.for_writing > 0)
    }

    /// Returns true if a file is open for writing under this handle.
    pub fn is_writable(&self, file: FileId) -> bool {
        self.opened(file).is_ok_and(|opened| opened.flags.write)
    }

    /// Returns the flags that a file was opened with.
    ///
    /// # Errors
    /// [`Error::BadHandle`] if the file is not open.
    pub fn open_flags(&self, file: FileId) -> Result<OpenFlags> {
        Ok(self.opened(file)?.flags)
    }

    /// Returns true if a file is open for writing under this handle, and its inode was append-only
    /// when it was opened.
    pub fn only_appends(&self, file: FileId) -> bool {
        self.opened(file)
            .is_ok_and(|opened| opened.flags.write && opened.only_appends)
    }

    /// Returns true if a file is open for writing under this handle, and its inode was not
    /// append-only when it was opened.
    pub(super) fn is_unbounded(&self, file: FileId) -> bool {
        self.opened(file).is_ok_and(|opened| opened.is_unbounded())
    }

    /// Returns true if an inode is open for writing and was not append-only when it was opened.
    pub(super) fn has_unbounded(&self, nr: InodeNr) -> bool {
        let table = self.open_files.of_inode(nr).0.lock();
        let opens = table.opens.get(&nr);
        opens.is_some_and(|opens| opens.unbounded > 0)
    }

    /// Checks that a file may be opened. Returns true if the inode is append-only.
    fn check_open(&self, inode: &Arc<Inode>, flags: OpenFlags) -> Result<bool> {
        let (kind, inode_flags) = {
            let state = inode.state.read();
            state.check_exists()?;
            (state.kind, state.flags)
        };
        if kind == FileKind::Regular && inode_flags.contains(InodeFlags::ENCRYPT) {
            return Err(Error::NoKey);
        }
        if flags.write || flags.truncate {
            self.core.check_writable()?;
            if kind == FileKind::Directory {
                return Err(Error::IsDirectory);
            }
            if inode_flags.contains(InodeFlags::VERITY) {
                return Err(Error::Verity);
            }
            if inode_flags.contains(InodeFlags::IMMUTABLE) {
                return Err(Error::NotPermitted);
            }
            let only_appends = flags.append && !flags.truncate;
            if inode_flags.contains(InodeFlags::APPEND) && !only_appends {
                return Err(Error::NotPermitted);
            }
        }
        // As in Linux, an empty file loses its preallocated blocks, and its times change.
        if flags.truncate && kind == FileKind::Regular {
            file::truncate(&self.core, inode, 0)?;
        }
        Ok(inode_flags.contains(InodeFlags::APPEND))
    }

    fn insert_open(&self, inode: Arc<Inode>, flags: OpenFlags, only_appends: bool) -> FileId {
        let seen_errors = Mutex::new(inode.pages.error_count());
        let (table, at) = self.open_files.of_inode(inode.nr);
        let file = Arc::new(OpenFile {
            inode,
            flags,
            only_appends,
            seen_errors,
            ahead: Mutex::default(),
        });
        table.lock().insert(file, at)
    }

    fn opened(&self, file: FileId) -> Result<Arc<OpenFile>> {
        let table = self.open_files.of_file(file).lock();
        table.files.get(&file.0).cloned().ok_or(Error::BadHandle)
    }

    /// Closes a file. The last close of a file without links deletes it.
    ///
    /// # Errors
    /// - [`Error::DataLost`] once, if writing its data has failed since the handle's last check.
    pub fn release(&self, file: FileId) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        let removed = self.open_files.of_file(file).lock().remove(file);
        let (opened, is_last) = removed.ok_or(Error::BadHandle)?;
        let closed = file::close(&self.core, &opened.inode);
        if is_last {
            self.core.discard_window(&opened.inode.window);
        }
        let reported = report_errors(&opened);
        self.unpin(&opened.inode)?;
        closed.and(reported)
    }

    /// Closes all files and forgets all look-ups, when the volume closes.
    pub(super) fn release_all(&self) -> Result<()> {
        let tables = self.open_files.tables.iter();
        let left = tables.flat_map(|table| core::mem::take(&mut *table.lock()).files);
        let mut result = Ok(());
        for (_, opened) in left {
            self.core.discard_window(&opened.inode.window);
            result = result
                .and(report_errors(&opened))
                .and(self.unpin(&opened.inode));
        }
        self.core.inodes.unpin_all();
        result
    }

    /// Ends a pin; with the last one, deletes an inode without links.
    pub(super) fn unpin(&self, inode: &Arc<Inode>) -> Result<()> {
        if self.core.inodes.unpin(inode) {
            self.delete_unnamed(inode)
        } else {
            Ok(())
        }
    }

    /// Deletes an inode without links after its last pin has ended.
    pub(super) fn delete_unnamed(&self, inode: &Arc<Inode>) -> Result<()> {
        if inode.state.read().links == 0 && !self.is_read_only() {
            return file::delete_or_leave(&self.core, inode);
        }
        Ok(())
    }

    /// Returns the inode of an open file.
    ///
    /// # Errors
    /// [`Error::BadHandle`] if the file is not open.
    pub fn inode_of(&self, file: FileId) -> Result<InodeNr> {
        Ok(self.opened(file)?.inode.nr)
    }

    /// Returns the inode of a file that is open for writing.
    pub(super) fn writable_inode_of(&self, file: FileId) -> Result<InodeNr> {
        let opened = self.opened(file)?;
        if !opened.flags.write {
            return Err(Error::BadHandle);
        }
        Ok(opened.inode.nr)
    }

    /// Reads at an offset; returns fewer bytes than requested only at the end of the file.
    ///
    /// # Errors
    /// - [`Error::BadHandle`] if the file is not open for reading.
    /// - [`Error::IsDirectory`] and [`Error::Invalid`] for inodes without contents.
    pub fn read(&self, file: FileId, offset: u64, into: &mut [u8]) -> Result<usize> {
        rt::charge(rt::Cost::Syscall);
        let opened = self.opened(file)?;
        if !opened.flags.read {
            return Err(Error::BadHandle);
        }
        match opened.inode.state.read().kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Error::IsDirectory),
            _ => return Err(Error::Invalid("only a regular file has contents here")),
        }
        let ahead = Some(&opened.ahead);
        if opened.flags.direct {
            return file::read_direct(&self.core, &opened.inode, ahead, offset, into);
        }
        file::read(&self.core, &opened.inode, ahead, offset, into)
    }

    /// Writes at an offset, or at the end for a file opened to append. Returns the number of bytes:
    /// fewer if the volume fills up during the write.
    ///
    /// # Errors
    /// - [`Error::BadHandle`] if the file is not open for writing.
    /// - [`Error::NoSpace`] if nothing could be written for lack of space.
    /// - [`Error::FileTooLarge`] at or beyond the largest size.
    pub fn write(&self, file: FileId, offset: u64, from: &[u8]) -> Result<usize> {
        let written = self.write_range(file, offset, from)?;
        Ok((written.end - written.start) as usize)
    }

    /// Like [`Volume::write`]; returns the range written.
    pub(super) fn write_range(&self, file: FileId, offset: u64, from: &[u8]) -> Result<Range<u64>> {
        rt::charge(rt::Cost::Syscall);
        let opened = self.opened(file)?;
        if !opened.flags.write {
            return Err(Error::BadHandle);
        }
        self.core.check_writable()?;
        let options = WriteOptions {
            append: opened.flags.append,
            bounded: false,
            sync: opened.flags.sync,
            data_sync: opened.flags.data_sync,
            direct: opened.flags.direct,
        };
        file::write_range(&self.core, &opened.inode, offset, from, options)
    }

    /// Makes a file durable: data, and all of the inode (fsync) or the part needed to read the data
    /// back (`data_only`, fdatasync).
    ///
    /// # Errors
    /// - [`Error::BadHandle`] if the file is not open.
    /// - [`Error::DataLost`] once, if writing its data has failed since the handle's last check.
    pub fn sync_file(&self, file: FileId, data_only: bool) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        let opened = self.opened(file)?;
        let synced = file::sync(&self.core, &opened.inode, data_only);
        report_errors(&opened).and(synced)
    }
}

/// Reports a failed write once to every open file.
fn report_errors(opened: &OpenFile) -> Result<()> {
    let (count, cause) = opened.inode.pages.last_error();
    let mut seen = opened.seen_errors.lock();
    if *seen == count || rt::mutant!("fsync/error-not-reported") {
        return Ok(());
    }
    *seen = count;
    match cause {
        Some(cause) => Err(Error::DataLost {
            inode: opened.inode.nr,
            cause,
        }),
        None => Ok(()),
    }
}
