//! [`VolumeTarget`]: an open volume as a target for workloads.
//!
//! The volume itself accounts for the cost of system calls and host work; this file adds none. It
//! caches parent directories by path, as a kernel's dentry cache does, so that a path in a known
//! directory costs one lookup.

use std::collections::BTreeMap;
use std::ops::Bound;

use ext::volume::{
    Attributes, FileId, FileKind as ExtKind, InodeFlags as ExtFlags, NewInode,
    OpenFlags as ExtOpenFlags, RenameMode, SetAttributes, SetTime,
};
use ext::{Error, Volume};
use layout::InodeNr;
use layout::time::InodeTime;
use rt::{RwLock, WallTime};
use workload::{
    DirectoryEntry, ErrorKind, Extent, FileKind, InodeFlags, OpenFile, OpenFlags, Operation, Space,
    Stat, Target, TargetError,
};

/// Unit of the space in attributes, independent of the block size.
const SECTOR_BYTES: u64 = 512;

/// A target over a volume; see the module documentation.
pub struct VolumeTarget {
    volume: Volume,
    name: String,
    known: RwLock<Known>, // a leaf
}

/// Directories that were looked up.
#[derive(Default)]
struct Known {
    /// By their paths without slashes at the ends. Cleared whenever one of the paths may lead
    /// elsewhere.
    directories: BTreeMap<String, InodeNr>,
    /// True if one of the paths may lead through a symbolic link.
    has_links: bool,
}

impl Known {
    /// Returns true if what happens to the last name of a path may change where a path leads.
    fn is_affected_by(&self, path: &str) -> bool {
        let path = path.trim_matches('/');
        // Directories are known by their paths as they were spelled.
        let is_odd = path.split('/').any(|name| matches!(name, "" | "." | ".."));
        let from = (Bound::Included(path), Bound::Unbounded);
        let known = self.directories.range::<str, _>(from);
        let mut similar = known
            .map(|(known, _)| known)
            .take_while(|known| known.starts_with(path));
        let is_at_or_below = |known: &String| {
            let rest = &known[path.len()..];
            rest.is_empty() || rest.starts_with('/')
        };
        self.has_links || is_odd || similar.any(is_at_or_below)
    }
}

/// An open file of this target.
struct VolumeFile {
    id: FileId,
    path: String,
    position: Position,
    append: bool,
}

/// The position of the next read or write.
#[derive(Clone, Copy)]
enum Position {
    At(u64),
    /// At the end of file, after an appending write.
    End,
}

impl VolumeTarget {
    /// Creates a target that owns a volume. `name` is its name in messages.
    #[must_use]
    pub fn new(volume: Volume, name: impl Into<String>) -> Self {
        Self {
            volume,
            name: name.into(),
            known: RwLock::default(),
        }
    }

    /// Returns the volume.
    #[must_use]
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Returns the volume, for closing.
    #[must_use]
    pub fn into_volume(self) -> Volume {
        self.volume
    }

