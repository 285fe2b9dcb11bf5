//! A volume in the form that a kernel requires.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use ext::volume::{
    Attributes, DeviceNumber, Durability, Entry, FileId, FileKind, InodeFlags, NewInode, OpenFlags,
    RangeChange, RenameMode, SetAttributes, SetMode, Usage, Writer,
};
use ext::{Error, Result, Volume};
use layout::InodeNr;

use crate::requests::{Copy, Handle, Opened};

/// Number of bytes that a copy within the volume moves at a time.
const COPY_BYTES: u64 = 1 << 20;

/// Number and interval of retries of an operation that found no space while files are being
/// deleted.
const ATTEMPTS: u32 = 200;
const MOMENT: Duration = Duration::from_millis(5);

/// Space is low when at most this fraction of the volume is left, and at most this many bytes.
const LOW_PART: u64 = 16;
const LOW_BYTES_MAX: u64 = 64 << 20;

/// Owners that are shown instead of the inodes' own: `uid=`, `gid=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Owners {
    /// Owner that is shown.
    pub uid: Option<u32>,
    /// Group that is shown.
    pub gid: Option<u32>,
}

/// A served volume.
pub(crate) struct Served {
    volume: Volume,
    owners: Owners,
    /// True if files are opened without a request, so that open files are not tracked here.
    is_lazy: bool,
    /// Number of orphans that stayed while an operation retried for space.
    kept_orphans: AtomicUsize,
}

impl Served {
    /// Serves a volume. `is_lazy` is true if files are opened without a request.
    pub(crate) fn new(volume: Volume, owners: Owners, is_lazy: bool) -> Self {
        Self {
            volume,
            owners,
            is_lazy,
            kept_orphans: AtomicUsize::new(0),
        }
    }

    /// Returns the volume.
    pub(crate) fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Ends the service and returns the volume.
    pub(crate) fn into_volume(self) -> Volume {
        self.volume
    }

    fn show(&self, mut attributes: Attributes) -> Attributes {
        attributes.uid = self.owners.uid.unwrap_or(attributes.uid);
        attributes.gid = self.owners.gid.unwrap_or(attributes.gid);
        attributes
    }

    /// Holds a new node; the kernel holds the lock of its directory meanwhile.
    fn made(&self, node: InodeNr) -> Result<Attributes> {
        Ok(self.show(self.volume.remember(node)?))
    }

    /// Retries an operation that finds no space while orphans exist. A file without names is
    /// deleted when the kernel has closed and forgotten it, which the kernel reports
    /// asynchronously. There is no retry if an earlier one failed with the same number of orphans:
    /// those are open files.
    fn patient<T>(&self, attempt: impl Fn() -> Result<T>) -> Result<T> {
        let mut result = attempt();
        for _ in 0..ATTEMPTS {
            if !matches!(result, Err(Error::NoSpace | Error::NoInodes)) {
                return result;
            }
            // Counted first: an orphan deleted after that has freed its space for the attempt.
            let count = self.volume.orphan_count();
            result = attempt();
            if count == 0 || count == self.kept_orphans.load(Ordering::Relaxed) {
                return result;
            }
            if result.is_err() {
                thread::sleep(MOMENT);
            }
        }
        let count = self.volume.orphan_count();
        self.kept_orphans.store(count, Ordering::Relaxed);
        result
    }

    /// True if the kernel could cache more writes than there is space for.
    fn is_low(&self) -> bool {
        let usage = self.volume.usage();
        let most = LOW_BYTES_MAX / u64::from(usage.block_bytes);
        usage.blocks_available < (usage.blocks / LOW_PART).min(most)
    }

    /// Returns the kind of an entry's inode, on a volume whose entries do not record it.
    fn kind_of(&self, directory: InodeNr, entry: &Entry) -> Option<FileKind> {
        if entry.inode == directory || entry.name == b".." {
            return Some(FileKind::Directory);
        }
        let attributes = self.volume.attributes(entry.inode);
        attributes.map(|attributes| attributes.kind).ok()
    }

    /// Refuses a change of an owner that is shown instead of the inode's own.
    fn check_owners(&self, change: &SetAttributes) -> Result<()> {
        let differs = |shown: Option<u32>, wanted: Option<u32>| {
            shown.is_some() && wanted.is_some() && shown != wanted
        };
        if differs(self.owners.uid, change.uid) || differs(self.owners.gid, change.gid) {
            return Err(Error::NotPermitted);
        }
        Ok(())
    }
}

