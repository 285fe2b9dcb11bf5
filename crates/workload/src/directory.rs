//! A target on a directory of the host, on any mounted file system. **The only module of this crate
//! that uses `std::fs`.**
//!
//! The directory is the target's root; a path can leave it only through a symbolic link. Functions
//! that `std` lacks (`syncfs`, the flags of `open` and of inodes) use `rustix`. The host charges
//! for its own system calls, so none are charged here.
//!
//! `close` reports no errors, because `std` closes without a result. On a local file system an
//! error is reported by `fsync` or not at all; on NFS, sync before you close.

mod terminal;

use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rt::WallTime;
use rustix::fs::{AtFlags, CWD, IFlags, Mode, OFlags, RawDir, Timespec, Timestamps};

use crate::error::{ErrorKind, Operation, TargetError};
use crate::target::{
    DirectoryEntry, FileKind, InodeFlags, OpenFile, OpenFlags, Space, Stat, Target,
};

pub use terminal::Terminal;

/// Unit of `st_blocks` in bytes, independent of the block size.
const STAT_BLOCK_BYTES: u64 = 512;

/// Buffer size for directory entries, as in the C library.
const LIST_BYTES: usize = 32 << 10;

/// A target on a host directory; see the module.
#[derive(Debug)]
pub struct DirectoryTarget {
    root: PathBuf,
    // Held open so that `sync` reaches the right file system.
    root_file: File,
}

/// An open file of this target.
struct HostFile {
    file: File,
    path: PathBuf,
}

/// Reads a text file of the host, such as a recorded load.
///
/// # Errors
/// Fails if the file cannot be read or is not UTF-8.
pub fn read_text(path: &str) -> io::Result<String> {
    fs::read_to_string(path)
}

impl DirectoryTarget {
    /// Returns a target whose root is this directory, which must exist.
    ///
    /// # Errors
    /// Fails if the path is not a directory that can be opened.
    pub fn new(root: impl Into<PathBuf>) -> Result<Self, TargetError> {
        let root = root.into();
        let failed = |error| failure(Operation::Open, &root, &error);
        let root_file = File::open(&root).map_err(failed)?;
        if !root_file.metadata().map_err(failed)?.is_dir() {
            return Err(failed(io::Error::from(io::ErrorKind::NotADirectory)));
        }
        Ok(Self { root, root_file })
    }

    /// Returns the directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn resolve(&self, operation: Operation, path: &str) -> Result<PathBuf, TargetError> {
        if path.split('/').any(|part| part == "..") {
            let cause = "`..` is not allowed in a path";
            return Err(TargetError::new(operation, path, ErrorKind::BadName, cause));
        }
        Ok(self.root.join(path.trim_start_matches('/')))
    }

    fn at<T>(
        &self,
        operation: Operation,
        path: &str,
        call: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<T, TargetError> {
        let resolved = self.resolve(operation, path)?;
        call(&resolved).map_err(|error| failure(operation, &resolved, &error))
    }
}

impl HostFile {
    fn of(file: &OpenFile, operation: Operation) -> Result<&Self, TargetError> {
        file.get()
            .ok_or_else(|| TargetError::foreign_file(operation))
    }

    /// Makes a call that changes the position; repeats it if it is interrupted.
    fn call<T>(
        file: &mut OpenFile,
        operation: Operation,
        mut call: impl FnMut(&mut File) -> io::Result<T>,
    ) -> Result<T, TargetError> {
        let own: &mut Self = file
            .get_mut()
            .ok_or_else(|| TargetError::foreign_file(operation))?;
        loop {
            match call(&mut own.file) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done.map_err(|error| failure(operation, &own.path, &error)),
            }
        }
    }

    /// Makes a call that keeps the position; repeats it if it is interrupted.
    fn shared<T>(
        file: &OpenFile,
        operation: Operation,
        mut call: impl FnMut(&File) -> io::Result<T>,
    ) -> Result<T, TargetError> {
        let own = Self::of(file, operation)?;
        loop {
            match call(&own.file) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done.map_err(|error| failure(operation, &own.path, &error)),
            }
        }
    }
}

impl Target for DirectoryTarget {
    fn name(&self) -> String {
        self.root.display().to_string()
    }

    fn open(&self, path: &str, flags: OpenFlags) -> Result<OpenFile, TargetError> {
        self.at(Operation::Open, path, |path| {
            let file = options(flags).open(path)?;
            Ok(OpenFile::new(HostFile {
                file,
                path: path.to_owned(),
            }))
        })
    }

    fn close(&self, file: OpenFile) -> Result<(), TargetError> {
        let file = file.into_inner::<HostFile>();
        file.map(drop)
            .ok_or_else(|| TargetError::foreign_file(Operation::Close))
    }

