//! Files by path: opening, creating, reading and writing them as a whole.

use super::AsPath;
use crate::disk::kind::FileKind;
use crate::disk::new_inode::NewInode;
use crate::error::{Error, Result};
use crate::volume::{File, FileId, OpenFlags, Volume};

/// Number of bytes that the whole-file calls read and write at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// Size of the largest file that is read as a whole. Larger files, including sparse files of
/// damaged sizes, are read in parts.
const WHOLE_FILE_BYTES_MAX: usize = 1 << 30;

impl Volume {
    /// Opens an existing file.
    ///
    /// # Errors
    /// - [`Error::IsDirectory`], [`Error::ReadOnly`] and [`Error::NotPermitted`] if it cannot be
    ///   opened with these `flags`.
    /// - Errors of [`Volume::with_inode_at`].
    pub fn open_file(&self, path: &(impl AsPath + ?Sized), flags: OpenFlags) -> Result<File<'_>> {
        let id = self.with_inode_at(path, true, |nr| self.open_inode(nr, flags))?;
        Ok(File::new(self, id))
    }

    /// Creates a file, or truncates an existing one to 0, and opens it for reading and writing.
    ///
    /// # Errors
    /// - [`Error::NoSpace`] and [`Error::NoInodes`] if there is no room for a new file.
    /// - Errors of [`Volume::open_file`] and [`Volume::with_parent_of`].
    pub fn create_file(&self, path: &(impl AsPath + ?Sized), new: &NewInode) -> Result<File<'_>> {
        let path = path.path_bytes();
        let flags = OpenFlags {
            truncate: true,
            ..OpenFlags::READ_WRITE
        };
        let id = loop {
            let made = self.with_parent_of(path, |parent, name| {
                let inode = self.create_pinned(parent, name, new)?;
                // There is nothing to truncate.
                let opened = self.open_inode(inode.nr, OpenFlags::READ_WRITE);
                self.unpin(&inode)?;
                opened
            });
            match made {
                Err(Error::Exists) => {}
                opened => break opened?,
            }
            match self.with_inode_at(path, true, |nr| self.open_inode(nr, flags)) {
                // Removed meanwhile, unless it is a dangling link.
                Err(Error::NotFound) if !self.is_link(path) => {}
                opened => break opened?,
            }
        };
        Ok(File::new(self, id))
    }

    fn is_link(&self, path: &[u8]) -> bool {
        let found = self.metadata(path, false);
        found.is_ok_and(|attributes| attributes.kind == FileKind::Symlink)
    }

    /// Writes all bytes at an offset.
    ///
    /// # Errors
    /// - [`Error::NoSpace`] if the volume fills up during the write; the bytes written so far stay.
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

    /// Returns all bytes of a file.
    ///
    /// # Errors
    /// - [`Error::FileTooLarge`] for a file of more than 1 GiB: open it and read it in parts.
    /// - Errors of [`Volume::open_file`] and [`File::read`].
    pub fn read_file(&self, path: &(impl AsPath + ?Sized)) -> Result<Vec<u8>> {
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

    /// Creates a file with these bytes, or replaces the contents of an existing one.
    ///
    /// # Errors
    /// Fails as [`Volume::create_file`] and [`File::write_all`].
    pub fn write_file(&self, path: &(impl AsPath + ?Sized), bytes: &[u8]) -> Result<()> {
        let mut file = self.create_file(path, &NewInode::default())?;
        let written = file.write_all(bytes);
        file.close()?;
        written
    }
}