/// The operations that the kernel requests. Numbers are inode numbers of the volume; permissions
/// have been checked.
///
/// Operations that create or find a node hold it; the kernel later forgets each node as many times
/// as it was returned.
impl Served {
    /// Looks up a name. `.` is the node itself, of any kind, also if the kernel has forgotten it.
    pub(crate) fn look_up(&self, parent: InodeNr, name: &[u8]) -> Result<Attributes> {
        let found = match name {
            b"." => self.volume.look_up_number(parent)?,
            _ => self.volume.look_up_node(parent, name)?,
        };
        Ok(self.show(found))
    }

    /// Drops `count` references of the kernel to a node.
    pub(crate) fn forget(&self, node: InodeNr, count: u64) {
        if let Err(error) = self.volume.forget(node, count) {
            tracing::warn!(%node, %error, "a node could not be forgotten");
        }
    }

    /// Returns the attributes of a node.
    pub(crate) fn attributes(&self, node: InodeNr) -> Result<Attributes> {
        Ok(self.show(self.volume.attributes(node)?))
    }

    /// Changes attributes of a node.
    pub(crate) fn set_attributes(
        &self,
        node: InodeNr,
        change: &SetAttributes,
    ) -> Result<Attributes> {
        self.check_owners(change)?;
        let change = SetAttributes {
            uid: change.uid.filter(|_| self.owners.uid.is_none()),
            gid: change.gid.filter(|_| self.owners.gid.is_none()),
            ..change.clone()
        };
        self.volume.set_attributes(node, &change)?;
        self.attributes(node)
    }

    /// Sets the flags of chattr, and the project.
    pub(crate) fn set_flags(
        &self,
        node: InodeNr,
        flags: InodeFlags,
        project: Option<u32>,
    ) -> Result<()> {
        let change = SetAttributes {
            flags: Some(flags),
            project,
            ..SetAttributes::default()
        };
        self.volume.set_attributes(node, &change)
    }

    /// Returns the target of a symbolic link.
    pub(crate) fn read_link(&self, node: InodeNr) -> Result<Vec<u8>> {
        self.volume.read_link(node)
    }

    /// Creates a file, device, fifo or socket.
    pub(crate) fn make_node(
        &self,
        parent: InodeNr,
        name: &[u8],
        kind: FileKind,
        device: DeviceNumber,
        new: &NewInode,
    ) -> Result<Attributes> {
        self.made(self.patient(|| self.volume.make_node(parent, name, kind, device, new))?)
    }

    /// Creates a directory.
    pub(crate) fn make_directory(
        &self,
        parent: InodeNr,
        name: &[u8],
        new: &NewInode,
    ) -> Result<Attributes> {
        self.made(self.patient(|| self.volume.make_directory(parent, name, new))?)
    }

    /// Creates a symbolic link.
    pub(crate) fn symlink(
        &self,
        parent: InodeNr,
        name: &[u8],
        target: &[u8],
        new: &NewInode,
    ) -> Result<Attributes> {
        self.made(self.patient(|| self.volume.symlink(parent, name, target, new))?)
    }

    /// Adds a directory entry for a node.
    pub(crate) fn link(&self, node: InodeNr, parent: InodeNr, name: &[u8]) -> Result<Attributes> {
        self.volume.link(node, parent, name)?;
        self.made(node)
    }

