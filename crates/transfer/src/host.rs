//! Files of the host: metadata and extended attributes, read and set.

use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr};
use std::fs::{self, File, Permissions};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, bail};
use block::attributes::list_at;
use ext::volume::{DeviceNumber, FileKind};
use layout::time::InodeTime;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, XattrFlags,
    fremovexattr, fsetxattr, lgetxattr, llistxattr, lremovexattr, lsetxattr,
};
use rustix::io::{Errno, retry_on_intr};

use super::{Node, split_path};

/// The kernel's limit for a list of names and for a value, in bytes.
const ATTRIBUTE_BYTES_MAX: usize = 1 << 16;
/// Buffer size that suffices for the names of most files; the kernel allocates as much memory as
/// the caller offers.
const NAMES_BYTES: usize = 256;

/// Access control lists, as attributes.
const LISTS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

/// The set-user-ID and set-group-ID bits of a mode.
pub const SET_ID: u16 = 0o6000;

/// Attributes that were not copied because they need root, collected for one warning at the end.
#[derive(Debug, Default)]
pub struct LeftOut(BTreeSet<&'static str>);

impl LeftOut {
    /// Returns true if the operation succeeded. If only root may do it, notes `what` and returns
    /// false.
    ///
    /// # Errors
    /// Passes on all other errors.
    pub fn note(&mut self, what: &'static str, result: Result<(), Errno>) -> Result<bool> {
        match result {
            Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) => {
                self.0.insert(what);
                Ok(false)
            }
            other => Ok(other.map(|()| true)?),
        }
    }

    /// Notes the result of setting a copied file's owner, and returns the permissions for the copy.
    /// Without its original owner the copy loses the set-ID bits, because it would run as the
    /// copying user for others.
    ///
    /// # Errors
    /// Fails as [`Self::note`] does.
    pub fn note_owner(&mut self, result: Result<(), Errno>, permissions: u16) -> Result<u16> {
        let is_owned = self.note("owners", result)?;
        if is_owned || permissions & SET_ID == 0 {
            return Ok(permissions);
        }
        self.0.insert("set-ID bits");
        Ok(permissions & !SET_ID)
    }

    /// Returns a warning that lists what was left out, if anything was.
    pub fn text(&self) -> Option<String> {
        let what: Vec<&str> = self.0.iter().copied().collect();
        let text = format!("left out for want of root: {}", what.join(", "));
        (!what.is_empty()).then_some(text)
    }
}

/// Reads extended attributes with one buffer for all files.
pub struct AttributeReader {
    buffer: Vec<u8>,
    /// False if names cannot be listed by directory and name.
    has_list_at: bool,
}

impl Default for AttributeReader {
    fn default() -> Self {
        Self::new()
    }
}

impl AttributeReader {
    /// Returns a reader with a buffer for the largest value.
    pub fn new() -> Self {
        Self {
            buffer: vec![0; ATTRIBUTE_BYTES_MAX],
            has_list_at: true,
        }
    }

    /// Returns all readable attributes, sorted by name.
    ///
    /// # Errors
    /// Fails with the host's error.
    pub fn read(&mut self, path: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let count = self.list(|buffer| llistxattr(path, buffer));
        self.values(count.context("its attributes")?, path)
    }

    /// Returns the attributes of an entry of an open directory, as [`Self::read`] does. `path`
    /// returns a path of the entry for a host without `/proc`.
    pub(crate) fn read_entry(
        &mut self,
        directory: &OwnedFd,
        name: &CStr,
        path: impl FnOnce() -> PathBuf,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let there = || path_of_entry(directory, name).unwrap_or_else(path);
        if !self.has_list_at {
            return self.read(&there());
        }
        match self.list(|buffer| list_at(directory.as_fd(), name, buffer)) {
            Ok(0) => Ok(Vec::new()),
            Ok(count) => self.values(count, &there()),
            // The kernel does not have the call, or a filter of system calls does not know it.
            Err(Errno::NOSYS | Errno::PERM) => {
                self.has_list_at = false;
                self.read(&there())
            }
            Err(error) => Err(error).context("its attributes"),
        }
    }

