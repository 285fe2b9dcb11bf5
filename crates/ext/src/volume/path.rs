//! Conveniences on paths: `/a/b/c`, symbolic links followed on the way.
//!
//! A path is text or bytes: a name may hold any bytes but `/` and zero, and need not be UTF-8.

use layout::InodeNr;

use super::attributes::{Attributes, NewInode};
use super::files::{FileId, OpenFlags};
use super::tree::RenameMode;
use super::{SetAttributes, Volume};
use crate::directory::Entry;
use crate::error::{Error, Result};
use crate::inode::FileKind;

/// How many symbolic links a path may go through.
const SYMLINKS_MAX: u32 = 40;
/// How many bytes the conveniences read and write at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// The largest file that is read as a whole. What is larger, sparse files of damaged sizes included, is read in parts.
const WHOLE_FILE_BYTES_MAX: usize = 1 << 30;

/// An open file with a position, for reading and writing like a stream.
///
/// `close` is explicit, since closing can fail. A file that is dropped unclosed stays open until the volume closes.
pub struct File<'v> {
    volume: &'v Volume,
    id: FileId,
    position: u64,
}

impl<'v> File<'v> {
    /// Its handle.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Reads from the position on, and moves it.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let count = self.volume.read(self.id, self.position, into)?;
        self.position += count as u64;
        Ok(count)
    }

    /// Writes all bytes at the position, and moves it.
    pub fn write_all(&mut self, from: &[u8]) -> Result<()> {
        self.volume.write_all(self.id, self.position, from)?;
        self.position += from.len() as u64;
        Ok(())
    }

    /// Reads at an offset.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.volume.read(self.id, offset, into)
    }

    /// Writes all bytes at an offset.
    pub fn write_at(&self, offset: u64, from: &[u8]) -> Result<()> {
        self.volume.write_all(self.id, offset, from)
    }

    /// Sets the position.
    pub fn seek(&mut self, position: u64) {
        self.position = position;
    }

    /// Sets the size.
    pub fn set_len(&self, size: u64) -> Result<()> {
        let inode = self.volume.inode_of(self.id)?;
        self.volume.set_attributes(
            inode,
            &SetAttributes {
                size: Some(size),
                ..Default::default()
            },
        )
    }

    /// Makes data and inode durable.
    pub fn sync_all(&self) -> Result<()> {
        self.volume.sync_file(self.id, false)
    }

    /// Makes durable what is needed to read the data back.
    pub fn sync_data(&self) -> Result<()> {
        self.volume.sync_file(self.id, true)
    }

    /// Closes the file.
    pub fn close(self) -> Result<()> {
        self.volume.release(self.id)
    }
}

impl Volume {
    /// The inode that a path names. With `follow`, a symbolic link at its end is followed too.
    pub fn resolve(&self, path: &(impl AsRef<[u8]> + ?Sized), follow: bool) -> Result<InodeNr> {
        let mut links = 0;
        self.walk(InodeNr::ROOT, path.as_ref(), follow, &mut links)
    }

