//! One set of operations, done by the volume or by the kernel, and the trees that both report.

use std::collections::BTreeMap;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use ext::volume::{DeviceNumber, FileKind, NewInode, SetAttributes, SetMode};
use ext::{Error, Volume};
use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lremovexattr, lsetxattr};
use rustix::io::Errno;
use testkit::Mount;

/// Kind, permissions and attributes of each path.
pub type Tree = BTreeMap<String, (char, u16, BTreeMap<String, Vec<u8>>)>;

/// An operation.
#[derive(Debug)]
pub enum Op {
    Set {
        path: String,
        name: &'static str,
        value: Vec<u8>,
        mode: SetMode,
    },
    Remove {
        path: String,
        name: &'static str,
    },
    Chmod {
        path: String,
        mode: u16,
    },
    /// Creates a file of the kind that the path's name encodes: a directory, a link, a node, else a
    /// file.
    Make {
        path: String,
        mode: u16,
    },
    Delete {
        path: String,
    },
}

/// The outcome, in terms common to both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done,
    NoSpace,
    NoAttribute,
    Exists,
    NotFound,
    NotEmpty,
    NotPermitted,
    Invalid,
    Unsupported,
}

/// The side that runs an operation.
pub enum Side<'s> {
    Ours(&'s Volume),
    Kernel(&'s Mount),
}

/// Parses a list into the form of programs: `u:7 u1000:5 g:5 m:5 o:1`.
pub fn list(text: &str) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0];
    for word in text.split(' ') {
        let (who, permissions) = word.split_once(':').expect("a colon");
        let (letter, id) = who.split_at(1);
        let tag: u16 = match (letter, id) {
            ("u", "") => 1,
            ("u", _) => 2,
            ("g", "") => 4,
            ("g", _) => 8,
            ("m", "") => 16,
            _ => 32,
        };
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.parse::<u16>().expect("a number").to_le_bytes());
        bytes.extend(id.parse::<u32>().unwrap_or(u32::MAX).to_le_bytes());
    }
    bytes
}

fn kind_of(path: &str) -> FileKind {
    match path {
        "/d" | "/g" => FileKind::Directory,
        "/link" => FileKind::Symlink,
        "/node" => FileKind::Fifo,
        _ => FileKind::Regular,
    }
}

/// Returns the umask of this process, which the kernel applies and which is passed to the volume.
fn umask() -> u16 {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    u16::from_str_radix(line.expect("Linux tells it").trim(), 8).expect("octal")
}

impl Side<'_> {
    /// Applies an operation.
    pub fn apply(&self, op: &Op) -> Outcome {
        match self {
            Self::Ours(volume) => match ours(volume, op) {
                Ok(()) => Outcome::Done,
                Err(
                    Error::NoSpace
                    | Error::NoInodes
                    | Error::AttributeTooLarge
                    | Error::DirectoryFull,
                ) => Outcome::NoSpace,
                Err(Error::NoAttribute) => Outcome::NoAttribute,
                Err(Error::Exists) => Outcome::Exists,
                Err(Error::NotFound | Error::NotDirectory) => Outcome::NotFound,
                Err(Error::NotEmpty) => Outcome::NotEmpty,
                Err(Error::NotPermitted) => Outcome::NotPermitted,
                Err(Error::Invalid(_)) => Outcome::Invalid,
                Err(Error::Unsupported(_)) => Outcome::Unsupported,
                Err(error) => panic!("{op:?}: {error}"),
            },
            Self::Kernel(mount) => match kernel(mount, op) {
                Ok(()) => Outcome::Done,
                Err(Errno::NOSPC) => Outcome::NoSpace,
                Err(Errno::NODATA) => Outcome::NoAttribute,
                Err(Errno::EXIST) => Outcome::Exists,
                Err(Errno::NOENT | Errno::NOTDIR) => Outcome::NotFound,
                Err(Errno::NOTEMPTY) => Outcome::NotEmpty,
                Err(Errno::PERM) => Outcome::NotPermitted,
                // A default ACL on an inode that is no directory.
                Err(Errno::INVAL | Errno::ACCESS) => Outcome::Invalid,
                Err(Errno::OPNOTSUPP) => Outcome::Unsupported,
                Err(error) => panic!("{op:?}: {error}"),
            },
        }
    }

    /// Returns the tree, except `lost+found`.
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        match self {
            Self::Ours(volume) => walk_ours(volume, "", &mut tree),
            Self::Kernel(mount) => walk_kernel(mount, "", &mut tree),
        }
        tree
    }
}