    /// Fills the buffer with the names of attributes, and returns the number of bytes.
    fn list(&mut self, call: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<usize, Errno> {
        match call(&mut self.buffer[..NAMES_BYTES]) {
            Err(Errno::RANGE) => call(&mut self.buffer),
            Err(Errno::OPNOTSUPP) => Ok(0),
            other => other,
        }
    }

    /// Returns the attributes whose names are the first `count` bytes of the buffer.
    fn values(&mut self, count: usize, path: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let names = self.buffer[..count].split(|byte| *byte == 0);
        let mut names: Vec<Vec<u8>> = names
            .filter(|name| !name.is_empty())
            .map(<[u8]>::to_vec)
            .collect();
        names.sort_unstable();
        let mut attributes = Vec::with_capacity(names.len());
        for name in names {
            let count = match lgetxattr(path, name.as_slice(), &mut self.buffer) {
                Ok(count) => count,
                // The attribute was removed meanwhile, or is a host security name that the file
                // does not have.
                Err(Errno::NODATA | Errno::OPNOTSUPP) => continue,
                Err(error) => {
                    let name = String::from_utf8_lossy(&name).into_owned();
                    return Err(error).context(name);
                }
            };
            attributes.push((name, self.buffer[..count].to_vec()));
        }
        Ok(attributes)
    }
}

/// Returns a path of an entry of an open directory, which stays the same if the directory is moved
/// or replaced; none if there is no `/proc`.
fn path_of_entry(directory: &OwnedFd, name: &CStr) -> Option<PathBuf> {
    static HAS_PROC: OnceLock<bool> = OnceLock::new();
    let open = Path::new("/proc/self/fd");
    HAS_PROC.get_or_init(|| open.exists()).then(|| {
        let directory = open.join(directory.as_raw_fd().to_string());
        directory.join(OsStr::from_bytes(name.to_bytes()))
    })
}

/// A regular file that was scanned, below the root of its tree.
#[derive(Debug, Clone)]
pub(crate) struct ScannedFile {
    /// Path, shared by the parts of a large file that are copied.
    pub(crate) path: Arc<[u8]>,
    /// Device and inode number.
    pub(crate) identity: Option<(u64, u64)>,
}

impl From<&Node> for ScannedFile {
    fn from(node: &Node) -> Self {
        Self {
            path: node.path.as_slice().into(),
            identity: node.identity,
        }
    }
}

/// Opens a regular file below a directory for reading its data. The file was scanned earlier, so
/// the open follows no symbolic link and does not block on a FIFO if the file or a directory on its
/// path was replaced since. Another file in its place is refused: it would get the owner, the mode
/// and the attributes of the scanned one.
pub(crate) fn open_data(root: &Path, file: &ScannedFile) -> Result<OwnedFd> {
    let directory = Tree::open(root)?.place(split_path(&file.path).0)?;
    open_data_in(&directory, file)
}

/// An open directory, to open others below it without following symbolic links.
pub(crate) struct Tree(OwnedFd);

impl Tree {
    /// Opens a directory, whose name may be a symbolic link's.
    pub(crate) fn open(root: &Path) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        retry_on_intr(|| rustix::fs::open(root, flags, Mode::empty())).map(Self)
    }

    /// Opens a directory to find files in it.
    pub(crate) fn place(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.below(path, OFlags::PATH)
    }

    /// Opens a directory to list it.
    pub(crate) fn listing(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.below(path, OFlags::RDONLY)
    }

    fn below(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        let open = || rustix::fs::openat2(&self.0, path, flags, Mode::empty(), resolve);
        match retry_on_intr(open) {
            // Linux before 5.6 or a sandbox has no openat2.
            Err(Errno::NOSYS) => rustix::fs::openat(&self.0, path, flags, Mode::empty()),
            opened => opened,
        }
    }
}

/// Opens a regular file in an open directory, as [`open_data`] does.
pub(crate) fn open_data_in(directory: &OwnedFd, scanned: &ScannedFile) -> Result<OwnedFd> {
    let name = split_path(&scanned.path).1;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = retry_on_intr(|| rustix::fs::openat(directory, name, flags, Mode::empty()))?;
    as_scanned(file, scanned.identity)
}

/// Opens the regular file that is the root of a tree, as [`open_data`] does.
pub(crate) fn open_root(
    root: &Path,
    follows: bool,
    identity: Option<(u64, u64)>,
) -> Result<OwnedFd> {
    let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    flags.set(OFlags::NOFOLLOW, !follows);
    let file = retry_on_intr(|| rustix::fs::open(root, flags, Mode::empty()))?;
    as_scanned(file, identity)
}

/// Returns a file that was opened if it is the scanned one.
fn as_scanned(file: OwnedFd, identity: Option<(u64, u64)>) -> Result<OwnedFd> {
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        bail!("it is no regular file any more");
    }
    let found = (stat.st_dev, stat.st_ino);
    if identity.is_some_and(|identity| identity != found) {
        bail!("another file has replaced it while the tree was read");
    }
    Ok(file)
}

