//! The class `jext._native.File`: calls on an open file.

use std::sync::Arc;

use jext::volume::{FileId, FileKind, NewInode, OpenFlags, SetAttributes};
use jext::{Error, InodeNr, Result};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::attributes::{self, Numbers};
use crate::shared::Shared;

/// The way in which a file is opened.
#[derive(Debug, Clone, Copy, FromPyObject)]
pub(crate) struct Access {
    #[pyo3(item)]
    read: bool,
    #[pyo3(item)]
    write: bool,
    #[pyo3(item)]
    append: bool,
    #[pyo3(item)]
    truncate: bool,
    /// True to create a missing file.
    #[pyo3(item)]
    create: bool,
    /// True to refuse an existing file.
    #[pyo3(item)]
    exclusive: bool,
}

impl Access {
    fn flags(self) -> OpenFlags {
        OpenFlags {
            read: self.read,
            write: self.write,
            append: self.append,
            truncate: self.truncate,
            ..OpenFlags::default()
        }
    }
}

/// An open file. One that is dropped unclosed stays open until the volume closes.
#[pyclass(frozen, module = "jext._native")]
pub(crate) struct File {
    shared: Arc<Shared>,
    id: FileId,
}

impl File {
    /// Takes a file that was just opened.
    pub(crate) fn new(shared: Arc<Shared>, id: FileId) -> Self {
        Self { shared, id }
    }

    /// Calls `work` with the volume and the file, which another thread may have closed meanwhile.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&jext::Volume, FileId) -> Result<T> + Send,
    ) -> PyResult<T> {
        let mut is_closed = false;
        let done = self.shared.call(py, None, |volume| {
            work(volume, self.id).inspect_err(|error| is_closed = matches!(error, Error::BadHandle))
        });
        match is_closed {
            true => Err(PyValueError::new_err("I/O operation on closed file")),
            false => done,
        }
    }
}

#[pymethods]
impl File {
    /// Reads at an offset. Returns fewer bytes than requested only at the end.
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        count: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut read = 0;
        let bytes = PyBytes::new_with(py, count, |buffer| {
            // No other thread knows the buffer yet.
            read = self.call(py, |volume, file| volume.read(file, offset, buffer))?;
            Ok(())
        })?;
        match read == count {
            true => Ok(bytes),
            false => Ok(PyBytes::new(py, &bytes.as_bytes()[..read])),
        }
    }

    /// Writes at an offset, or at the end of a file that was opened to append. Returns the number
    /// of bytes.
    fn write(&self, py: Python<'_>, offset: u64, data: &[u8]) -> PyResult<usize> {
        self.call(py, |volume, file| {
            match volume.write(file, offset, data)? {
                0 if !data.is_empty() => Err(Error::NoSpace),
                count => Ok(count),
            }
        })
    }

    /// Returns the attributes of an open file.
    fn stat(&self, py: Python<'_>) -> PyResult<Numbers> {
        let found = self.call(py, |volume, file| volume.attributes(volume.inode_of(file)?))?;
        Ok(attributes::numbers(&found))
    }

    /// Sets the size of a file that is open for writing.
    fn truncate(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        self.call(py, |volume, file| {
            if !volume.is_writable(file) {
                return Err(Error::BadHandle);
            }
            let change = SetAttributes {
                size: Some(size),
                ..Default::default()
            };
            volume.set_attributes(volume.inode_of(file)?, &change)
        })
    }

    /// Makes a file durable.
    fn sync(&self, py: Python<'_>, data_only: bool) -> PyResult<()> {
        self.call(py, |volume, file| volume.sync_file(file, data_only))
    }

    /// Closes a file. Does nothing if another thread has closed it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |volume, file| match volume.release(file) {
            Err(Error::BadHandle) => Ok(()),
            done => done,
        })
    }
}

/// Opens a file; creates it if that is asked for.
pub(crate) fn open(
    volume: &jext::Volume,
    path: &[u8],
    access: Access,
    new: &NewInode,
) -> Result<FileId> {
    loop {
        if !access.exclusive {
            let opened = volume.with_inode_at(path, true, |nr| open_inode(volume, nr, access));
            match opened {
                Err(Error::NotFound) if access.create => {}
                opened => return opened,
            }
        }
        if path.last() == Some(&b'/') {
            return Err(Error::IsDirectory);
        }
        let made = volume.with_parent_of(path, |parent, name| {
            volume.create(parent, name, new)?;
            // By name, since another thread may have replaced it.
            let nr = volume.lookup(parent, name)?;
            volume.open_inode(nr, access.flags())
        });
        match made {
            // Made by another thread meanwhile, unless it is a dangling link.
            Err(Error::Exists) if !access.exclusive && !is_link(volume, path) => {}
            // Removed by another thread meanwhile.
            Err(Error::NotFound) if volume.with_parent_of(path, |_, _| Ok(())).is_ok() => {}
            made => return made,
        }
    }
}

fn is_link(volume: &jext::Volume, path: &[u8]) -> bool {
    let found = volume.metadata(path, false);
    found.is_ok_and(|found| found.kind == FileKind::Symlink)
}

fn open_inode(volume: &jext::Volume, nr: InodeNr, access: Access) -> Result<FileId> {
    match volume.attributes(nr)?.kind {
        FileKind::Directory => Err(Error::IsDirectory),
        FileKind::Regular => volume.open_inode(nr, access.flags()),
        _ => Err(Error::Invalid("only regular files can be opened")),
    }
}