fn ours(volume: &Volume, op: &Op) -> Result<(), Error> {
    match op {
        Op::Set {
            path,
            name,
            value,
            mode,
        } => volume.set_attribute(volume.resolve(path, false)?, name.as_bytes(), value, *mode),
        Op::Remove { path, name } => {
            volume.remove_attribute(volume.resolve(path, false)?, name.as_bytes())
        }
        Op::Chmod { path, mode } => {
            let nr = volume.resolve(path, false)?;
            if kind_of(path) == FileKind::Symlink {
                return Ok(());
            }
            let change = SetAttributes {
                permissions: Some(*mode),
                ..SetAttributes::default()
            };
            volume.set_attributes(nr, &change)
        }
        Op::Make { path, mode } => {
            let (parent, name) = volume.resolve_parent(path)?;
            // Set-id bits of new directories are cleared before a file system sees them.
            let set_id = if kind_of(path) == FileKind::Directory {
                0o6000
            } else {
                0
            };
            let new = NewInode {
                permissions: *mode & !set_id,
                umask: umask(),
                ..NewInode::default()
            };
            match kind_of(path) {
                FileKind::Directory => volume.make_directory(parent, name, &new),
                FileKind::Symlink => volume.symlink(parent, name, b"target", &new),
                FileKind::Regular => volume.create(parent, name, &new),
                kind => volume.make_node(parent, name, kind, DeviceNumber::default(), &new),
            }
            .map(drop)
        }
        Op::Delete { path } => {
            let (parent, name) = volume.resolve_parent(path)?;
            volume.resolve(path, false)?;
            match kind_of(path) {
                FileKind::Directory => volume.remove_directory(parent, name),
                _ => volume.unlink(parent, name),
            }
        }
    }
}

fn kernel(mount: &Mount, op: &Op) -> Result<(), Errno> {
    let of_io = |error: std::io::Error| Errno::from_io_error(&error).expect("the kernel's error");
    match op {
        Op::Set {
            path,
            name,
            value,
            mode,
        } => {
            let flags = match mode {
                SetMode::Any => XattrFlags::empty(),
                SetMode::Create => XattrFlags::CREATE,
                SetMode::Replace => XattrFlags::REPLACE,
            };
            lsetxattr(mount.at(path), *name, value, flags)
        }
        Op::Remove { path, name } => lremovexattr(mount.at(path), *name),
        Op::Chmod { path, mode } => {
            let at = mount.at(path);
            at.symlink_metadata().map_err(of_io)?;
            if kind_of(path) == FileKind::Symlink {
                return Ok(());
            }
            let permissions = std::fs::Permissions::from_mode(u32::from(*mode));
            std::fs::set_permissions(at, permissions).map_err(of_io)
        }
        Op::Make { path, mode } => make(&mount.at(path), kind_of(path), u32::from(*mode)),
        Op::Delete { path } => {
            let at = mount.at(path);
            at.symlink_metadata().map_err(of_io)?;
            match kind_of(path) {
                FileKind::Directory => std::fs::remove_dir(at).map_err(of_io),
                _ => std::fs::remove_file(at).map_err(of_io),
            }
        }
    }
}

fn make(at: &Path, kind: FileKind, mode: u32) -> Result<(), Errno> {
    let made = match kind {
        FileKind::Directory => std::fs::DirBuilder::new().mode(mode).create(at),
        FileKind::Symlink => std::os::unix::fs::symlink("target", at),
        FileKind::Regular => {
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create_new(true).mode(mode);
            options.open(at).map(drop)
        }
        _ => {
            let kind = rustix::fs::FileType::Fifo;
            let mode = rustix::fs::Mode::from_raw_mode(mode);
            return rustix::fs::mknodat(rustix::fs::CWD, at, kind, mode, 0);
        }
    };
    made.map_err(|error| Errno::from_io_error(&error).expect("the kernel's error"))
}

fn letter(path: &str) -> char {
    match kind_of(path) {
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::Fifo => 'p',
        _ => '-',
    }
}

fn walk_ours(volume: &Volume, path: &str, tree: &mut Tree) {
    for entry in volume.list(&format!("{path}/")).expect("readdir") {
        let name = String::from_utf8(entry.name).expect("text");
        if name == "lost+found" {
            continue;
        }
        let (path, nr) = (format!("{path}/{name}"), entry.inode);
        let names = volume.list_attributes(nr).expect("list").into_iter();
        let attributes = names.map(|name| {
            let value = volume.get_attribute(nr, &name).expect("it was listed");
            (String::from_utf8(name).expect("text"), value)
        });
        let attributes = attributes.collect();
        let permissions = volume.attributes(nr).expect("stat").permissions;
        tree.insert(path.clone(), (letter(&path), permissions, attributes));
        if kind_of(&path) == FileKind::Directory {
            walk_ours(volume, &path, tree);
        }
    }
}

fn walk_kernel(mount: &Mount, path: &str, tree: &mut Tree) {
    for entry in std::fs::read_dir(mount.at(path)).expect("readdir") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_str().expect("text");
        if name == "lost+found" {
            continue;
        }
        let path = format!("{path}/{name}");
        let at = mount.at(&path);
        let mut names = vec![0; 1 << 16];
        let count = llistxattr(&at, &mut names).expect("list");
        let names = names[..count].split(|byte| *byte == 0);
        let attributes = names.filter(|name| !name.is_empty()).map(|name| {
            let mut value = vec![0; 1 << 16];
            let count = lgetxattr(&at, name, &mut value).expect("it was listed");
            value.truncate(count);
            (String::from_utf8(name.to_vec()).expect("text"), value)
        });
        let attributes = attributes.collect();
        let mode = at.symlink_metadata().expect("stat").mode();
        tree.insert(
            path.clone(),
            (letter(&path), (mode & 0o7777) as u16, attributes),
        );
        if kind_of(&path) == FileKind::Directory {
            walk_kernel(mount, &path, tree);
        }
    }
}
