//! Inodes in a kernel's view: by number, from the first look-up until the kernel forgets them.
//!
//! A look-up pins its inode as an open file does, so that the number is not reused: an inode
//! without links is deleted when the last look-up is forgotten and the last file closed. The calls
//! here read and write contents by number, without an open file; the caller checks permissions and
//! reports errors to the right programs.

use std::sync::Arc;

use layout::InodeNr;
use layout::inode_flags::InodeFlags;

use super::attributes::describe;
use super::{Attributes, Entry, FileId, Volume};
use crate::cache::inode::Inode;
use crate::error::{Error, Result};
use crate::file::{self, ByteRange, RangeChange, Sought, WriteOptions};
use crate::namei;

/// Number of entries read before their inodes are looked up: approximately one reply of FUSE.
const ENTRIES_AT_A_TIME: usize = 16;

/// The durability of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Durable some time later, or with the next sync.
    #[default]
    Later,
    /// Durable when the call returns, with all metadata needed to read it back: O_DSYNC.
    Data,
    /// Durable when the call returns, with all of the inode: O_SYNC.
    All,
}

/// The source of a write to a node, which may be immutable or append-only.
///
/// | source | immutable | append-only, before the end |
/// |---|---|---|
/// | an open file | refused | refused, unless the file was opened before the flag was set |
/// | a cache | refused, unless a file is open for writing | the same, for any open file |
/// | unknown | refused | taken |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// An open file.
    File(FileId),
    /// A cache above this crate, which all open files of a node share: it may hold what was written
    /// before a flag was set. It is written back before the last of these files is closed.
    Cache,
    /// A caller that opens no files, or a cache of one.
    Unknown,
}

impl Volume {
    /// Looks up a name, and pins its inode until it is forgotten.
    ///
    /// # Errors
    /// Fails as [`Volume::lookup`].
    pub fn look_up_node(&self, parent: InodeNr, name: &[u8]) -> Result<Attributes> {
        rt::charge(rt::Cost::Syscall);
        let inode = namei::look_up_and_pin(&self.core, parent, name)?;
        let state = inode.state.read();
        Ok(describe(&self.core, &inode, &state))
    }

    /// Pins an inode until it is forgotten: once more for each call.
    ///
    /// An inode without links and pins may be deleted at any time, so the caller keeps its
    /// directory entry in place during the call.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the inode does not exist.
    pub fn remember(&self, nr: InodeNr) -> Result<Attributes> {
        let inode = self.core.inode(nr)?;
        self.core.inodes.pin(&inode);
        let state = inode.state.read();
        Ok(describe(&self.core, &inode, &state))
    }

    /// Looks up an inode by its number alone, as in a file handle, and pins it until it is
    /// forgotten.
    ///
    /// # Errors
    /// - [`Error::NotFound`] if no inode with a link has the number, or if the inode belongs to the
    ///   volume itself, as the journal's does.
    pub fn look_up_number(&self, nr: InodeNr) -> Result<Attributes> {
        rt::charge(rt::Cost::Syscall);
        let geometry = self.core.geometry();
        let is_reserved = nr < geometry.first_inode && nr != InodeNr::ROOT;
        let superblock = &self.core.superblock;
        let counts_owners = superblock.quota_inodes().any(|(_, own)| own == nr);
        let is_own = is_reserved || counts_owners || superblock.orphan_file() == Some(nr);
        if is_own || nr.get() > geometry.inode_count {
            return Err(Error::NotFound);
        }
        // The table may hold anything behind the inodes that were ever used.
        let (group, index) = geometry.group_of_inode(nr);
        if index >= self.core.space.group(group).used_inodes() {
            return Err(Error::NotFound);
        }
        let inode = self.core.inode(nr)?;
        let state = inode.state.read();
        if state.links == 0 {
            return Err(Error::NotFound);
        }
        // Pinned under the lock: a later removal of the name finds the pin.
        self.core.inodes.pin(&inode);
        Ok(describe(&self.core, &inode, &state))
    }

