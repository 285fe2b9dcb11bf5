//! A target that keeps names and sizes but no data, to count the operations of a workload and to
//! measure its own overhead.
//!
//! Reads return zeros. Names behave as in a file system (a missing file is not found, a directory
//! with entries is not removed), except that symbolic links are stored but never followed. Direct
//! I/O must be aligned. A capacity can be set to test a workload on a full file system; every byte
//! of a file's size counts against it.

mod namespace;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rt::{Mutex, WallTime};

use crate::error::{ErrorKind, Operation, TargetError};
use crate::target::{DirectoryEntry, InodeFlags, OpenFile, OpenFlags, Space, Stat, Target};

use namespace::{Entry, Namespace, Node, clean};

/// Alignment that direct I/O requires.
const SECTOR_BYTES: usize = 512;

/// A target without data; see the module.
#[derive(Debug)]
pub struct CountingTarget {
    namespace: Mutex<Namespace>,
    capacity: u64,
    used: AtomicU64,
    calls: [AtomicU64; Operation::ALL.len()],
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

/// An open file of this target.
struct CountedFile {
    node: Arc<Node>,
    flags: OpenFlags,
    position: u64,
    path: Box<str>,
}

impl CountedFile {
    /// Checks that direct I/O is aligned, in memory and in the file.
    fn check(&self, operation: Operation, memory: &[u8], offset: u64) -> Result<(), TargetError> {
        let is_aligned = memory.as_ptr().align_offset(SECTOR_BYTES) == 0
            && memory.len().is_multiple_of(SECTOR_BYTES)
            && offset.is_multiple_of(SECTOR_BYTES as u64);
        if is_aligned || !self.flags.direct {
            return Ok(());
        }
        let cause = "direct I/O is not aligned";
        Err(TargetError::new(
            operation,
            &self.path,
            ErrorKind::Invalid,
            cause,
        ))
    }
}

impl Default for CountingTarget {
    fn default() -> Self {
        Self::new()
    }
}

impl CountingTarget {
    /// Returns an empty target without a limit.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(u64::MAX)
    }

    /// Returns an empty target that limits the total size of its files to `bytes`.
    #[must_use]
    pub fn with_capacity(bytes: u64) -> Self {
        Self {
            namespace: Mutex::new(Namespace::new()),
            capacity: bytes,
            used: AtomicU64::new(0),
            calls: std::array::from_fn(|_| AtomicU64::new(0)),
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
        }
    }

    /// Returns the number of calls of an operation, including failed ones.
    #[must_use]
    pub fn calls(&self, operation: Operation) -> u64 {
        self.calls[operation as usize].load(Ordering::Relaxed)
    }

    /// Returns the number of bytes read.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes written.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    /// Returns the number of names, excluding the root.
    #[must_use]
    pub fn names(&self) -> usize {
        self.namespace.lock().len()
    }

    fn count(&self, operation: Operation) {
        self.calls[operation as usize].fetch_add(1, Ordering::Relaxed);
        rt::charge(rt::Cost::Syscall);
    }

    /// Sets the size of a file. Fails if the capacity does not suffice.
    fn resize(&self, node: &Node, size: u64) -> Result<(), (ErrorKind, &'static str)> {
        let before = node.size();
        let growth = size.saturating_sub(before);
        let used = self.used.fetch_add(growth, Ordering::Relaxed);
        if used
            .checked_add(growth)
            .is_none_or(|after| after > self.capacity)
        {
            self.used.fetch_sub(growth, Ordering::Relaxed);
            return Err((ErrorKind::NoSpace, "no space left on target"));
        }
        self.used
            .fetch_sub(before.saturating_sub(size), Ordering::Relaxed);
        node.set_size(size);
        Ok(())
    }

    fn release(&self, removed: Option<Entry>) {
        if let Some(Entry::File(node)) = removed
            && node.drop_link() == 0
        {
            self.used.fetch_sub(node.size(), Ordering::Relaxed);
        }
    }

    fn read_counted(&self, file: &CountedFile, buffer: &mut [u8], offset: u64) -> usize {
        let left = file.node.size().saturating_sub(offset);
        let count = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        buffer[..count].fill(0);
        self.bytes_read.fetch_add(count as u64, Ordering::Relaxed);
        count
    }

