//! The load: threads that create files and sync each.

use std::sync::Arc;

use anyhow::{Context, Result};
use workload::{OpenFlags, Target};

use crate::crew;

/// The directories of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Directories {
    /// One for each thread.
    Own,
    /// One for all threads.
    Shared,
}

/// Threads that create files, each of which is written at once, synced and closed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) directories: Directories,
    pub(crate) threads: u32,
    /// Number of files of all threads; each creates the same number.
    pub(crate) files: u32,
    /// Size of a file in bytes.
    pub(crate) bytes: usize,
}

impl Directories {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Shared => "shared",
        }
    }
}

impl Load {
    /// Returns the number of files that are created: a multiple of that of threads.
    pub(crate) fn file_count(&self) -> u32 {
        self.files_of_thread() * self.threads
    }

    fn files_of_thread(&self) -> u32 {
        self.files.div_ceil(self.threads)
    }

    fn directory(&self, thread: u32) -> String {
        match self.directories {
            Directories::Own => format!("thread{thread}"),
            Directories::Shared => "shared".to_owned(),
        }
    }

    /// Makes the directories, durably.
    pub(crate) fn prepare(&self, target: &dyn Target) -> Result<()> {
        let count = match self.directories {
            Directories::Own => self.threads,
            Directories::Shared => 1,
        };
        for thread in 0..count {
            target.mkdir(&self.directory(thread))?;
        }
        Ok(target.sync()?)
    }

    /// Creates the files. Returns the seconds from the first to the last.
    pub(crate) fn run(&self, target: &Arc<dyn Target>) -> Result<f64> {
        let contents = vec![0x6a; self.bytes];
        let create = |thread| self.create_files(thread, &**target, &contents);
        let started = crew::run(self.threads, create).context("creating and syncing files")?;
        Ok(started.elapsed().as_secs_f64())
    }

    fn create_files(&self, thread: u32, target: &dyn Target, contents: &[u8]) -> Result<()> {
        let directory = self.directory(thread);
        for number in 0..self.files_of_thread() {
            let path = format!("{directory}/file-{thread}-{number}");
            let mut file = target.open(&path, OpenFlags::WRITE.create_new())?;
            let written = write_and_sync(target, &mut file, contents);
            target.close(file)?;
            written?;
        }
        Ok(())
    }
}

fn write_and_sync(
    target: &dyn Target,
    file: &mut workload::OpenFile,
    contents: &[u8],
) -> Result<()> {
    let mut left = contents;
    while !left.is_empty() {
        let count = target.write(file, left)?;
        left = &left[count..];
    }
    Ok(target.fsync(file)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_creates_the_same_number() {
        let load = Load {
            directories: Directories::Own,
            threads: 3,
            files: 10,
            bytes: 4096,
        };
        assert_eq!(load.file_count(), 12);
        assert_eq!(load.directory(2), "thread2");
    }
}