    /// Ends `count` look-ups. An inode that has no links left and is not open is deleted.
    ///
    /// # Errors
    /// Returns the errors of a deletion; the inode stays on the orphan list then.
    pub fn forget(&self, nr: InodeNr, count: u64) -> Result<()> {
        if self.core.inodes.unpin_absent(nr, count) {
            return Ok(());
        }
        let inode = self.core.inode(nr)?;
        if self.core.inodes.unpin_many(&inode, count) {
            self.delete_unnamed(&inode)
        } else {
            Ok(())
        }
    }

    /// Like [`Volume::read_directory`], and pins the inode of each entry except `.` and `..` until
    /// it is forgotten. If `visit` returns false, the inode of that entry is not pinned.
    ///
    /// # Errors
    /// Fails as [`Volume::read_directory`]. Entries found before the error have been visited.
    pub fn read_directory_nodes(
        &self,
        nr: InodeNr,
        cookie: u64,
        visit: &mut dyn FnMut(u64, &Entry, Option<&Attributes>) -> bool,
    ) -> Result<()> {
        let mut from = cookie;
        loop {
            let mut found = Vec::with_capacity(ENTRIES_AT_A_TIME);
            let read = self.read_directory(nr, from, &mut |next, entry| {
                let inode = self.pin_entry(&entry);
                found.push((next, entry, inode));
                found.len() < ENTRIES_AT_A_TIME
            });
            let is_over = found.len() < ENTRIES_AT_A_TIME;
            from = found.last().map_or(from, |(next, ..)| *next);
            let wants_more = self.show_entries(found, visit)?;
            read?;
            if is_over || !wants_more {
                return Ok(());
            }
        }
    }

    /// Pins the inode of an entry, except of `.` and `..`. The directory is locked, so that the
    /// entry is there.
    fn pin_entry(&self, entry: &Entry) -> Option<Arc<Inode>> {
        if entry.name == b"." || entry.name == b".." {
            return None;
        }
        // A damaged inode is reported when it is used; its name remains visible.
        let inode = self.core.inode(entry.inode).ok()?;
        self.core.inodes.pin(&inode);
        Some(inode)
    }

    /// Visits entries until one is refused, and unpins that one and those after it. Returns true if
    /// all were taken.
    fn show_entries(
        &self,
        entries: Vec<(u64, Entry, Option<Arc<Inode>>)>,
        visit: &mut dyn FnMut(u64, &Entry, Option<&Attributes>) -> bool,
    ) -> Result<bool> {
        let mut wants_more = true;
        let mut result = Ok(());
        for (next, entry, inode) in entries {
            let attributes = inode.as_ref().filter(|_| wants_more).map(|inode| {
                let state = inode.state.read();
                describe(&self.core, inode, &state)
            });
            wants_more = wants_more && visit(next, &entry, attributes.as_ref());
            if let (Some(inode), false) = (&inode, wants_more) {
                result = result.and(self.unpin(inode));
            }
        }
        result.map(|()| wants_more)
    }

    /// Reads at an offset; returns fewer bytes than requested only at the end of the file.
    /// `is_direct` reads past the page cache.
    ///
    /// # Errors
    /// - [`Error::NotFound`] if the inode does not exist.
    /// - [`Error::IsDirectory`] and [`Error::Invalid`] for inodes without contents.
    pub fn read_node(
        &self,
        nr: InodeNr,
        offset: u64,
        into: &mut [u8],
        is_direct: bool,
    ) -> Result<usize> {
        rt::charge(rt::Cost::Syscall);
        let inode = self.core.inode(nr)?;
        file::check_live(&inode.state.read())?;
        if is_direct {
            file::read_direct(&self.core, &inode, None, offset, into)
        } else {
            file::read(&self.core, &inode, None, offset, into)
        }
    }

    /// Writes at an offset. Returns the number of bytes: fewer if the volume fills up during the
    /// write.
    ///
    /// # Errors
    /// - [`Error::NotPermitted`] if the inode is immutable or append-only: see [`Writer`].
    /// - Errors of [`Volume::write`].
    pub fn write_node(
        &self,
        nr: InodeNr,
        offset: u64,
        from: &[u8],
        is_direct: bool,
        durability: Durability,
        writer: Writer,
    ) -> Result<usize> {
        rt::charge(rt::Cost::Syscall);
        let inode = self.core.inode(nr)?;
        let flags = inode.state.read().flags;
        if flags.contains(InodeFlags::IMMUTABLE) && !self.is_late(nr, writer) {
            return Err(Error::NotPermitted);
        }
        let options = WriteOptions {
            append: false,
            bounded: flags.contains(InodeFlags::APPEND) && self.is_bounded(nr, writer),
            sync: durability == Durability::All,
            data_sync: durability == Durability::Data,
            direct: is_direct,
        };
        file::write(&self.core, &inode, offset, from, options)
    }