    fn write_counted(
        &self,
        file: &CountedFile,
        operation: Operation,
        data: &[u8],
        offset: u64,
    ) -> Result<usize, TargetError> {
        let failed =
            |(kind, cause): (ErrorKind, &str)| TargetError::new(operation, &file.path, kind, cause);
        if !file.flags.write {
            return Err(failed((
                ErrorKind::Invalid,
                "the file is not open for writing",
            )));
        }
        file.check(operation, data, offset)?;
        let end = offset
            .checked_add(data.len() as u64)
            .ok_or_else(|| failed((ErrorKind::TooLarge, "beyond the largest offset")))?;
        if end > file.node.size() && !data.is_empty() {
            self.resize(&file.node, end).map_err(failed)?;
        }
        self.bytes_written
            .fetch_add(data.len() as u64, Ordering::Relaxed);
        Ok(data.len())
    }

    fn in_namespace<T>(
        &self,
        operation: Operation,
        path: &str,
        change: impl FnOnce(&mut Namespace, &str) -> Result<T, ErrorKind>,
    ) -> Result<T, TargetError> {
        self.count(operation);
        let cleaned = clean(path).and_then(|name| change(&mut self.namespace.lock(), &name));
        cleaned.map_err(|kind| TargetError::new(operation, path, kind, namespace::cause(kind)))
    }
}

fn own(file: &OpenFile, operation: Operation) -> Result<&CountedFile, TargetError> {
    file.get()
        .ok_or_else(|| TargetError::foreign_file(operation))
}

fn own_mut(file: &mut OpenFile, operation: Operation) -> Result<&mut CountedFile, TargetError> {
    file.get_mut()
        .ok_or_else(|| TargetError::foreign_file(operation))
}

impl Target for CountingTarget {
    fn name(&self) -> String {
        "counting target without data".to_owned()
    }

    fn keeps_contents(&self) -> bool {
        false
    }

    fn open(&self, path: &str, flags: OpenFlags) -> Result<OpenFile, TargetError> {
        let node =
            self.in_namespace(Operation::Open, path, |names, name| names.open(name, flags))?;
        if flags.truncate {
            self.resize(&node, 0)
                .map_err(|(kind, cause)| TargetError::new(Operation::Open, path, kind, cause))?;
        }
        Ok(OpenFile::new(CountedFile {
            node,
            flags,
            position: 0,
            path: path.into(),
        }))
    }

    fn close(&self, file: OpenFile) -> Result<(), TargetError> {
        self.count(Operation::Close);
        let file = file.into_inner::<CountedFile>();
        file.map(drop)
            .ok_or_else(|| TargetError::foreign_file(Operation::Close))
    }

    fn read(&self, file: &mut OpenFile, buffer: &mut [u8]) -> Result<usize, TargetError> {
        self.count(Operation::Read);
        let file = own_mut(file, Operation::Read)?;
        file.check(Operation::Read, buffer, file.position)?;
        let count = self.read_counted(file, buffer, file.position);
        file.position += count as u64;
        Ok(count)
    }

    fn write(&self, file: &mut OpenFile, data: &[u8]) -> Result<usize, TargetError> {
        self.count(Operation::Write);
        let file = own_mut(file, Operation::Write)?;
        let offset = if file.flags.append {
            file.node.size()
        } else {
            file.position
        };
        let count = self.write_counted(file, Operation::Write, data, offset)?;
        file.position = offset + count as u64;
        Ok(count)
    }

    fn seek(&self, file: &mut OpenFile, offset: u64) -> Result<(), TargetError> {
        self.count(Operation::Seek);
        own_mut(file, Operation::Seek)?.position = offset;
        Ok(())
    }

    fn pread(&self, file: &OpenFile, buffer: &mut [u8], offset: u64) -> Result<usize, TargetError> {
        self.count(Operation::Pread);
        let file = own(file, Operation::Pread)?;
        file.check(Operation::Pread, buffer, offset)?;
        Ok(self.read_counted(file, buffer, offset))
    }