    /// Returns the directory of a path, and the name within it.
    fn split<'p>(
        &self,
        operation: Operation,
        path: &'p str,
    ) -> Result<(InodeNr, &'p [u8]), TargetError> {
        let trimmed = check(operation, path)?;
        let (parent, name) = match trimmed.rfind('/') {
            Some(at) => (trimmed[..at].trim_end_matches('/'), &trimmed[at + 1..]),
            None => ("", trimmed),
        };
        if name.is_empty() || name == "." {
            let cause = "the path has no last name";
            return Err(TargetError::new(operation, path, ErrorKind::Invalid, cause));
        }
        Ok((
            self.directory(parent)
                .map_err(|error| failure(operation, path, &error))?,
            name.as_bytes(),
        ))
    }

    fn directory(&self, path: &str) -> Result<InodeNr, Error> {
        self.known_directory(path).map(|(nr, _)| nr)
    }

    /// Returns a directory, and false if the path may lead through a symbolic link.
    fn known_directory(&self, path: &str) -> Result<(InodeNr, bool), Error> {
        if path.is_empty() {
            return Ok((InodeNr::ROOT, true));
        }
        let known = self.known.read();
        if let Some(nr) = known.directories.get(path) {
            return Ok((*nr, !known.has_links));
        }
        drop(known);
        let (nr, is_plain) = self.find_directory(path)?;
        let mut known = self.known.write();
        known.directories.insert(path.to_owned(), nr);
        known.has_links |= !is_plain;
        Ok((nr, is_plain))
    }

    /// Looks up a directory that is not known.
    fn find_directory(&self, path: &str) -> Result<(InodeNr, bool), Error> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        if !matches!(name, "" | "." | "..") {
            let (above, is_plain) = self.known_directory(above)?;
            let nr = self.volume.lookup(above, name.as_bytes())?;
            if self.volume.attributes(nr)?.kind == ExtKind::Directory {
                return Ok((nr, is_plain));
            }
        }
        let nr = self.volume.resolve(path, true)?;
        Ok((nr, false))
    }

    /// Forgets the directories if a change of the last name of a path may concern one of them.
    fn forget_affected(&self, path: &str) {
        if self.known.read().is_affected_by(path) {
            *self.known.write() = Known::default();
        }
    }

    /// Returns the inode of a path without following a symbolic link at its end.
    fn resolve(&self, operation: Operation, path: &str) -> Result<InodeNr, TargetError> {
        if check(operation, path)?.is_empty() {
            return Ok(InodeNr::ROOT);
        }
        let (parent, name) = self.split(operation, path)?;
        self.volume
            .lookup(parent, name)
            .map_err(|error| failure(operation, path, &error))
    }

    /// Returns the inode of a path, and true if it is new.
    fn open_inode(&self, path: &str, flags: OpenFlags) -> Result<(InodeNr, bool), TargetError> {
        let failed = |error: Error| failure(Operation::Open, path, &error);
        let (parent, name) = self.split(Operation::Open, path)?;
        match self.volume.lookup(parent, name) {
            Ok(_) if flags.create && flags.exclusive => Err(failed(Error::Exists)),
            Err(Error::NotFound) if flags.create => self
                .volume
                .create(parent, name, &NewInode::default())
                .map(|nr| (nr, true))
                .map_err(failed),
            found => found.map(|nr| (nr, false)).map_err(failed),
        }
    }
}

impl VolumeFile {
    fn of(file: &OpenFile, operation: Operation) -> Result<&Self, TargetError> {
        file.get()
            .ok_or_else(|| TargetError::foreign_file(operation))
    }

    fn of_mut(file: &mut OpenFile, operation: Operation) -> Result<&mut Self, TargetError> {
        file.get_mut()
            .ok_or_else(|| TargetError::foreign_file(operation))
    }

    /// Returns the position as a number.
    fn offset(&self, volume: &Volume) -> Result<u64, Error> {
        match self.position {
            Position::At(offset) => Ok(offset),
            Position::End => Ok(volume.attributes(volume.inode_of(self.id)?)?.size),
        }
    }
}

impl Target for VolumeTarget {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn open(&self, path: &str, flags: OpenFlags) -> Result<OpenFile, TargetError> {
        let (nr, is_new) = self.open_inode(path, flags)?;
        let ext_flags = ExtOpenFlags {
            read: flags.read,
            write: flags.write || flags.append,
            append: flags.append,
            truncate: flags.truncate && !is_new,
            sync: flags.sync,
            data_sync: flags.data_sync,
            direct: flags.direct,
        };
        let id = self.volume.open_inode(nr, ext_flags);
        let id = id.map_err(|error| failure(Operation::Open, path, &error))?;
        let position = Position::At(0);
        Ok(OpenFile::new(VolumeFile {
            id,
            path: path.to_owned(),
            position,
            append: flags.append,
        }))
    }

    fn close(&self, file: OpenFile) -> Result<(), TargetError> {
        let own = file.into_inner::<VolumeFile>();
        let own = own.ok_or_else(|| TargetError::foreign_file(Operation::Close))?;
        self.volume
            .release(own.id)
            .map_err(|error| failure(Operation::Close, &own.path, &error))
    }

