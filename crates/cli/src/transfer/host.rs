//! Extended attributes of the host's files, and what its files are.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use anyhow::{Context, Result};
use ext::volume::{DeviceNumber, FileKind};
use layout::time::InodeTime;
use rustix::fs::{FileType, Stat, XattrFlags, lgetxattr, llistxattr, lremovexattr, lsetxattr};
use rustix::io::Errno;

use super::Node;
use crate::output;

/// The most that the kernel gives of names, or of a value.
const ATTRIBUTE_BYTES_MAX: usize = 1 << 16;
/// Room for the names that most files have: the kernel takes as much memory as it is offered.
const NAMES_BYTES: usize = 256;

/// The set-user-ID and set-group-ID bits of a mode.
pub(crate) const SET_ID: u16 = 0o6000;

/// What was left out since only root may do it, for one warning at the end.
#[derive(Default)]
pub(crate) struct LeftOut(BTreeSet<&'static str>);

impl LeftOut {
    /// Passes on a result: true if it was done. What only root may do is noted and left out.
    pub(crate) fn note(&mut self, what: &'static str, result: Result<(), Errno>) -> Result<bool> {
        match result {
            Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) => {
                self.0.insert(what);
                Ok(false)
            }
            other => Ok(other.map(|()| true)?),
        }
    }

    /// Notes the owner of a file that is being copied, and returns the permissions that the copy gets. A file that stays its
    /// copier's does not run as the copier for others.
    pub(crate) fn note_owner(
        &mut self,
        result: Result<(), Errno>,
        permissions: u16,
    ) -> Result<u16> {
        let is_owned = self.note("owners", result)?;
        if is_owned || permissions & SET_ID == 0 {
            return Ok(permissions);
        }
        self.0.insert("set-ID bits");
        Ok(permissions & !SET_ID)
    }

    /// Warns of what was left out.
    pub(crate) fn warn(&self) {
        if !self.0.is_empty() {
            let what: Vec<&str> = self.0.iter().copied().collect();
            output::warn(&format!("left out for want of root: {}", what.join(", ")));
        }
    }
}

/// Reads attributes with one buffer for all files.
pub(crate) struct AttributeReader {
    buffer: Vec<u8>,
}

impl AttributeReader {
    pub(crate) fn new() -> Self {
        Self {
            buffer: vec![0; ATTRIBUTE_BYTES_MAX],
        }
    }

    /// All attributes that may be read, sorted by name.
    pub(crate) fn read(&mut self, path: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let few = llistxattr(path, &mut self.buffer[..NAMES_BYTES]);
        let count = match few {
            Err(Errno::RANGE) => llistxattr(path, &mut self.buffer),
            other => other,
        };
        let count = match count {
            Ok(count) => count,
            Err(Errno::OPNOTSUPP) => 0,
            Err(error) => return Err(error).context("its attributes"),
        };
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
                // Gone meanwhile, or a name of the host's security that is no attribute of the file.
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

/// Sets an attribute of a host's file.
pub(crate) fn set_attribute(path: &Path, name: &[u8], value: &[u8]) -> Result<(), Errno> {
    lsetxattr(path, name, value, XattrFlags::empty())
}

/// Removes an attribute of a host's file.
pub(crate) fn remove_attribute(path: &Path, name: &[u8]) -> Result<(), Errno> {
    lremovexattr(path, name)
}

/// What a file of the host is; target, data and attributes are still missing.
pub(super) fn node(path: Vec<u8>, stat: &Stat) -> Node {
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
        mtime: InodeTime::new(stat.st_mtime, nanos),
        size,
        held: size.min(blocks * 512),
        device: DeviceNumber {
            major: rustix::fs::major(stat.st_rdev),
            minor: rustix::fs::minor(stat.st_rdev),
        },
        ..Node::plain_directory(path)
    }
}

/// What something on the host is.
pub(crate) fn kind(metadata: &Metadata) -> FileKind {
    let file_type = metadata.file_type();
    let kinds = [
        (file_type.is_file(), FileKind::Regular),
        (file_type.is_dir(), FileKind::Directory),
        (file_type.is_symlink(), FileKind::Symlink),
        (file_type.is_char_device(), FileKind::CharacterDevice),
        (file_type.is_block_device(), FileKind::BlockDevice),
        (file_type.is_fifo(), FileKind::Fifo),
    ];
    let kind = kinds.into_iter().find(|(is, _)| *is);
    kind.map_or(FileKind::Socket, |(_, kind)| kind)
}
