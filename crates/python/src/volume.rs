//! The class `jext._native.Volume`: calls on an open volume, by path.

use std::sync::Arc;

use jext::mount_options::ParsedOptions;
use jext::volume::{FileKind, NewInode, OpenReport, SetAttributes, SetMode, SetTime};
use jext::{Error, MountOptions};
use layout::superblock::Superblock;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::attributes::{self, Numbers};
use crate::device::{self, Opened, Part};
use crate::errors::Failure;
use crate::file::{self, Access, File};
use crate::paths::{Image, VolumePath};
use crate::shared::{Shared, set_cause};

/// The number of `errno` for a file system that is read-only.
const READ_ONLY: i32 = 30;

/// An open volume.
#[pyclass(frozen, module = "jext._native")]
pub(crate) struct Volume {
    shared: Arc<Shared>,
    report: OpenReport,
    superblock: Box<Superblock>,
}

/// Permissions, umask, user and group of a new inode.
#[derive(Debug, Clone, Copy, FromPyObject)]
struct NewArguments(u16, u16, u32, u32);

impl From<NewArguments> for NewInode {
    fn from(NewArguments(permissions, umask, uid, gid): NewArguments) -> Self {
        Self {
            permissions: permissions & 0o7777,
            umask,
            uid,
            gid,
        }
    }
}

/// A directory entry: name, inode, type bits of its mode or 0.
type EntryNumbers<'py> = (Bound<'py, PyBytes>, u32, u32);

/// A time to be set: nanoseconds since 1970, none for the current time.
#[derive(Debug, Clone, Copy, FromPyObject)]
struct GivenTime(Option<i128>);

impl From<GivenTime> for SetTime {
    fn from(GivenTime(nanoseconds): GivenTime) -> Self {
        nanoseconds.map_or(Self::Now, |time| Self::At(attributes::time(time)))
    }
}

#[pymethods]
impl Volume {
    /// Opens a volume on an image.
    #[new]
    #[pyo3(signature = (image, offset, size, read_only, options, journal))]
    fn open(
        py: Python<'_>,
        image: Image,
        offset: u64,
        size: Option<u64>,
        read_only: bool,
        options: &str,
        journal: Option<Image>,
    ) -> PyResult<Self> {
        let mut parsed = ParsedOptions::default();
        parsed
            .add(options)
            .map_err(|error| Failure::Argument(error.to_string()).into_exception(py, None))?;
        if parsed.journal_path.is_some() {
            let text = "journal_path: give the device as the argument `journal`".to_owned();
            return Err(Failure::Argument(text).into_exception(py, None));
        }
        let is_read_only = read_only || parsed.options.read_only;
        let given = match &image {
            Image::Path(path) => Some(path.as_os_str().to_owned()),
            Image::Object(_) => None,
        };
        let part = Part { offset, size };
        let Opened { device, raised } = device::open(py, &image, is_read_only, None, part)?;
        let journal = match &journal {
            Some(journal) => {
                Some(device::open(py, journal, is_read_only, None, Part::default())?.device)
            }
            None => None,
        };
        let opened = py.detach(|| {
            // The defaults that a superblock sets; those that are not supported have no effect.
            if let Some(superblock) = device::superblock(&*device) {
                let _ = parsed.for_volume(&superblock);
            }
            let mut options = MountOptions {
                read_only: is_read_only,
                ..parsed.options
            };
            let replays = !options.no_recovery && device::needs_recovery(&*device);
            let (device, journal) = match is_read_only && replays {
                true => {
                    options.is_private = true;
                    (device::overlay(device), journal.map(device::overlay))
                }
                false => (device, journal),
            };
            // The program acts for itself.
            options.privileged = true;
            jext::Volume::open_with_report(device, journal, options)
        });
        let (volume, report) = opened.map_err(|error| {
            let failure = Failure::from(error);
            let exception = match given.clone() {
                Some(given) => failure.into_exception_at(py, given),
                None => failure.into_exception(py, None),
            };
            set_cause(py, &exception, raised.as_ref());
            exception
        })?;
        if let (false, Some(why)) = (is_read_only, &report.read_only_because) {
            // Nothing was changed.
            drop(py.detach(|| volume.close()));
            let text = format!("it can only be read: {why}");
            return Err(PyOSError::new_err((READ_ONLY, text, given)));
        }
        let superblock = Box::new(volume.superblock().raw);
        Ok(Self {
            shared: Arc::new(Shared::new(volume, raised)),
            report,
            superblock,
        })
    }

