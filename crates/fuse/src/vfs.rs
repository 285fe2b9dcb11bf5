//! What a kernel asks of a file system. Numbers are inode numbers of the volume; permissions have been checked.

use std::time::Duration;

use ext::Result;
use ext::volume::{
    Attributes, DeviceNumber, Durability, Entry, FileKind, InodeFlags, NewInode, OpenFlags,
    RangeChange, RenameMode, SetAttributes, SetMode, Usage,
};
use layout::InodeNr;

/// What opening a file gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The open file.
    pub handle: Handle,
    /// Every write has to come at once: each is to be durable when it returns (`chattr +S`), or little space is left.
    pub writes_through: bool,
}

/// An open file; [`Handle::NONE`] where opening takes no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle(pub u64);

impl Handle {
    /// No file was opened: the node is all there is.
    pub const NONE: Self = Self(0);
}

/// A range of one file, to be copied to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// From this file.
    pub source: InodeNr,
    /// From there.
    pub source_offset: u64,
    /// To this file.
    pub target: InodeNr,
    /// To there.
    pub target_offset: u64,
    /// So many bytes.
    pub length: u64,
}

/// A file system that a kernel mounts.
///
/// What makes or finds a node holds it: the kernel forgets each as often as it was told of it.
pub trait Vfs: Send + Sync + 'static {
    /// Finds a name. `.` is the node itself, of any kind, whether the kernel knows it or not.
    fn look_up(&self, parent: InodeNr, name: &[u8]) -> Result<Attributes>;

    /// The kernel forgets a node so many times.
    fn forget(&self, node: InodeNr, count: u64);

    /// What a node says of itself.
    fn attributes(&self, node: InodeNr) -> Result<Attributes>;

    /// Changes what a node says of itself.
    fn set_attributes(&self, node: InodeNr, change: &SetAttributes) -> Result<Attributes>;

    /// The flags of chattr.
    fn set_flags(&self, node: InodeNr, flags: InodeFlags) -> Result<()>;

    /// A symbolic link's target.
    fn read_link(&self, node: InodeNr) -> Result<Vec<u8>>;

    /// Makes a file, device, fifo or socket.
    fn make_node(
        &self,
        parent: InodeNr,
        name: &[u8],
        kind: FileKind,
        device: DeviceNumber,
        new: &NewInode,
    ) -> Result<Attributes>;

    /// Makes a directory.
    fn make_directory(&self, parent: InodeNr, name: &[u8], new: &NewInode) -> Result<Attributes>;

    /// Makes a symbolic link.
    fn symlink(
        &self,
        parent: InodeNr,
        name: &[u8],
        target: &[u8],
        new: &NewInode,
    ) -> Result<Attributes>;

    /// Gives a node another name.
    fn link(&self, node: InodeNr, parent: InodeNr, name: &[u8]) -> Result<Attributes>;

    /// Takes a name away that is no directory's.
    fn unlink(&self, parent: InodeNr, name: &[u8]) -> Result<()>;

    /// Takes an empty directory away.
    fn remove_directory(&self, parent: InodeNr, name: &[u8]) -> Result<()>;

    /// Moves a name.
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

    /// Makes a file and opens it.
    fn create(
        &self,
        parent: InodeNr,
        name: &[u8],
        new: &NewInode,
        flags: OpenFlags,
    ) -> Result<(Attributes, Opened)>;

    /// Returns true if a file was opened for writing, or if nothing is known of it.
    fn is_writable(&self, handle: Handle) -> bool;

    /// Returns true if a caller may use the blocks that are reserved for root. `groups` finds all groups of the caller.
    fn may_use_reserve(&self, uid: u32, groups: &dyn Fn() -> Vec<u32>) -> bool;

    /// Makes calls for a caller that may use the reserved blocks, or may not.
    fn with_reserve<T>(&self, allowed: bool, calls: impl FnOnce() -> T) -> T;

    /// Closes an open file.
    fn release(&self, handle: Handle) -> Result<()>;

    /// Reads; fewer bytes than asked only at the end.
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

    /// Makes a file durable; tells the open file of writes that have failed.
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

    /// Visits a directory's entries with what they name, from a cookie on, until `visit` returns false. `.` and `..` have no
    /// attributes here.
    fn read_directory_nodes(
        &self,
        node: InodeNr,
        cookie: u64,
        visit: &mut dyn FnMut(u64, &Entry, Option<&Attributes>) -> bool,
    ) -> Result<()>;

    /// Free and used space.
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

    /// The first byte of data from an offset on; none if there is none before the end.
    fn seek_data(&self, node: InodeNr, offset: u64) -> Result<Option<u64>>;

    /// The first byte of a hole from an offset on, where the end is one; none from the end on.
    fn seek_hole(&self, node: InodeNr, offset: u64) -> Result<Option<u64>>;

    /// Whether the kernel may keep something that was written to a file and has not come here yet. What nobody has open for writing
    /// it has passed on, mapped memory included, before it told of the end of that.
    fn may_be_behind(&self, node: InodeNr) -> bool;

    /// Copies within the file system; how many bytes.
    fn copy(&self, copy: Copy) -> Result<u64>;

    /// The value of an extended attribute.
    fn get_attribute(&self, node: InodeNr, name: &[u8]) -> Result<Vec<u8>>;

    /// The names of all extended attributes.
    fn list_attributes(&self, node: InodeNr) -> Result<Vec<Vec<u8>>>;

    /// Sets an extended attribute.
    fn set_attribute(&self, node: InodeNr, name: &[u8], value: &[u8], mode: SetMode) -> Result<()>;

    /// Takes an extended attribute away.
    fn remove_attribute(&self, node: InodeNr, name: &[u8]) -> Result<()>;

    /// Whether nothing can be changed, from the beginning or since an error.
    fn is_read_only(&self) -> bool;

    /// How finely times are kept.
    fn time_granularity(&self) -> Duration;

    /// Stops all changes, after something that must not happen.
    fn abort(&self, why: &str);
}