    fn read(&self, file: &mut OpenFile, buffer: &mut [u8]) -> Result<usize, TargetError> {
        HostFile::call(file, Operation::Read, |file| file.read(buffer))
    }

    fn write(&self, file: &mut OpenFile, data: &[u8]) -> Result<usize, TargetError> {
        HostFile::call(file, Operation::Write, |file| file.write(data))
    }

    fn seek(&self, file: &mut OpenFile, offset: u64) -> Result<(), TargetError> {
        HostFile::call(file, Operation::Seek, |file| {
            file.seek(SeekFrom::Start(offset)).map(drop)
        })
    }

    fn pread(&self, file: &OpenFile, buffer: &mut [u8], offset: u64) -> Result<usize, TargetError> {
        HostFile::shared(file, Operation::Pread, |file| file.read_at(buffer, offset))
    }

    fn pwrite(&self, file: &OpenFile, data: &[u8], offset: u64) -> Result<usize, TargetError> {
        HostFile::shared(file, Operation::Pwrite, |file| file.write_at(data, offset))
    }

    fn fsync(&self, file: &OpenFile) -> Result<(), TargetError> {
        HostFile::shared(file, Operation::Fsync, File::sync_all)
    }

    fn fdatasync(&self, file: &OpenFile) -> Result<(), TargetError> {
        HostFile::shared(file, Operation::Fdatasync, File::sync_data)
    }

    fn fsync_directory(&self, path: &str) -> Result<(), TargetError> {
        self.at(Operation::FsyncDirectory, path, |path| {
            let directory = OpenOptions::new()
                .read(true)
                .custom_flags(bits(OFlags::DIRECTORY))
                .open(path)?;
            directory.sync_all()
        })
    }

    fn truncate(&self, path: &str, size: u64) -> Result<(), TargetError> {
        self.at(Operation::Truncate, path, |path| {
            OpenOptions::new().write(true).open(path)?.set_len(size)
        })
    }

    fn unlink(&self, path: &str) -> Result<(), TargetError> {
        self.at(Operation::Unlink, path, |path| fs::remove_file(path))
    }

    fn mkdir(&self, path: &str) -> Result<(), TargetError> {
        self.at(Operation::Mkdir, path, |path| fs::create_dir(path))
    }

    fn rmdir(&self, path: &str) -> Result<(), TargetError> {
        self.at(Operation::Rmdir, path, |path| fs::remove_dir(path))
    }

    fn rename(&self, old: &str, new: &str) -> Result<(), TargetError> {
        let new = self.resolve(Operation::Rename, new)?;
        self.at(Operation::Rename, old, |old| fs::rename(old, new))
    }

    fn link(&self, existing: &str, new: &str) -> Result<(), TargetError> {
        let existing = self.resolve(Operation::Link, existing)?;
        self.at(Operation::Link, new, |new| fs::hard_link(existing, new))
    }

    fn symlink(&self, contents: &str, path: &str) -> Result<(), TargetError> {
        self.at(Operation::Symlink, path, |path| {
            std::os::unix::fs::symlink(contents, path)
        })
    }

    fn read_link(&self, path: &str) -> Result<String, TargetError> {
        self.at(Operation::ReadLink, path, |path| {
            Ok(fs::read_link(path)?.to_string_lossy().into_owned())
        })
    }

    fn stat(&self, path: &str) -> Result<Stat, TargetError> {
        self.at(Operation::Stat, path, |path| {
            Ok(stat_of(&fs::symlink_metadata(path)?))
        })
    }

    fn stat_open(&self, file: &OpenFile) -> Result<Stat, TargetError> {
        HostFile::shared(file, Operation::StatOpen, |file| {
            Ok(stat_of(&file.metadata()?))
        })
    }