    fn walk(&self, start: InodeNr, path: &[u8], follow: bool, links: &mut u32) -> Result<InodeNr> {
        let mut current = if path.first() == Some(&b'/') {
            InodeNr::ROOT
        } else {
            start
        };
        let mut names = path
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty())
            .peekable();
        let must_be_directory = path.last() == Some(&b'/');
        while let Some(name) = names.next() {
            let next = self.lookup(current, name)?;
            let is_last = names.peek().is_none();
            let wants_target = !is_last || follow || must_be_directory;
            current = if wants_target && self.kind_of(next)? == FileKind::Symlink {
                *links += 1;
                if *links > SYMLINKS_MAX {
                    return Err(Error::TooManySymlinks);
                }
                let target = self.read_link(next)?;
                self.walk(current, &target, true, links)?
            } else {
                next
            };
        }
        if must_be_directory && self.kind_of(current)? != FileKind::Directory {
            return Err(Error::NotDirectory);
        }
        Ok(current)
    }

    fn kind_of(&self, nr: InodeNr) -> Result<FileKind> {
        Ok(self.core.inodes.get(&self.core, nr)?.state.read().kind)
    }

    /// The directory that holds a path's last name, and that name.
    pub fn resolve_parent<'p, P>(&self, path: &'p P) -> Result<(InodeNr, &'p [u8])>
    where
        P: AsRef<[u8]> + ?Sized,
    {
        let path = path.as_ref();
        let end = path.iter().rposition(|byte| *byte != b'/');
        let trimmed = &path[..end.map_or(0, |last| last + 1)];
        let (parent, name) = match trimmed.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&trimmed[..=at], &trimmed[at + 1..]),
            None => (&b"/"[..], trimmed),
        };
        if name.is_empty() || name == b"." || name == b".." {
            return Err(Error::Invalid(
                "the path has no last name that could be made or removed",
            ));
        }
        Ok((self.resolve(parent, true)?, name))
    }

    /// What stat says of a path; with `follow`, of what a symbolic link points to.
    pub fn metadata(&self, path: &(impl AsRef<[u8]> + ?Sized), follow: bool) -> Result<Attributes> {
        self.attributes(self.resolve(path, follow)?)
    }

    /// Opens an existing file.
    pub fn open_file(
        &self,
        path: &(impl AsRef<[u8]> + ?Sized),
        flags: OpenFlags,
    ) -> Result<File<'_>> {
        let id = self.open_inode(self.resolve(path, true)?, flags)?;
        Ok(File {
            volume: self,
            id,
            position: 0,
        })
    }

    /// Makes a file, or cuts an existing one to nothing, and opens it for reading and writing.
    pub fn create_file(
        &self,
        path: &(impl AsRef<[u8]> + ?Sized),
        new: &NewInode,
    ) -> Result<File<'_>> {
        let path = path.as_ref();
        let (parent, name) = self.resolve_parent(path)?;
        let flags = OpenFlags {
            truncate: true,
            ..OpenFlags::READ_WRITE
        };
        let nr = match self.create(parent, name, new) {
            Err(Error::Exists) => self.resolve(path, true)?,
            other => other?,
        };
        Ok(File {
            volume: self,
            id: self.open_inode(nr, flags)?,
            position: 0,
        })
    }

    /// Writes all bytes at an offset.
    ///
    /// # Errors
    /// - [`Error::NoSpace`] if the volume fills up on the way; what was written stays.
    pub fn write_all(&self, file: FileId, offset: u64, from: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < from.len() {
            let count = self.write(file, offset + done as u64, &from[done..])?;
            if count == 0 {
                return Err(Error::NoSpace);
            }
            done += count;
        }
        Ok(())
    }

    /// All bytes of a file.
    ///
    /// # Errors
    /// - [`Error::FileTooLarge`] for a file of more than 1 GiB: open it and read it in parts.
    pub fn read_file(&self, path: &(impl AsRef<[u8]> + ?Sized)) -> Result<Vec<u8>> {
        let mut file = self.open_file(path, OpenFlags::READ)?;
        let mut bytes = Vec::new();
        let result = loop {
            let start = bytes.len();
            bytes.resize(start + CHUNK_BYTES, 0);
            match file.read(&mut bytes[start..]) {
                Ok(0) => {
                    bytes.truncate(start);
                    break Ok(());
                }
                Ok(_) if start >= WHOLE_FILE_BYTES_MAX => break Err(Error::FileTooLarge),
                Ok(count) => bytes.truncate(start + count),
                Err(error) => break Err(error),
            }
        };
        file.close()?;
        result.map(|()| bytes)
    }

    /// Makes a file with these bytes, replacing the contents of an existing one.
    pub fn write_file(&self, path: &(impl AsRef<[u8]> + ?Sized), bytes: &[u8]) -> Result<()> {
        let mut file = self.create_file(path, &NewInode::default())?;
        let written = file.write_all(bytes);
        file.close()?;
        written
    }

    /// Makes a directory with permissions 0755.
    pub fn create_directory(&self, path: &(impl AsRef<[u8]> + ?Sized)) -> Result<InodeNr> {
        let (parent, name) = self.resolve_parent(path.as_ref())?;
        self.make_directory(
            parent,
            name,
            &NewInode {
                permissions: 0o755,
                ..Default::default()
            },
        )
    }

    /// Makes a directory and those above it that are missing.
    pub fn create_directory_all(&self, path: &(impl AsRef<[u8]> + ?Sized)) -> Result<InodeNr> {
        let mut current = InodeNr::ROOT;
        for name in path
            .as_ref()
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty())
        {
            let new = NewInode {
                permissions: 0o755,
                ..Default::default()
            };
            current = match self.lookup(current, name) {
                Ok(next) => next,
                Err(Error::NotFound) => self.make_directory(current, name, &new)?,
                Err(error) => return Err(error),
            };
        }
        Ok(current)
    }

    /// Removes a file, link or node.
    pub fn remove_file(&self, path: &(impl AsRef<[u8]> + ?Sized)) -> Result<()> {
        let (parent, name) = self.resolve_parent(path.as_ref())?;
        self.unlink(parent, name)
    }

    /// Removes an empty directory by its path.
    pub fn remove_directory_at(&self, path: &(impl AsRef<[u8]> + ?Sized)) -> Result<()> {
        let (parent, name) = self.resolve_parent(path.as_ref())?;
        self.remove_directory(parent, name)
    }

    /// Moves a path, replacing what is there.
    pub fn rename_path(
        &self,
        from: &(impl AsRef<[u8]> + ?Sized),
        to: &(impl AsRef<[u8]> + ?Sized),
    ) -> Result<()> {
        let (parent, name) = self.resolve_parent(from.as_ref())?;
        let (new_parent, new_name) = self.resolve_parent(to.as_ref())?;
        self.rename(parent, name, new_parent, new_name, RenameMode::Replace)
    }

    /// The names of a directory, without `.` and `..`, in directory order.
    pub fn list(&self, path: &(impl AsRef<[u8]> + ?Sized)) -> Result<Vec<Entry>> {
        let nr = self.resolve(path, true)?;
        let mut entries = Vec::new();
        self.read_directory(nr, 0, &mut |_, entry| {
            if entry.name != b"." && entry.name != b".." {
                entries.push(entry);
            }
            true
        })?;
        Ok(entries)
    }
}