    /// Writes everything and closes the volume.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.close(py)
    }

    /// True if the volume was closed, or belongs to another process.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        self.shared.is_closed(py)
    }

    /// True if the volume is, or has become, read-only.
    #[getter]
    fn read_only(&self, py: Python<'_>) -> PyResult<bool> {
        self.shared
            .call(py, None, |volume| Ok(volume.is_read_only()))
    }

    /// Makes everything durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.call(py, None, jext::Volume::sync)
    }

    /// Discards free blocks. Returns the number of bytes.
    fn trim(&self, py: Python<'_>, least_bytes: u64) -> PyResult<u64> {
        self.shared
            .call(py, None, |volume| volume.trim(least_bytes))
    }

    /// Returns block size, blocks, free and available blocks, inodes and free inodes.
    fn usage(&self, py: Python<'_>) -> PyResult<(u32, u64, u64, u64, u32, u32)> {
        self.shared.call(py, None, |volume| {
            let usage = volume.usage();
            Ok((
                usage.block_bytes,
                usage.blocks,
                usage.blocks_free,
                usage.blocks_available,
                usage.inodes,
                usage.inodes_free,
            ))
        })
    }

    /// The label, as bytes.
    #[getter]
    fn label(&self) -> Vec<u8> {
        let label = self.superblock.label.split(|byte| *byte == 0);
        label.take(1).flatten().copied().collect()
    }

    /// The UUID, as text.
    #[getter]
    fn uuid(&self) -> String {
        uuid::Uuid::from_bytes(self.superblock.uuid).to_string()
    }

    /// The names of the features at the open.
    #[getter]
    fn features(&self) -> Vec<String> {
        self.superblock.features().names()
    }

    /// Number of transactions and of fast commits that the open has replayed.
    #[getter]
    fn replayed(&self) -> (u32, u32) {
        let report = &self.report;
        (report.replayed_transactions, report.replayed_fast_commits)
    }

    /// True if damage is recorded in the superblock: a check is due.
    #[getter]
    fn has_errors(&self) -> bool {
        self.report.has_errors
    }

    /// Opens a file.
    fn open_file(
        &self,
        py: Python<'_>,
        path: VolumePath,
        access: Access,
        new: NewArguments,
    ) -> PyResult<File> {
        let file = self.shared.call_at(py, &path, |volume, path| {
            file::open(volume, path, access, &new.into())
        })?;
        Ok(File::new(Arc::clone(&self.shared), file))
    }

    /// Returns the attributes of a path.
    fn stat(&self, py: Python<'_>, path: VolumePath, follow: bool) -> PyResult<Numbers> {
        let found = self
            .shared
            .call_at(py, &path, |volume, path| volume.metadata(path, follow))?;
        Ok(attributes::numbers(&found))
    }

    /// Returns the entries of a directory.
    fn entries<'py>(&self, py: Python<'py>, path: VolumePath) -> PyResult<Vec<EntryNumbers<'py>>> {
        let entries = self
            .shared
            .call_at(py, &path, |volume, path| volume.list(path))?;
        let entries = entries.into_iter().map(|entry| {
            let name = PyBytes::new(py, &entry.name);
            let kind = attributes::kind_bits(entry.kind);
            (name, entry.inode.get(), kind)
        });
        Ok(entries.collect())
    }

    /// Creates a directory.
    fn mkdir(&self, py: Python<'_>, path: VolumePath, new: NewArguments) -> PyResult<()> {
        self.shared.call_at(py, &path, |volume, path| {
            volume.with_parent_of(path, |parent, name| {
                volume.make_directory(parent, name, &new.into()).map(drop)
            })
        })
    }

    /// Removes an empty directory.
    fn rmdir(&self, py: Python<'_>, path: VolumePath) -> PyResult<()> {
        self.shared
            .call_at(py, &path, |volume, path| volume.remove_directory_at(path))
    }

    /// Removes a file, link or node.
    fn remove(&self, py: Python<'_>, path: VolumePath) -> PyResult<()> {
        self.shared
            .call_at(py, &path, |volume, path| volume.remove_file(path))
    }

    /// Renames a path. An existing target is replaced as by rename(2).
    fn rename(&self, py: Python<'_>, from: VolumePath, to: VolumePath) -> PyResult<()> {
        let target = to.bytes();
        let renamed = self
            .shared
            .call_at(py, &from, |volume, path| volume.rename_path(path, target));
        renamed.map_err(|error| with_second(py, error, &to))
    }

    /// Creates a symbolic link.
    fn symlink(
        &self,
        py: Python<'_>,
        target: VolumePath,
        path: VolumePath,
        new: NewArguments,
    ) -> PyResult<()> {
        let text = target.bytes();
        let made = self.shared.call_at(py, &path, |volume, path| {
            volume.with_parent_of(path, |parent, name| {
                volume.symlink(parent, name, text, &new.into()).map(drop)
            })
        });
        made.map_err(|error| with_second(py, error, &target))
    }

    /// Returns the target of a symbolic link.
    fn readlink<'py>(&self, py: Python<'py>, path: VolumePath) -> PyResult<Bound<'py, PyBytes>> {
        let target = self
            .shared
            .call_at(py, &path, |volume, path| volume.read_link_at(path))?;
        Ok(PyBytes::new(py, &target))
    }

    /// Adds a hard link; a symbolic link at the end of `original` is not followed.
    fn link(&self, py: Python<'_>, original: VolumePath, path: VolumePath) -> PyResult<()> {
        let new = path.bytes();
        let linked = self.shared.call_at(py, &original, |volume, original| {
            volume.hard_link(original, new)
        });
        linked.map_err(|error| with_second(py, error, &path))
    }

    /// Changes mode, owner, size or times; what is none stays.
    #[pyo3(signature = (path, follow, mode=None, uid=None, gid=None, size=None, times=None))]
    #[expect(clippy::too_many_arguments, reason = "each is a field of an inode")]
    fn change(
        &self,
        py: Python<'_>,
        path: VolumePath,
        follow: bool,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        times: Option<(GivenTime, GivenTime)>,
    ) -> PyResult<()> {
        let change = SetAttributes {
            permissions: mode.map(|mode| (mode & 0o7777) as u16),
            uid,
            gid,
            size,
            atime: times.map(|(atime, _)| atime.into()),
            mtime: times.map(|(_, mtime)| mtime.into()),
            ..SetAttributes::default()
        };
        self.shared.call_at(py, &path, |volume, path| {
            volume.with_inode_at(path, follow, |nr| {
                // As truncate(2); the engine itself has no such call for other kinds.
                let kind = volume.attributes(nr)?.kind;
                match (size, kind) {
                    (Some(_), FileKind::Directory) => Err(Error::IsDirectory),
                    _ => volume.set_attributes(nr, &change),
                }
            })
        })
    }

    /// Returns the value of an extended attribute.
    fn getxattr<'py>(
        &self,
        py: Python<'py>,
        path: VolumePath,
        name: VolumePath,
        follow: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let name = name.bytes();
        let value = self.shared.call_at(py, &path, |volume, path| {
            volume.get_attribute_at(path, follow, name)
        })?;
        Ok(PyBytes::new(py, &value))
    }

    /// Sets an extended attribute: `mode` 0 in any case, 1 only a new one, 2 only an existing one.
    fn setxattr(
        &self,
        py: Python<'_>,
        path: VolumePath,
        name: VolumePath,
        value: &[u8],
        mode: i32,
        follow: bool,
    ) -> PyResult<()> {
        let mode = match mode {
            0 => SetMode::Any,
            1 => SetMode::Create,
            2 => SetMode::Replace,
            _ => {
                return Err(PyValueError::new_err(
                    "flags: 0, XATTR_CREATE or XATTR_REPLACE",
                ));
            }
        };
        let name = name.bytes();
        self.shared.call_at(py, &path, |volume, path| {
            volume.set_attribute_at(path, follow, name, value, mode)
        })
    }

    /// Removes an extended attribute.
    fn removexattr(
        &self,
        py: Python<'_>,
        path: VolumePath,
        name: VolumePath,
        follow: bool,
    ) -> PyResult<()> {
        let name = name.bytes();
        self.shared.call_at(py, &path, |volume, path| {
            volume.remove_attribute_at(path, follow, name)
        })
    }

    /// Returns the names of all extended attributes.
    fn listxattr<'py>(
        &self,
        py: Python<'py>,
        path: VolumePath,
        follow: bool,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let names = self.shared.call_at(py, &path, |volume, path| {
            volume.list_attributes_at(path, follow)
        })?;
        Ok(names.iter().map(|name| PyBytes::new(py, name)).collect())
    }
}

/// Returns an exception with a second path.
fn with_second(py: Python<'_>, error: PyErr, path: &VolumePath) -> PyErr {
    // Only `OSError` has the attribute.
    let _ = error.value(py).setattr("filename2", path.given(py));
    error
}