    fn set_times(
        &self,
        path: &str,
        accessed: WallTime,
        modified: WallTime,
    ) -> Result<(), TargetError> {
        let times = Timestamps {
            last_access: timespec(accessed),
            last_modification: timespec(modified),
        };
        self.at(Operation::SetTimes, path, |path| {
            Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::empty())?)
        })
    }

    fn space(&self) -> Result<Space, TargetError> {
        let found = rustix::fs::statvfs(&self.root)
            .map_err(|error| failure(Operation::Space, &self.root, &error.into()))?;
        Ok(Space {
            total: found.f_blocks.saturating_mul(found.f_frsize),
            free: found.f_bavail.saturating_mul(found.f_frsize),
        })
    }

    fn readdir(&self, path: &str) -> Result<Vec<DirectoryEntry>, TargetError> {
        self.at(Operation::Readdir, path, |path| {
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = rustix::fs::open(path, flags, Mode::empty())?;
            let mut memory = Vec::with_capacity(LIST_BYTES);
            let mut reader = RawDir::new(directory, memory.spare_capacity_mut());
            let mut found = Vec::new();
            while let Some(entry) = reader.next() {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy();
                if name != "." && name != ".." {
                    let kind = match entry.file_type() {
                        // Some file systems do not return the type in the entry.
                        rustix::fs::FileType::Unknown => {
                            kind_of(fs::symlink_metadata(path.join(&*name))?.file_type())
                        }
                        known => kind_of_entry(known),
                    };
                    found.push(DirectoryEntry {
                        name: name.into_owned(),
                        inode: entry.ino(),
                        kind,
                    });
                }
            }
            Ok(found)
        })
    }

    fn set_flags(&self, path: &str, flags: InodeFlags) -> Result<(), TargetError> {
        self.at(Operation::SetFlags, path, |path| {
            let file = File::open(path)?;
            let mut set = rustix::fs::ioctl_getflags(&file)?;
            set.set(IFlags::SYNC, flags.sync);
            set.set(IFlags::DIRSYNC, flags.directory_sync);
            set.set(IFlags::JOURNALING, flags.journal_data);
            Ok(rustix::fs::ioctl_setflags(&file, set)?)
        })
    }

    fn sync(&self) -> Result<(), TargetError> {
        rustix::fs::syncfs(&self.root_file)
            .map_err(|error| failure(Operation::Sync, &self.root, &error.into()))
    }
}

/// O_DSYNC in Linux (asm-generic/fcntl.h). rustix's `DSYNC` has the value of O_SYNC.
const DATA_SYNC: OFlags = OFlags::from_bits_retain(0o10_000);

fn options(flags: OpenFlags) -> OpenOptions {
    let mut custom = OFlags::empty();
    custom.set(OFlags::SYNC, flags.sync);
    custom.set(DATA_SYNC, flags.data_sync || flags.sync);
    custom.set(OFlags::DIRECT, flags.direct);
    let mut options = OpenOptions::new();
    options
        .read(flags.read)
        .write(flags.write && !flags.append)
        .append(flags.append)
        .create(flags.create)
        .create_new(flags.create && flags.exclusive)
        .truncate(flags.truncate)
        .custom_flags(bits(custom));
    options
}

fn bits(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

fn timespec(time: WallTime) -> Timespec {
    Timespec {
        tv_sec: time.seconds,
        tv_nsec: time.nanos.into(),
    }
}

fn stat_of(metadata: &Metadata) -> Stat {
    Stat {
        inode: metadata.ino(),
        kind: kind_of(metadata.file_type()),
        size: metadata.size(),
        allocated: metadata.blocks().saturating_mul(STAT_BLOCK_BYTES),
        links: metadata.nlink(),
    }
}

fn kind_of(kind: FileType) -> FileKind {
    if kind.is_file() {
        FileKind::File
    } else if kind.is_dir() {
        FileKind::Directory
    } else if kind.is_symlink() {
        FileKind::Symlink
    } else {
        FileKind::Other
    }
}

fn kind_of_entry(kind: rustix::fs::FileType) -> FileKind {
    match kind {
        rustix::fs::FileType::RegularFile => FileKind::File,
        rustix::fs::FileType::Directory => FileKind::Directory,
        rustix::fs::FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}

fn failure(operation: Operation, path: &Path, error: &io::Error) -> TargetError {
    use io::ErrorKind as Io;
    let kind = match error.kind() {
        Io::NotFound => ErrorKind::NotFound,
        Io::AlreadyExists => ErrorKind::Exists,
        Io::NotADirectory => ErrorKind::NotDirectory,
        Io::IsADirectory => ErrorKind::IsDirectory,
        Io::DirectoryNotEmpty => ErrorKind::NotEmpty,
        Io::StorageFull | Io::QuotaExceeded => ErrorKind::NoSpace,
        Io::FileTooLarge => ErrorKind::TooLarge,
        Io::InvalidFilename => ErrorKind::BadName,
        Io::TooManyLinks => ErrorKind::TooManyLinks,
        Io::ReadOnlyFilesystem => ErrorKind::ReadOnly,
        Io::PermissionDenied => ErrorKind::Permission,
        Io::Unsupported | Io::CrossesDevices => ErrorKind::Unsupported,
        Io::InvalidInput => ErrorKind::Invalid,
        Io::StaleNetworkFileHandle | Io::NotConnected => ErrorKind::Gone,
        // `std` has no kind for these errors.
        _ if rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::IO) => {
            ErrorKind::Io
        }
        _ if rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::NOTTY) => {
            ErrorKind::Unsupported
        }
        _ => ErrorKind::Other,
    };
    TargetError::new(
        operation,
        &path.display().to_string(),
        kind,
        error.to_string(),
    )
}
