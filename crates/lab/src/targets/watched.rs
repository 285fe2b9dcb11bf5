//! [`Watched`]: a target whose calls are counted by a recorder.

use std::sync::Arc;

use rt::WallTime;
use workload::{
    DirectoryEntry, Extent, InodeFlags, OpenFile, OpenFlags, Space, Stat, Target, TargetError,
};

use crate::timeline::Recorder;

/// A target whose calls are counted when they end, except seeks and queries of the laboratory.
pub(crate) struct Watched {
    target: Arc<dyn Target>,
    recorder: Arc<Recorder>,
}

impl Watched {
    pub(crate) fn new(target: Arc<dyn Target>, recorder: Arc<Recorder>) -> Self {
        Self { target, recorder }
    }

    fn ended<T>(&self, result: T) -> T {
        self.recorder.ended();
        result
    }
}

impl Target for Watched {
    fn name(&self) -> String {
        self.target.name()
    }

    fn keeps_contents(&self) -> bool {
        self.target.keeps_contents()
    }

    fn open(&self, path: &str, flags: OpenFlags) -> Result<OpenFile, TargetError> {
        self.ended(self.target.open(path, flags))
    }

    fn close(&self, file: OpenFile) -> Result<(), TargetError> {
        self.ended(self.target.close(file))
    }

    fn read(&self, file: &mut OpenFile, buffer: &mut [u8]) -> Result<usize, TargetError> {
        self.ended(self.target.read(file, buffer))
    }

    fn write(&self, file: &mut OpenFile, data: &[u8]) -> Result<usize, TargetError> {
        self.ended(self.target.write(file, data))
    }

    fn seek(&self, file: &mut OpenFile, offset: u64) -> Result<(), TargetError> {
        self.target.seek(file, offset)
    }

    fn pread(&self, file: &OpenFile, buffer: &mut [u8], offset: u64) -> Result<usize, TargetError> {
        self.ended(self.target.pread(file, buffer, offset))
    }

    fn pwrite(&self, file: &OpenFile, data: &[u8], offset: u64) -> Result<usize, TargetError> {
        self.ended(self.target.pwrite(file, data, offset))
    }

    fn fsync(&self, file: &OpenFile) -> Result<(), TargetError> {
        self.ended(self.target.fsync(file))
    }

    fn fdatasync(&self, file: &OpenFile) -> Result<(), TargetError> {
        self.ended(self.target.fdatasync(file))
    }

    fn fsync_directory(&self, path: &str) -> Result<(), TargetError> {
        self.ended(self.target.fsync_directory(path))
    }

    fn truncate(&self, path: &str, size: u64) -> Result<(), TargetError> {
        self.ended(self.target.truncate(path, size))
    }

    fn unlink(&self, path: &str) -> Result<(), TargetError> {
        self.ended(self.target.unlink(path))
    }

    fn mkdir(&self, path: &str) -> Result<(), TargetError> {
        self.ended(self.target.mkdir(path))
    }

    fn rmdir(&self, path: &str) -> Result<(), TargetError> {
        self.ended(self.target.rmdir(path))
    }

    fn rename(&self, old: &str, new: &str) -> Result<(), TargetError> {
        self.ended(self.target.rename(old, new))
    }

    fn link(&self, existing: &str, new: &str) -> Result<(), TargetError> {
        self.ended(self.target.link(existing, new))
    }

    fn symlink(&self, contents: &str, path: &str) -> Result<(), TargetError> {
        self.ended(self.target.symlink(contents, path))
    }

    fn read_link(&self, path: &str) -> Result<String, TargetError> {
        self.ended(self.target.read_link(path))
    }

    fn stat(&self, path: &str) -> Result<Stat, TargetError> {
        self.ended(self.target.stat(path))
    }

    fn stat_open(&self, file: &OpenFile) -> Result<Stat, TargetError> {
        self.ended(self.target.stat_open(file))
    }

    fn set_times(
        &self,
        path: &str,
        accessed: WallTime,
        modified: WallTime,
    ) -> Result<(), TargetError> {
        self.ended(self.target.set_times(path, accessed, modified))
    }

    fn space(&self) -> Result<Space, TargetError> {
        self.ended(self.target.space())
    }

    fn readdir(&self, path: &str) -> Result<Vec<DirectoryEntry>, TargetError> {
        self.ended(self.target.readdir(path))
    }

    fn set_flags(&self, path: &str, flags: InodeFlags) -> Result<(), TargetError> {
        self.ended(self.target.set_flags(path, flags))
    }

    fn extents(&self, path: &str) -> Result<Vec<Extent>, TargetError> {
        self.target.extents(path)
    }

    fn sync(&self) -> Result<(), TargetError> {
        self.ended(self.target.sync())
    }
}
