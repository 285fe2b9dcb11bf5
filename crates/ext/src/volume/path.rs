//! Conveniences on paths: `/a/b/c`, symbolic links followed on the way.
//!
//! A path is text or bytes: a name may hold any bytes but `/` and zero, and need not be UTF-8.

use std::sync::Arc;

use layout::InodeNr;

use super::attributes::{Attributes, NewInode};
use super::files::{FileId, OpenFlags};
use super::tree::RenameMode;
use super::{SetAttributes, Volume};
use crate::directory::Entry;
use crate::error::{Error, Result};
use crate::inode::{FileKind, Inode};
use crate::names;

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
    ///
    /// If others may remove the path meanwhile, the number can be another inode's by the time it is used: use [`Volume::with_inode_at`] then.
    pub fn resolve(&self, path: &(impl AsRef<[u8]> + ?Sized), follow: bool) -> Result<InodeNr> {
        self.with_inode_at(path, follow, Ok)
    }

    /// Does something with the inode that a path names. Until it is done, the inode is not deleted and its number is its own, whatever
    /// others do with its names.
    pub fn with_inode_at<T>(
        &self,
        path: &(impl AsRef<[u8]> + ?Sized),
        follow: bool,
        work: impl FnOnce(InodeNr) -> Result<T>,
    ) -> Result<T> {
        let inode = self.walk(None, path.as_ref(), follow, &mut 0)?;
        if rt::mutant!("path/inode-not-held") {
            self.unpin(&inode)?;
            return work(inode.nr);
        }
        let result = work(inode.nr);
        self.unpin(&inode)?;
        result
    }

    /// Goes a path from a directory, or from the root; what it comes to is pinned.
    fn walk(
        &self,
        start: Option<&Arc<Inode>>,
        path: &[u8],
        follow: bool,
        links: &mut u32,
    ) -> Result<Arc<Inode>> {
        let mut current = match start {
            Some(start) if path.first() != Some(&b'/') => Arc::clone(start),
            _ => self.core.inodes.fetch(&self.core, InodeNr::ROOT)?,
        };
        self.core.inodes.pin(&current);
        let mut names = path
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty())
            .peekable();
        let must_be_directory = path.last() == Some(&b'/');
        while let Some(name) = names.next() {
            let is_last = names.peek().is_none();
            let wants_target = !is_last || follow || must_be_directory;
            let next = self.enter(&current, name, wants_target, links);
            self.unpin(&current)?;
            current = next?;
        }
        if must_be_directory && current.kind != FileKind::Directory {
            self.unpin(&current)?;
            return Err(Error::NotDirectory);
        }
        Ok(current)
    }

    /// What a name in a directory comes to, pinned.
    fn enter(
        &self,
        directory: &Arc<Inode>,
        name: &[u8],
        wants_target: bool,
        links: &mut u32,
    ) -> Result<Arc<Inode>> {
        rt::charge(rt::Cost::Syscall);
        let inode = names::look_up_and_pin(&self.core, directory.nr, name)?;
        if !wants_target {
            return Ok(inode);
        }
        rt::charge(rt::Cost::Lookup);
        if inode.kind != FileKind::Symlink {
            return Ok(inode);
        }
        *links += 1;
        let target = if *links > SYMLINKS_MAX {
            Err(Error::TooManySymlinks)
        } else {
            self.read_link(inode.nr)
        };
        self.unpin(&inode)?;
        self.walk(Some(directory), &target?, true, links)
    }

    /// The directory that holds a path's last name, and that name.
    ///
    /// As with [`Volume::resolve`], others may remove the directory: use [`Volume::with_parent_of`] then.
    pub fn resolve_parent<'p, P>(&self, path: &'p P) -> Result<(InodeNr, &'p [u8])>
    where
        P: AsRef<[u8]> + ?Sized,
    {
        let (parent, name) = split_last(path.as_ref())?;
        Ok((self.resolve(parent, true)?, name))
    }

    /// Does something with the directory that holds a path's last name, and that name. The directory's number is its own until it is done.
    pub fn with_parent_of<T>(
        &self,
        path: &(impl AsRef<[u8]> + ?Sized),
        work: impl FnOnce(InodeNr, &[u8]) -> Result<T>,
    ) -> Result<T> {
        let (parent, name) = split_last(path.as_ref())?;
        self.with_inode_at(parent, true, |parent| work(parent, name))
    }

    /// What stat says of a path; with `follow`, of what a symbolic link points to.
    pub fn metadata(&self, path: &(impl AsRef<[u8]> + ?Sized), follow: bool) -> Result<Attributes> {
        self.with_inode_at(path, follow, |nr| self.attributes(nr))
    }

    /// Opens an existing file.
    pub fn open_file(
        &self,
        path: &(impl AsRef<[u8]> + ?Sized),
        flags: OpenFlags,
    ) -> Result<File<'_>> {
        let id = self.with_inode_at(path, true, |nr| self.open_inode(nr, flags))?;
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
        let flags = OpenFlags {
            truncate: true,
            ..OpenFlags::READ_WRITE
        };
        let id = loop {
            let made = self.with_parent_of(path, |parent, name| {
                let inode = self.create_pinned(parent, name, new)?;
                let opened = self.open_inode(inode.nr, flags);
                self.unpin(&inode)?;
                opened
            });
            match made {
                Err(Error::Exists) => {}
                opened => break opened?,
            }
            match self.with_inode_at(path, true, |nr| self.open_inode(nr, flags)) {
                // Removed meanwhile, unless it is a link to nothing.
                Err(Error::NotFound) if !self.is_link(path) => {}
                opened => break opened?,
            }
        };
        Ok(File {
            volume: self,
            id,
            position: 0,
        })
    }

    fn is_link(&self, path: &[u8]) -> bool {
        let found = self.metadata(path, false);
        found.is_ok_and(|attributes| attributes.kind == FileKind::Symlink)
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
        let new = NewInode {
            permissions: 0o755,
            ..Default::default()
        };
        self.with_parent_of(path, |parent, name| self.make_directory(parent, name, &new))
    }

    /// Makes a directory and those above it that are missing.
    pub fn create_directory_all(&self, path: &(impl AsRef<[u8]> + ?Sized)) -> Result<InodeNr> {
        let mut current = self.walk(None, b"/", true, &mut 0)?;
        let names = path.as_ref().split(|byte| *byte == b'/');
        for name in names.filter(|name| !name.is_empty()) {
            let next = self.find_or_make_directory(current.nr, name);
            self.unpin(&current)?;
            current = next?;
        }
        self.unpin(&current)?;
        Ok(current.nr)
    }

    /// What has a name in a directory, pinned; a new directory if nothing has.
    fn find_or_make_directory(&self, parent: InodeNr, name: &[u8]) -> Result<Arc<Inode>> {
        let new = NewInode {
            permissions: 0o755,
            ..Default::default()
        };
        loop {
            rt::charge(rt::Cost::Syscall);
            match names::look_up_and_pin(&self.core, parent, name) {
                Err(Error::NotFound) => {}
                found => return found,
            }
            rt::charge(rt::Cost::Syscall);
            match names::make_directory(&self.core, parent, name, &new) {
                // Somebody was faster.
                Err(Error::Exists) => {}
                made => return made,
            }
        }
    }

    /// Removes a file, link or node.
    pub fn remove_file(&self, path: &(impl AsRef<[u8]> + ?Sized)) -> Result<()> {
        self.with_parent_of(path, |parent, name| self.unlink(parent, name))
    }

    /// Removes an empty directory by its path.
    pub fn remove_directory_at(&self, path: &(impl AsRef<[u8]> + ?Sized)) -> Result<()> {
        self.with_parent_of(path, |parent, name| self.remove_directory(parent, name))
    }

    /// Moves a path, replacing what is there.
    pub fn rename_path(
        &self,
        from: &(impl AsRef<[u8]> + ?Sized),
        to: &(impl AsRef<[u8]> + ?Sized),
    ) -> Result<()> {
        self.with_parent_of(from, |parent, name| {
            self.with_parent_of(to, |new_parent, new_name| {
                self.rename(parent, name, new_parent, new_name, RenameMode::Replace)
            })
        })
    }

    /// The names of a directory, without `.` and `..`, in directory order.
    pub fn list(&self, path: &(impl AsRef<[u8]> + ?Sized)) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        self.with_inode_at(path, true, |nr| {
            self.read_directory(nr, 0, &mut |_, entry| {
                if entry.name != b"." && entry.name != b".." {
                    entries.push(entry);
                }
                true
            })
        })?;
        Ok(entries)
    }
}

/// A path without its last name, and that name.
fn split_last(path: &[u8]) -> Result<(&[u8], &[u8])> {
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
    Ok((parent, name))
}
