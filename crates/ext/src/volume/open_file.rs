//! An open file with a position: a handle for programs that read and write streams.

use std::fmt;
use std::io::{self, SeekFrom};

use rt::Mutex;

use super::files::FileId;
use super::{Attributes, SetAttributes, Volume};
use crate::error::{Error, Result};

/// An open file with its own position.
///
/// A `File` implements [`io::Read`], [`io::Write`] and [`io::Seek`], and so does `&File`: calls
/// through shared references wait for each other, so that each reads or writes a separate part. The
/// errors of these traits carry an [`Error`], which [`io::Error::downcast`] returns. [`File::read`]
/// and [`File::write_all`] return it directly.
///
/// Written data is durable after [`File::sync_all`] or [`File::sync_data`]; [`io::Write::flush`]
/// does nothing.
///
/// [`File::close`] is explicit, because closing can fail. A file that is dropped unclosed stays
/// open until the volume closes.
pub struct File<'v> {
    volume: &'v Volume,
    id: FileId,
    /// The position; locked during the calls of `&File`. No thread takes this lock while it holds
    /// another one.
    position: Mutex<u64>,
}

impl<'v> File<'v> {
    pub(super) fn new(volume: &'v Volume, id: FileId) -> Self {
        Self {
            volume,
            id,
            position: Mutex::new(0),
        }
    }

    /// Returns the handle, for the calls of [`Volume`] that take one.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Reads at the position and advances it. Returns 0 at the end of the file.
    ///
    /// # Errors
    /// Fails as [`File::read_at`].
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        read(self.volume, self.id, self.position.get_mut(), into)
    }

    /// Writes all bytes at the position, or at the end of a file opened to append, and advances the
    /// position.
    ///
    /// # Errors
    /// Fails as [`File::write_at`].
    pub fn write_all(&mut self, mut from: &[u8]) -> Result<()> {
        while !from.is_empty() {
            let count = write(self.volume, self.id, self.position.get_mut(), from)?;
            from = &from[count..];
        }
        Ok(())
    }

    /// Reads at an offset; returns fewer bytes than requested only at the end of the file. The
    /// position stays.
    ///
    /// # Errors
    /// - [`Error::BadHandle`] if the file is not open for reading.
    /// - [`Error::Device`] and [`Error::Corrupt`] if the data cannot be read.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.volume.read(self.id, offset, into)
    }

    /// Writes all bytes at an offset, or at the end of a file opened to append. The position stays.
    ///
    /// # Errors
    /// - [`Error::NoSpace`] if the volume fills up during the write; the bytes written so far stay.
    /// - [`Error::BadHandle`] if the file is not open for writing.
    /// - [`Error::ReadOnly`], [`Error::FileTooLarge`], [`Error::Device`], [`Error::Journal`] and
    ///   [`Error::Corrupt`].
    pub fn write_at(&self, offset: u64, from: &[u8]) -> Result<()> {
        self.volume.write_all(self.id, offset, from)
    }

    /// Returns the position.
    pub fn position(&self) -> u64 {
        *self.position.lock()
    }

    /// Sets the position, which may lie beyond the end of the file: writing there leaves a hole.
    pub fn set_position(&mut self, position: u64) {
        *self.position.get_mut() = position;
    }

    /// Returns the attributes of the file, as stat.
    ///
    /// # Errors
    /// Fails as [`Volume::attributes`].
    pub fn metadata(&self) -> Result<Attributes> {
        self.volume.attributes(self.volume.inode_of(self.id)?)
    }

    /// Sets the size. A file that grows reads as zeroes beyond its old end.
    ///
    /// # Errors
    /// - [`Error::BadHandle`] if the file is not open for writing.
    /// - Errors of [`Volume::set_attributes`].
    pub fn set_len(&self, size: u64) -> Result<()> {
        let inode = self.volume.writable_inode_of(self.id)?;
        self.volume.set_attributes(
            inode,
            &SetAttributes {
                size: Some(size),
                ..Default::default()
            },
        )
    }

    /// Makes data and inode durable.
    ///
    /// # Errors
    /// - [`Error::DataLost`] once, if writing the file's data has failed since the handle's last
    ///   check.
    /// - [`Error::Device`] and [`Error::Journal`] if it fails now.
    pub fn sync_all(&self) -> Result<()> {
        self.volume.sync_file(self.id, false)
    }

    /// Makes data durable, with all metadata needed to read it back.
    ///
    /// # Errors
    /// Fails as [`File::sync_all`].
    pub fn sync_data(&self) -> Result<()> {
        self.volume.sync_file(self.id, true)
    }

    /// Closes the file. The last close of a file without links deletes it.
    ///
    /// # Errors
    /// - [`Error::DataLost`] once, if writing the file's data has failed since the handle's last
    ///   check.
    pub fn close(self) -> Result<()> {
        self.volume.release(self.id)
    }

    /// Returns a position moved as by [`io::Seek::seek`].
    fn moved(&self, position: u64, to: SeekFrom) -> Result<u64> {
        let moved = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => position.checked_add_signed(by),
            SeekFrom::End(by) => self.metadata()?.size.checked_add_signed(by),
        };
        moved.ok_or(Error::Invalid(
            "the position would be negative or beyond 2^64",
        ))
    }
}

fn read(volume: &Volume, id: FileId, position: &mut u64, into: &mut [u8]) -> Result<usize> {
    let count = volume.read(id, *position, into)?;
    *position += count as u64;
    Ok(count)
}

/// Writes at least one byte, if there is one.
fn write(volume: &Volume, id: FileId, position: &mut u64, from: &[u8]) -> Result<usize> {
    let written = volume.write_range(id, *position, from)?;
    if written.is_empty() && !from.is_empty() {
        return Err(Error::NoSpace);
    }
    *position = written.end;
    Ok((written.end - written.start) as usize)
}

impl io::Read for File<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(File::read(self, into)?)
    }
}

impl io::Write for File<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        Ok(write(self.volume, self.id, self.position.get_mut(), from)?)
    }

    /// Does nothing: a `File` buffers nothing. [`File::sync_all`] makes data durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Seek for File<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = *self.position.get_mut();
        let position = self.moved(position, to)?;
        *self.position.get_mut() = position;
        Ok(position)
    }
}

impl io::Read for &File<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(read(self.volume, self.id, &mut self.position.lock(), into)?)
    }
}

impl io::Write for &File<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        Ok(write(
            self.volume,
            self.id,
            &mut self.position.lock(),
            from,
        )?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Seek for &File<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let mut position = self.position.lock();
        *position = self.moved(*position, to)?;
        Ok(*position)
    }
}

impl fmt::Debug for File<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