    /// True for a cache that may hold data written before the inode became immutable.
    fn is_late(&self, nr: InodeNr, writer: Writer) -> bool {
        writer == Writer::Cache && self.is_open_for_writing(nr)
    }

    /// True if all that a writer has to write was written while the inode was append-only.
    fn is_bounded(&self, nr: InodeNr, writer: Writer) -> bool {
        match writer {
            Writer::File(file) => !self.is_unbounded(file),
            Writer::Cache => !self.has_unbounded(nr),
            Writer::Unknown => false,
        }
    }

    /// Makes a file or directory durable: all of it, or the part needed to read its data back.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the inode does not exist.
    pub fn sync_node(&self, nr: InodeNr, data_only: bool) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        let inode = self.core.inode(nr)?;
        file::sync(&self.core, &inode, data_only)
    }

    /// Returns the first byte of data from an offset on (SEEK_DATA), if there is one before the
    /// end. Blocks are data, whatever their contents.
    ///
    /// # Errors
    /// [`Error::Invalid`] unless the inode is a regular file.
    pub fn seek_data(&self, nr: InodeNr, offset: u64) -> Result<Option<u64>> {
        self.seek(nr, offset, Sought::Data)
    }

    /// Returns the first byte of a hole from an offset on (SEEK_HOLE); none from the end on, which
    /// is the start of a hole itself.
    ///
    /// # Errors
    /// Fails as [`Volume::seek_data`].
    pub fn seek_hole(&self, nr: InodeNr, offset: u64) -> Result<Option<u64>> {
        self.seek(nr, offset, Sought::Hole)
    }

    fn seek(&self, nr: InodeNr, offset: u64, sought: Sought) -> Result<Option<u64>> {
        rt::charge(rt::Cost::Syscall);
        let inode = self.core.inode(nr)?;
        file::seek(&self.core, &inode, offset, sought)
    }

    /// Allocates, punches, zeroes, collapses or inserts a range. Allocated and zeroed, the file
    /// grows to the range's end, unless the size is kept; in the latter case a range beyond the end
    /// is refused, because ext3 has no blocks there. What is collapsed or inserted determines the
    /// size; that takes effect as a whole, unless the file has so many extents that their blocks do
    /// not fit one transaction.
    ///
    /// # Errors
    /// - [`Error::Invalid`] for an empty range; [`Error::FileTooLarge`] for one beyond the largest
    ///   size.
    /// - [`Error::Invalid`] for a range that is collapsed or inserted and is not of whole blocks,
    ///   or that the end of the file does not lie behind.
    /// - [`Error::Unsupported`] for blocks beyond the end of a file that keeps its size, and to
    ///   collapse or insert in a file without extents.
    /// - [`Error::NoSpace`] if the volume fills up during the change.
    pub fn change_range(
        &self,
        nr: InodeNr,
        offset: u64,
        length: u64,
        what: RangeChange,
        keeps_size: bool,
    ) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        let inode = self.core.inode(nr)?;
        let end = offset.checked_add(length).ok_or(Error::FileTooLarge)?;
        let range = ByteRange { start: offset, end };
        file::change_range(&self.core, &inode, range, what, keeps_size)
    }

    /// Like [`Volume::change_range`], without keeping the size; after an error the file has the
    /// size it had, or ends with what was written meanwhile. The blocks that were allocated within
    /// it stay. The caller makes no other call meanwhile that sets the size.
    ///
    /// # Errors
    /// Fails as [`Volume::change_range`].
    pub fn change_range_or_cut(
        &self,
        nr: InodeNr,
        offset: u64,
        length: u64,
        what: RangeChange,
    ) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        let inode = self.core.inode(nr)?;
        let end = offset.checked_add(length).ok_or(Error::FileTooLarge)?;
        let range = ByteRange { start: offset, end };
        file::change_range_or_cut(&self.core, &inode, range, what)
    }
}