    fn read(&self, file: &mut OpenFile, buffer: &mut [u8]) -> Result<usize, TargetError> {
        let own = VolumeFile::of_mut(file, Operation::Read)?;
        let failed = |error: Error| failure(Operation::Read, &own.path, &error);
        let offset = own.offset(&self.volume).map_err(failed)?;
        let count = self.volume.read(own.id, offset, buffer).map_err(failed)?;
        own.position = Position::At(offset + count as u64);
        Ok(count)
    }

    fn write(&self, file: &mut OpenFile, data: &[u8]) -> Result<usize, TargetError> {
        let own = VolumeFile::of_mut(file, Operation::Write)?;
        let failed = |error: Error| failure(Operation::Write, &own.path, &error);
        if own.append {
            let count = self.volume.write(own.id, 0, data).map_err(failed)?;
            own.position = Position::End;
            return Ok(count);
        }
        let offset = own.offset(&self.volume).map_err(failed)?;
        let count = self.volume.write(own.id, offset, data).map_err(failed)?;
        own.position = Position::At(offset + count as u64);
        Ok(count)
    }

    fn seek(&self, file: &mut OpenFile, offset: u64) -> Result<(), TargetError> {
        VolumeFile::of_mut(file, Operation::Seek)?.position = Position::At(offset);
        Ok(())
    }

    fn pread(&self, file: &OpenFile, buffer: &mut [u8], offset: u64) -> Result<usize, TargetError> {
        let own = VolumeFile::of(file, Operation::Pread)?;
        let read = self.volume.read(own.id, offset, buffer);
        read.map_err(|error| failure(Operation::Pread, &own.path, &error))
    }

    fn pwrite(&self, file: &OpenFile, data: &[u8], offset: u64) -> Result<usize, TargetError> {
        let own = VolumeFile::of(file, Operation::Pwrite)?;
        let written = self.volume.write(own.id, offset, data);
        written.map_err(|error| failure(Operation::Pwrite, &own.path, &error))
    }

    fn fsync(&self, file: &OpenFile) -> Result<(), TargetError> {
        let own = VolumeFile::of(file, Operation::Fsync)?;
        let synced = self.volume.sync_file(own.id, false);
        synced.map_err(|error| failure(Operation::Fsync, &own.path, &error))
    }

    fn fdatasync(&self, file: &OpenFile) -> Result<(), TargetError> {
        let own = VolumeFile::of(file, Operation::Fdatasync)?;
        let synced = self.volume.sync_file(own.id, true);
        synced.map_err(|error| failure(Operation::Fdatasync, &own.path, &error))
    }

    fn fsync_directory(&self, path: &str) -> Result<(), TargetError> {
        let operation = Operation::FsyncDirectory;
        let nr = self.resolve(operation, path)?;
        self.volume
            .sync_directory(nr)
            .map_err(|error| failure(operation, path, &error))
    }

    fn truncate(&self, path: &str, size: u64) -> Result<(), TargetError> {
        let nr = self.resolve(Operation::Truncate, path)?;
        let change = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        let changed = self.volume.set_attributes(nr, &change);
        changed.map_err(|error| failure(Operation::Truncate, path, &error))
    }

    fn unlink(&self, path: &str) -> Result<(), TargetError> {
        let (parent, name) = self.split(Operation::Unlink, path)?;
        let unlinked = self.volume.unlink(parent, name);
        self.forget_affected(path);
        unlinked.map_err(|error| failure(Operation::Unlink, path, &error))
    }

    fn mkdir(&self, path: &str) -> Result<(), TargetError> {
        let (parent, name) = self.split(Operation::Mkdir, path)?;
        let new = NewInode {
            permissions: 0o755,
            ..NewInode::default()
        };
        let made = self.volume.make_directory(parent, name, &new);
        made.map(drop)
            .map_err(|error| failure(Operation::Mkdir, path, &error))
    }

    fn rmdir(&self, path: &str) -> Result<(), TargetError> {
        let (parent, name) = self.split(Operation::Rmdir, path)?;
        let removed = self.volume.remove_directory(parent, name);
        self.forget_affected(path);
        removed.map_err(|error| failure(Operation::Rmdir, path, &error))
    }