    fn pwrite(&self, file: &OpenFile, data: &[u8], offset: u64) -> Result<usize, TargetError> {
        self.count(Operation::Pwrite);
        self.write_counted(
            own(file, Operation::Pwrite)?,
            Operation::Pwrite,
            data,
            offset,
        )
    }

    fn fsync(&self, file: &OpenFile) -> Result<(), TargetError> {
        self.count(Operation::Fsync);
        own(file, Operation::Fsync).map(drop)
    }

    fn fdatasync(&self, file: &OpenFile) -> Result<(), TargetError> {
        self.count(Operation::Fdatasync);
        own(file, Operation::Fdatasync).map(drop)
    }

    fn fsync_directory(&self, path: &str) -> Result<(), TargetError> {
        self.in_namespace(Operation::FsyncDirectory, path, |names, name| {
            names.directory(name)
        })
    }

    fn truncate(&self, path: &str, size: u64) -> Result<(), TargetError> {
        let node = self.in_namespace(Operation::Truncate, path, |names, name| names.file(name))?;
        self.resize(&node, size)
            .map_err(|(kind, cause)| TargetError::new(Operation::Truncate, path, kind, cause))
    }

    fn unlink(&self, path: &str) -> Result<(), TargetError> {
        let removed = self.in_namespace(Operation::Unlink, path, Namespace::unlink)?;
        self.release(Some(removed));
        Ok(())
    }

    fn mkdir(&self, path: &str) -> Result<(), TargetError> {
        self.in_namespace(Operation::Mkdir, path, |names, name| {
            names.insert(name, Entry::Directory)
        })
    }

    fn rmdir(&self, path: &str) -> Result<(), TargetError> {
        self.in_namespace(Operation::Rmdir, path, Namespace::rmdir)
    }

    fn rename(&self, old: &str, new: &str) -> Result<(), TargetError> {
        let replaced = self.in_namespace(Operation::Rename, old, |names, old| {
            names.rename(old, &clean(new)?)
        })?;
        self.release(replaced);
        Ok(())
    }

    fn link(&self, existing: &str, new: &str) -> Result<(), TargetError> {
        self.in_namespace(Operation::Link, new, |names, new| {
            names.link(&clean(existing)?, new)
        })
    }

    fn symlink(&self, contents: &str, path: &str) -> Result<(), TargetError> {
        self.in_namespace(Operation::Symlink, path, |names, name| {
            names.insert(name, Entry::Symlink(contents.into()))
        })
    }

    fn read_link(&self, path: &str) -> Result<String, TargetError> {
        self.in_namespace(Operation::ReadLink, path, |names, name| {
            match names.get(name)? {
                Entry::Symlink(contents) => Ok(contents.to_string()),
                Entry::File(_) | Entry::Directory => Err(ErrorKind::Invalid),
            }
        })
    }

    fn stat(&self, path: &str) -> Result<Stat, TargetError> {
        self.in_namespace(Operation::Stat, path, |names, name| {
            Ok(names.get(name)?.stat())
        })
    }

    fn stat_open(&self, file: &OpenFile) -> Result<Stat, TargetError> {
        self.count(Operation::StatOpen);
        Ok(own(file, Operation::StatOpen)?.node.stat())
    }

    fn set_times(
        &self,
        path: &str,
        _accessed: WallTime,
        _modified: WallTime,
    ) -> Result<(), TargetError> {
        self.in_namespace(Operation::SetTimes, path, |names, name| {
            names.get(name).map(drop)
        })
    }

    fn space(&self) -> Result<Space, TargetError> {
        self.count(Operation::Space);
        let used = self.used.load(Ordering::Relaxed);
        Ok(Space {
            total: self.capacity,
            free: self.capacity.saturating_sub(used),
        })
    }

    fn readdir(&self, path: &str) -> Result<Vec<DirectoryEntry>, TargetError> {
        self.in_namespace(Operation::Readdir, path, |names, name| names.list(name))
    }

    fn set_flags(&self, path: &str, _flags: InodeFlags) -> Result<(), TargetError> {
        self.in_namespace(Operation::SetFlags, path, |names, name| {
            names.get(name).map(drop)
        })
    }

    fn sync(&self) -> Result<(), TargetError> {
        self.count(Operation::Sync);
        Ok(())
    }
}