/// A host file whose attributes are set. An open file stays the same one, whatever its name refers
/// to.
#[derive(Debug, Clone, Copy)]
pub enum Target<'f> {
    /// The file with this name; the link itself if the name is a symbolic link's.
    Path(&'f Path),
    /// An open file.
    File(&'f File),
}

/// Sets an extended attribute of a host file.
///
/// # Errors
/// Fails with the host's error.
pub fn set_attribute(at: Target<'_>, name: &[u8], value: &[u8]) -> Result<(), Errno> {
    match at {
        Target::Path(path) => lsetxattr(path, name, value, XattrFlags::empty()),
        Target::File(file) => fsetxattr(file, name, value, XattrFlags::empty()),
    }
}

/// Removes the access control lists that a new file has inherited from its directory, and its
/// source does not have. Symbolic links have none.
///
/// # Errors
/// Fails with the host's error.
pub fn remove_inherited(at: Target<'_>, node: &Node) -> Result<(), Errno> {
    for name in absent_lists(&node.attributes, node.kind) {
        let removed = match at {
            Target::Path(path) => lremovexattr(path, name),
            Target::File(file) => fremovexattr(file, name),
        };
        match removed {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the names of the access control lists that are not among the attributes of a file.
pub fn absent_lists(
    attributes: &[(Vec<u8>, Vec<u8>)],
    kind: FileKind,
) -> impl Iterator<Item = &'static [u8]> {
    let has = |list: &[u8]| attributes.iter().any(|(name, _)| name == list);
    let absent = LISTS.map(|list| (!has(list) && kind != FileKind::Symlink).then_some(list));
    absent.into_iter().flatten()
}

/// Returns the node for a host file's metadata; target, data and attributes are not filled in.
pub(crate) fn node(path: Vec<u8>, stat: &Stat) -> Node {
    let (size, blocks) = (stat.st_size as u64, stat.st_blocks as u64);
    let nanos = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    Node {
        kind: match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FileKind::Regular,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Symlink,
            FileType::CharacterDevice => FileKind::CharacterDevice,
            FileType::BlockDevice => FileKind::BlockDevice,
            FileType::Fifo => FileKind::Fifo,
            _ => FileKind::Socket,
        },
        permissions: (stat.st_mode & 0o7777) as u16,
        uid: stat.st_uid,
        gid: stat.st_gid,
        atime: InodeTime::new(
            stat.st_atime,
            u32::try_from(stat.st_atime_nsec).unwrap_or(0),
        ),
        mtime: InodeTime::new(stat.st_mtime, nanos),
        identity: Some((stat.st_dev, stat.st_ino)),
        links: stat.st_nlink as _,
        size,
        held: size.min(blocks * 512),
        device: DeviceNumber {
            major: rustix::fs::major(stat.st_rdev),
            minor: rustix::fs::minor(stat.st_rdev),
        },
        ..Node::plain_directory(path)
    }
}

/// Returns the node of a host path, without target and attributes; `None` if it does not exist.
///
/// # Errors
/// Fails with the host's error, except for a missing file.
pub fn look(path: &Path, follows: bool) -> Result<Option<Node>> {
    let found = match follows {
        true => rustix::fs::stat(path),
        false => rustix::fs::lstat(path),
    };
    match found {
        Ok(stat) => Ok(Some(node(Vec::new(), &stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Creates a device, FIFO or socket.
///
/// # Errors
/// Fails with the host's error.
pub fn make_node(path: &Path, node: &Node, permissions: u16) -> Result<(), Errno> {
    let kind = FileType::from_raw_mode(u32::from(node.kind.mode()));
    let mode = Mode::from_raw_mode(u32::from(permissions));
    let device = rustix::fs::makedev(node.device.major, node.device.minor);
    rustix::fs::mknodat(CWD, path, kind, mode, device)
}

/// Sets owner and group of a file, or of a symbolic link itself.
///
/// # Errors
/// Fails with the host's error.
pub fn set_owner(at: Target<'_>, node: &Node) -> Result<(), Errno> {
    let (uid, gid) = (Some(node.uid), Some(node.gid));
    let owner = match at {
        Target::Path(path) => std::os::unix::fs::lchown(path, uid, gid),
        Target::File(file) => std::os::unix::fs::fchown(file, uid, gid),
    };
    owner.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Returns the permissions of a copy that does not keep its source's: without set-ID bits and the
/// bits of the umask.
pub fn unpreserved(permissions: u16) -> u16 {
    // The umask can only be read by setting it.
    let umask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    rustix::process::umask(umask);
    permissions & !SET_ID & !(umask.as_raw_mode() as u16)
}

/// Sets the mode of a file; symbolic links have none.
///
/// # Errors
/// Fails with the host's error.
pub fn set_mode(at: Target<'_>, kind: FileKind, permissions: u16) -> Result<()> {
    if kind == FileKind::Symlink {
        return Ok(());
    }
    let permissions = Permissions::from_mode(u32::from(permissions));
    let set = match at {
        Target::Path(path) => fs::set_permissions(path, permissions),
        Target::File(file) => file.set_permissions(permissions),
    };
    Ok(set?)
}

/// Sets the times of a file, or of a symbolic link itself.
///
/// # Errors
/// Fails with the host's error.
pub fn set_times(at: Target<'_>, atime: InodeTime, mtime: InodeTime) -> Result<()> {
    let time = |time: InodeTime| Timespec {
        tv_sec: time.seconds,
        tv_nsec: i64::from(time.nanos),
    };
    let times = Timestamps {
        last_access: time(atime),
        last_modification: time(mtime),
    };
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let set = match at {
        Target::Path(path) => rustix::fs::utimensat(CWD, path, &times, flags),
        Target::File(file) => rustix::fs::futimens(file, &times),
    };
    Ok(set?)
}