    /// Removes a directory entry of a non-directory.
    pub(crate) fn unlink(&self, parent: InodeNr, name: &[u8]) -> Result<()> {
        self.volume.unlink(parent, name)
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(&self, parent: InodeNr, name: &[u8]) -> Result<()> {
        self.volume.remove_directory(parent, name)
    }

    /// Renames a directory entry.
    pub(crate) fn rename(
        &self,
        parent: InodeNr,
        name: &[u8],
        new_parent: InodeNr,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.volume.rename(parent, name, new_parent, new_name, mode)
    }

    /// Opens a file.
    pub(crate) fn open(&self, node: InodeNr, flags: OpenFlags) -> Result<Opened> {
        if self.is_lazy {
            return Ok(Opened {
                handle: Handle::NONE,
                writes_through: false,
            });
        }
        let file = self.volume.open_inode(node, flags)?;
        let is_synchronous = || -> Result<bool> {
            let flags = self.volume.attributes(node)?.flags;
            Ok(flags.contains(InodeFlags::SYNC))
        };
        // From its cache the kernel writes whole pages, so that an append would be an overwrite.
        let writes_through =
            flags.write && (self.is_low() || self.volume.only_appends(file) || is_synchronous()?);
        Ok(Opened {
            handle: Handle(file.get()),
            writes_through,
        })
    }

    /// Creates a file and opens it.
    pub(crate) fn create(
        &self,
        parent: InodeNr,
        name: &[u8],
        new: &NewInode,
        flags: OpenFlags,
    ) -> Result<(Attributes, Opened)> {
        let attributes = self.made(self.patient(|| self.volume.create(parent, name, new))?)?;
        match self.open(attributes.inode, flags) {
            Ok(opened) => Ok((attributes, opened)),
            Err(error) => {
                self.forget(attributes.inode, 1);
                Err(error)
            }
        }
    }

    /// True if a file was opened for writing, or if open files are not tracked.
    pub(crate) fn is_writable(&self, handle: Handle) -> bool {
        handle == Handle::NONE || self.volume.is_writable(FileId::from_raw(handle.0))
    }

    /// True if a caller may use the blocks reserved for root. `groups` returns all groups of the
    /// caller.
    pub(crate) fn may_use_reserve(&self, uid: u32, groups: &dyn Fn() -> Vec<u32>) -> bool {
        let volume = &self.volume;
        let has_group = volume.reserve_owner().gid.is_some();
        let groups = if has_group { groups() } else { Vec::new() };
        volume.may_use_reserve(uid, &groups)
    }

    /// Runs `calls` with or without permission to use the reserved blocks.
    pub(crate) fn with_reserve<T>(&self, allowed: bool, calls: impl FnOnce() -> T) -> T {
        self.volume.with_reserve(allowed, calls)
    }

    /// Closes an open file.
    pub(crate) fn release(&self, handle: Handle) -> Result<()> {
        if handle == Handle::NONE {
            return Ok(());
        }
        self.volume.release(FileId::from_raw(handle.0))
    }

    /// Reads at an offset; returns fewer bytes than requested only at the end of the file.
    pub(crate) fn read(
        &self,
        node: InodeNr,
        offset: u64,
        into: &mut [u8],
        is_direct: bool,
    ) -> Result<usize> {
        self.volume.read_node(node, offset, into, is_direct)
    }

    /// Writes at an offset; returns fewer bytes than given only if space runs out, and at least
    /// one.
    pub(crate) fn write(
        &self,
        node: InodeNr,
        offset: u64,
        from: &[u8],
        is_direct: bool,
        durability: Durability,
        writer: Writer,
    ) -> Result<usize> {
        let volume = &self.volume;
        self.patient(|| volume.write_node(node, offset, from, is_direct, durability, writer))
    }

    /// Returns the writer with a handle.
    pub(crate) fn writer(&self, handle: Handle) -> Writer {
        match self.is_lazy {
            true => Writer::Unknown,
            false => Writer::File(FileId::from_raw(handle.0)),
        }
    }

    /// Returns the kernel's cache as a writer.
    pub(crate) fn cache(&self) -> Writer {
        match self.is_lazy {
            true => Writer::Unknown,
            false => Writer::Cache,
        }
    }

    /// Makes a file durable, and reports earlier failed writes to the open file.
    pub(crate) fn sync(&self, node: InodeNr, handle: Handle, data_only: bool) -> Result<()> {
        if handle == Handle::NONE {
            return self.volume.sync_node(node, data_only);
        }
        self.volume.sync_file(FileId::from_raw(handle.0), data_only)
    }

    /// Makes a change of a file as durable as the file was opened for: O_SYNC, O_DSYNC. The kernel
    /// does that after a write, and after no other change.
    fn sync_as_opened(&self, node: InodeNr, handle: Handle) -> Result<()> {
        // Without a handle the flags are unknown.
        let flags = self.volume.open_flags(FileId::from_raw(handle.0));
        match flags.unwrap_or_default() {
            OpenFlags { sync: true, .. } => self.sync(node, handle, false),
            OpenFlags {
                data_sync: true, ..
            } => self.sync(node, handle, true),
            _ => Ok(()),
        }
    }

    /// Makes a directory durable.
    pub(crate) fn sync_directory(&self, node: InodeNr) -> Result<()> {
        self.volume.sync_directory(node)
    }

    /// Visits a directory's entries from a cookie on, until `visit` returns false.
    pub(crate) fn read_directory(
        &self,
        node: InodeNr,
        cookie: u64,
        visit: &mut dyn FnMut(u64, &Entry) -> bool,
    ) -> Result<()> {
        self.volume
            .read_directory(node, cookie, &mut |next, mut entry| {
                entry.kind = entry.kind.or_else(|| self.kind_of(node, &entry));
                visit(next, &entry)
            })
    }

    /// Visits a directory's entries with their nodes' attributes from a cookie on, until `visit`
    /// returns false. `.` and `..` have no attributes here.
    pub(crate) fn read_directory_nodes(
        &self,
        node: InodeNr,
        cookie: u64,
        visit: &mut dyn FnMut(u64, &Entry, Option<&Attributes>) -> bool,
    ) -> Result<()> {
        self.volume
            .read_directory_nodes(node, cookie, &mut |next, entry, attributes| {
                let shown = attributes.map(|attributes| self.show(attributes.clone()));
                visit(next, entry, shown.as_ref())
            })
    }

    /// Returns free and used space.
    pub(crate) fn usage(&self) -> Usage {
        self.volume.usage()
    }

    /// Returns the granularity of times.
    pub(crate) fn time_granularity(&self) -> Duration {
        self.volume.time_granularity()
    }

    /// Allocates, frees or zeroes a range of a file. After an error the file has its size: the
    /// kernel does not ask for another one.
    pub(crate) fn change_range(
        &self,
        (node, handle): (InodeNr, Handle),
        offset: u64,
        length: u64,
        what: RangeChange,
        keeps_size: bool,
    ) -> Result<()> {
        let volume = &self.volume;
        self.patient(|| match keeps_size {
            true => volume.change_range(node, offset, length, what, true),
            false => volume.change_range_or_cut(node, offset, length, what),
        })?;
        self.sync_as_opened(node, handle)
    }

    /// Returns the first data byte from an offset on; `None` if there is none before the end.
    pub(crate) fn seek_data(&self, node: InodeNr, offset: u64) -> Result<Option<u64>> {
        self.volume.seek_data(node, offset)
    }

    /// Returns the first byte of a hole from an offset on, the end of the file included; `None`
    /// beyond the end.
    pub(crate) fn seek_hole(&self, node: InodeNr, offset: u64) -> Result<Option<u64>> {
        self.volume.seek_hole(node, offset)
    }

    /// True if the kernel may still cache writes to a file that have not arrived here. For a file
    /// that is not open for writing it has written back everything, mapped memory included, before
    /// it released the last writer.
    pub(crate) fn may_be_behind(&self, node: InodeNr) -> bool {
        self.is_lazy || self.volume.is_open_for_writing(node)
    }

    /// Copies within the file system. Returns the number of bytes. An error after the first of them
    /// is left to the next call.
    pub(crate) fn copy(&self, copy: Copy) -> Result<u64> {
        let writer = self.writer(copy.target_handle);
        let mut bytes = vec![0; copy.length.min(COPY_BYTES) as usize];
        let mut done = 0;
        while done < copy.length {
            let wanted = (copy.length - done).min(COPY_BYTES) as usize;
            let from = copy.source_offset + done;
            let to = copy.target_offset + done;
            let copied = self
                .read(copy.source, from, &mut bytes[..wanted], false)
                .and_then(|count| match &bytes[..count] {
                    [] => Ok(0),
                    bytes => self.write(copy.target, to, bytes, false, Durability::Later, writer),
                });
            match copied {
                Ok(written) => done += written as u64,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
            if copied.is_ok_and(|written| written < wanted) {
                break;
            }
        }
        self.sync_as_opened(copy.target, copy.target_handle)?;
        Ok(done)
    }

    /// Returns the value of an extended attribute.
    pub(crate) fn get_attribute(&self, node: InodeNr, name: &[u8]) -> Result<Vec<u8>> {
        self.volume.get_attribute(node, name)
    }

    /// Returns the names of all extended attributes.
    pub(crate) fn list_attributes(&self, node: InodeNr) -> Result<Vec<Vec<u8>>> {
        self.volume.list_attributes(node)
    }

    /// Sets an extended attribute.
    pub(crate) fn set_attribute(
        &self,
        node: InodeNr,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Result<()> {
        self.volume.set_attribute(node, name, value, mode)
    }

    /// Removes an extended attribute.
    pub(crate) fn remove_attribute(&self, node: InodeNr, name: &[u8]) -> Result<()> {
        self.volume.remove_attribute(node, name)
    }

    /// True if nothing can be changed, from the start or since an error.
    pub(crate) fn is_read_only(&self) -> bool {
        self.volume.is_read_only()
    }

    /// Stops all changes after an internal error.
    pub(crate) fn abort(&self, why: &str) {
        self.volume.abort(why);
    }
}