    fn rename(&self, old: &str, new: &str) -> Result<(), TargetError> {
        let (parent, name) = self.split(Operation::Rename, old)?;
        let (new_parent, new_name) = self.split(Operation::Rename, new)?;
        let renamed = self
            .volume
            .rename(parent, name, new_parent, new_name, RenameMode::Replace);
        self.forget_affected(old);
        self.forget_affected(new);
        renamed.map_err(|error| failure(Operation::Rename, old, &error))
    }

    fn link(&self, existing: &str, new: &str) -> Result<(), TargetError> {
        let nr = self.resolve(Operation::Link, existing)?;
        let (parent, name) = self.split(Operation::Link, new)?;
        let linked = self.volume.link(nr, parent, name);
        linked.map_err(|error| failure(Operation::Link, new, &error))
    }

    fn symlink(&self, contents: &str, path: &str) -> Result<(), TargetError> {
        let (parent, name) = self.split(Operation::Symlink, path)?;
        let new = NewInode {
            permissions: 0o777,
            ..NewInode::default()
        };
        let made = self.volume.symlink(parent, name, contents.as_bytes(), &new);
        made.map(drop)
            .map_err(|error| failure(Operation::Symlink, path, &error))
    }

    fn read_link(&self, path: &str) -> Result<String, TargetError> {
        let nr = self.resolve(Operation::ReadLink, path)?;
        let contents = self.volume.read_link(nr);
        let contents = contents.map_err(|error| failure(Operation::ReadLink, path, &error))?;
        Ok(String::from_utf8_lossy(&contents).into_owned())
    }

    fn stat(&self, path: &str) -> Result<Stat, TargetError> {
        let nr = self.resolve(Operation::Stat, path)?;
        let attributes = self.volume.attributes(nr);
        let attributes = attributes.map_err(|error| failure(Operation::Stat, path, &error))?;
        Ok(stat_of(&attributes))
    }

    fn stat_open(&self, file: &OpenFile) -> Result<Stat, TargetError> {
        let own = VolumeFile::of(file, Operation::StatOpen)?;
        let nr = self.volume.inode_of(own.id);
        let attributes = nr.and_then(|nr| self.volume.attributes(nr));
        let attributes =
            attributes.map_err(|error| failure(Operation::StatOpen, &own.path, &error))?;
        Ok(stat_of(&attributes))
    }

    fn set_times(
        &self,
        path: &str,
        accessed: WallTime,
        modified: WallTime,
    ) -> Result<(), TargetError> {
        let nr = self.resolve(Operation::SetTimes, path)?;
        let time = |time: WallTime| SetTime::At(InodeTime::new(time.seconds, time.nanos));
        let change = SetAttributes {
            atime: Some(time(accessed)),
            mtime: Some(time(modified)),
            ..SetAttributes::default()
        };
        let changed = self.volume.set_attributes(nr, &change);
        changed.map_err(|error| failure(Operation::SetTimes, path, &error))
    }

    fn space(&self) -> Result<Space, TargetError> {
        let usage = self.volume.usage();
        let block_bytes = u64::from(usage.block_bytes);
        Ok(Space {
            total: usage.blocks * block_bytes,
            free: usage.blocks_available * block_bytes,
        })
    }

    fn readdir(&self, path: &str) -> Result<Vec<DirectoryEntry>, TargetError> {
        let failed = |error: Error| failure(Operation::Readdir, path, &error);
        let nr = self.resolve(Operation::Readdir, path)?;
        let mut found = Vec::new();
        let listed = self.volume.read_directory(nr, 0, &mut |_, entry| {
            if entry.name != b"." && entry.name != b".." {
                found.push(entry);
            }
            true
        });
        listed.map_err(failed)?;
        let entries = found.into_iter().map(|entry| {
            let kind = match entry.kind {
                Some(kind) => kind,
                None => self.volume.attributes(entry.inode).map_err(failed)?.kind,
            };
            Ok(DirectoryEntry {
                name: String::from_utf8_lossy(&entry.name).into_owned(),
                inode: u64::from(entry.inode.get()),
                kind: kind_of(kind),
            })
        });
        entries.collect()
    }

