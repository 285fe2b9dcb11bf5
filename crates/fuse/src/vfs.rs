//! The operations that a kernel requests of a file system. Numbers are inode numbers of the volume;
//! permissions have been checked.

use std::time::Duration;

use ext::Result;
use ext::volume::{
    Attributes, DeviceNumber, Durability, Entry, FileKind, InodeFlags, NewInode, OpenFlags,
    RangeChange, RenameMode, SetAttributes, SetMode, Usage,
};
use layout::InodeNr;

/// The result of opening a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Handle of the open file.
    pub handle: Handle,
    /// True if the kernel must not cache writes: each has to be durable when it returns (`chattr
    /// +S`), or little space is left.
    pub writes_through: bool,
}

/// A handle of an open file; [`Handle::NONE`] if files are opened without a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle(pub u64);

impl Handle {
    /// No open file: only the node is known.
    pub const NONE: Self = Self(0);
}

/// A range of one file, to be copied to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// Source file.
    pub source: InodeNr,
    /// Offset in the source.
    pub source_offset: u64,
    /// Target file.
    pub target: InodeNr,
    /// Offset in the target.
    pub target_offset: u64,
    /// Length in bytes.
    pub length: u64,
}

/// A file system that a kernel mounts.
///
/// Operations that create or find a node hold it; the kernel later forgets each node as many times
/// as it was returned.
pub trait Vfs: Send + Sync + 'static {
    /// Looks up a name. `.` is the node itself, of any kind, also if the kernel has forgotten it.
    fn look_up(&self, parent: InodeNr, name: &[u8]) -> Result<Attributes>;

    /// Drops `count` references of the kernel to a node.
    fn forget(&self, node: InodeNr, count: u64);

    /// Returns the attributes of a node.
    fn attributes(&self, node: InodeNr) -> Result<Attributes>;

    /// Changes attributes of a node.
    fn set_attributes(&self, node: InodeNr, change: &SetAttributes) -> Result<Attributes>;

    /// Sets the flags of chattr.
    fn set_flags(&self, node: InodeNr, flags: InodeFlags) -> Result<()>;

    /// Returns the target of a symbolic link.
    fn read_link(&self, node: InodeNr) -> Result<Vec<u8>>;

    /// Creates a file, device, fifo or socket.
    fn make_node(
        &self,
        parent: InodeNr,
        name: &[u8],
        kind: FileKind,
        device: DeviceNumber,
        new: &NewInode,
    ) -> Result<Attributes>;

    /// Creates a directory.
    fn make_directory(&self, parent: InodeNr, name: &[u8], new: &NewInode) -> Result<Attributes>;

    /// Creates a symbolic link.
    fn symlink(
        &self,
        parent: InodeNr,
        name: &[u8],
        target: &[u8],
        new: &NewInode,
    ) -> Result<Attributes>;

    /// Adds a directory entry for a node.
    fn link(&self, node: InodeNr, parent: InodeNr, name: &[u8]) -> Result<Attributes>;

    /// Removes a directory entry of a non-directory.
    fn unlink(&self, parent: InodeNr, name: &[u8]) -> Result<()>;

    /// Removes an empty directory.
    fn remove_directory(&self, parent: InodeNr, name: &[u8]) -> Result<()>;

    /// Renames a directory entry.
    fn rename(
        &self,
        parent: InodeNr,
        name: &[u8],
        new_parent: InodeNr,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()>;

    /// Opens a file.
    fn open(&self, node: InodeNr, flags: OpenFlags) -> Result<Opened>;

    /// Creates a file and opens it.
    fn create(
        &self,
        parent: InodeNr,
        name: &[u8],
        new: &NewInode,
        flags: OpenFlags,
    ) -> Result<(Attributes, Opened)>;

    /// True if a file was opened for writing, or if open files are not tracked.
    fn is_writable(&self, handle: Handle) -> bool;

    /// True if a caller may use the blocks reserved for root. `groups` returns all groups of the
    /// caller.
    fn may_use_reserve(&self, uid: u32, groups: &dyn Fn() -> Vec<u32>) -> bool;

    /// Runs `calls` with or without permission to use the reserved blocks.
    fn with_reserve<T>(&self, allowed: bool, calls: impl FnOnce() -> T) -> T;

    /// Closes an open file.
    fn release(&self, handle: Handle) -> Result<()>;

    /// Reads; fewer bytes than requested only at the end of the file.
    fn read(&self, node: InodeNr, offset: u64, into: &mut [u8], is_direct: bool) -> Result<usize>;

    /// Writes; fewer bytes than given only when space runs out, and at least one.
    fn write(
        &self,
        node: InodeNr,
        offset: u64,
        from: &[u8],
        is_direct: bool,
        durability: Durability,
    ) -> Result<usize>;

    /// Makes a file durable, and reports earlier failed writes to the open file.
    fn sync(&self, node: InodeNr, handle: Handle, data_only: bool) -> Result<()>;

    /// Makes a directory durable.
    fn sync_directory(&self, node: InodeNr) -> Result<()>;

    /// Visits a directory's entries from a cookie on, until `visit` returns false.
    fn read_directory(
        &self,
        node: InodeNr,
        cookie: u64,
        visit: &mut dyn FnMut(u64, &Entry) -> bool,
    ) -> Result<()>;

    /// Visits a directory's entries with their nodes' attributes from a cookie on, until `visit`
    /// returns false. `.` and `..` have no attributes here.
    fn read_directory_nodes(
        &self,
        node: InodeNr,
        cookie: u64,
        visit: &mut dyn FnMut(u64, &Entry, Option<&Attributes>) -> bool,
    ) -> Result<()>;

    /// Returns free and used space.
    fn usage(&self) -> Usage;

    /// Allocates, frees or zeroes a range of a file.
    fn change_range(
        &self,
        node: InodeNr,
        offset: u64,
        length: u64,
        what: RangeChange,
        keeps_size: bool,
    ) -> Result<()>;

    /// Returns the first data byte from an offset on; `None` if there is none before the end.
    fn seek_data(&self, node: InodeNr, offset: u64) -> Result<Option<u64>>;

    /// Returns the first byte of a hole from an offset on, the end of the file included; `None`
    /// beyond the end.
    fn seek_hole(&self, node: InodeNr, offset: u64) -> Result<Option<u64>>;

    /// True if the kernel may still cache writes to a file that have not arrived here. For a file
    /// that is not open for writing it has written back everything, mapped memory included, before
    /// it released the last writer.
    fn may_be_behind(&self, node: InodeNr) -> bool;

    /// Copies within the file system. Returns the number of bytes.
    fn copy(&self, copy: Copy) -> Result<u64>;

    /// Returns the value of an extended attribute.
    fn get_attribute(&self, node: InodeNr, name: &[u8]) -> Result<Vec<u8>>;

    /// Returns the names of all extended attributes.
    fn list_attributes(&self, node: InodeNr) -> Result<Vec<Vec<u8>>>;

    /// Sets an extended attribute.
    fn set_attribute(&self, node: InodeNr, name: &[u8], value: &[u8], mode: SetMode) -> Result<()>;

    /// Removes an extended attribute.
    fn remove_attribute(&self, node: InodeNr, name: &[u8]) -> Result<()>;

    /// True if nothing can be changed, from the start or since an error.
    fn is_read_only(&self) -> bool;

    /// Returns the granularity of times.
    fn time_granularity(&self) -> Duration;

    /// Stops all changes after an internal error.
    fn abort(&self, why: &str);
}