    fn set_flags(&self, path: &str, flags: InodeFlags) -> Result<(), TargetError> {
        let operation = Operation::SetFlags;
        let failed = |error: Error| failure(operation, path, &error);
        let nr = self.resolve(operation, path)?;
        let mut wanted = self.volume.attributes(nr).map_err(failed)?.flags;
        wanted.set(ExtFlags::SYNC, flags.sync);
        wanted.set(ExtFlags::DIRSYNC, flags.directory_sync);
        wanted.set(ExtFlags::JOURNAL_DATA, flags.journal_data);
        let change = SetAttributes {
            flags: Some(wanted),
            ..SetAttributes::default()
        };
        self.volume.set_attributes(nr, &change).map_err(failed)
    }

    fn extents(&self, path: &str) -> Result<Vec<Extent>, TargetError> {
        let failed = |error: Error| failure(Operation::Extents, path, &error);
        let nr = self.resolve(Operation::Extents, path)?;
        let block_bytes = u64::from(self.volume.superblock().geometry.block_bytes);
        let blocks = self.volume.blocks_of(nr).map_err(failed)?;
        // Merges extents that are contiguous in the file and on the device; the engine splits them
        // at indirect blocks.
        let mut extents: Vec<Extent> = Vec::new();
        for mapped in blocks {
            let Some(file_block) = mapped.file_block else {
                continue;
            };
            let next = Extent {
                offset: file_block.get() * block_bytes,
                place: mapped.first.get() * block_bytes,
                length: u64::from(mapped.count) * block_bytes,
            };
            match extents.last_mut() {
                Some(last)
                    if last.offset + last.length == next.offset
                        && last.place + last.length == next.place =>
                {
                    last.length += next.length;
                }
                _ => extents.push(next),
            }
        }
        Ok(extents)
    }

    fn sync(&self) -> Result<(), TargetError> {
        self.volume
            .sync()
            .map_err(|error| failure(Operation::Sync, "", &error))
    }
}

/// Strips the slashes at the ends of a path; rejects `..`.
fn check(operation: Operation, path: &str) -> Result<&str, TargetError> {
    if path.split('/').any(|part| part == "..") {
        let cause = "`..` is not allowed in a path";
        return Err(TargetError::new(operation, path, ErrorKind::BadName, cause));
    }
    Ok(path.trim_matches('/'))
}

fn stat_of(attributes: &Attributes) -> Stat {
    Stat {
        inode: u64::from(attributes.inode.get()),
        kind: kind_of(attributes.kind),
        size: attributes.size,
        allocated: attributes.sectors * SECTOR_BYTES,
        links: u64::from(attributes.links),
    }
}

fn kind_of(kind: ExtKind) -> FileKind {
    match kind {
        ExtKind::Regular => FileKind::File,
        ExtKind::Directory => FileKind::Directory,
        ExtKind::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}

fn failure(operation: Operation, path: &str, error: &Error) -> TargetError {
    let kind = match error {
        Error::Device(block::DeviceError::Gone) => ErrorKind::Gone,
        Error::Device(_) | Error::Journal(_) | Error::DataLost { .. } => ErrorKind::Io,
        Error::Corrupt(_) => ErrorKind::Corrupt,
        Error::Unsupported(_) => ErrorKind::Unsupported,
        Error::NotFound => ErrorKind::NotFound,
        Error::Exists => ErrorKind::Exists,
        Error::NotDirectory => ErrorKind::NotDirectory,
        Error::IsDirectory => ErrorKind::IsDirectory,
        Error::NotEmpty => ErrorKind::NotEmpty,
        Error::NoSpace | Error::NoInodes | Error::AttributeTooLarge | Error::DirectoryFull => {
            ErrorKind::NoSpace
        }
        Error::TooManyLinks => ErrorKind::TooManyLinks,
        Error::NameTooLong => ErrorKind::BadName,
        Error::FileTooLarge => ErrorKind::TooLarge,
        Error::ReadOnly => ErrorKind::ReadOnly,
        Error::NotPermitted => ErrorKind::Permission,
        Error::TooManySymlinks | Error::Invalid(_) | Error::BadHandle => ErrorKind::Invalid,
        _ => ErrorKind::Other,
    };
    TargetError::new(operation, path, kind, error.to_string())
}
