//! Threads that create, look up, rename and remove files, each in a directory of its own.

use anyhow::{Result, ensure};
use workload::{OpenFlags, Target};

use super::super::opened::Opened;
use super::super::site::Site;
use super::Done;
use crate::crew;

/// Threads with files of their own.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Metadata {
    pub(in super::super) threads: u32,
    /// Number of files of each thread.
    pub(in super::super) files: u32,
}

/// An operation on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Lookup,
    Rename,
    Unlink,
}

impl Operation {
    /// All of them, in the order in which they are timed.
    pub(super) const ALL: [Self; 4] = [Self::Create, Self::Lookup, Self::Rename, Self::Unlink];

    /// Calls the target once, for the file of a number.
    pub(super) fn call(self, target: &dyn Target, directory: &str, number: u32) -> Result<()> {
        let path = format!("{directory}/file-{number:07}");
        let renamed = || format!("{directory}/renamed-{number:07}");
        match self {
            Self::Create => target.close(target.open(&path, OpenFlags::WRITE.create_new())?)?,
            Self::Lookup => {
                target.stat(&path)?;
            }
            Self::Rename => target.rename(&path, &renamed())?,
            Self::Unlink => target.unlink(&renamed())?,
        }
        Ok(())
    }

    /// True if it changes the file system.
    pub(super) fn is_change(self) -> bool {
        self != Self::Lookup
    }
}

impl Metadata {
    /// Returns the rates of all operations. Those of changes include a sync.
    pub(super) fn run(self, site: &Site, opened: &Opened) -> Result<Done> {
        for thread in 0..self.threads {
            opened.target().mkdir(&directory(thread))?;
        }
        opened.sync()?;
        let mut rates = Vec::new();
        for operation in Operation::ALL {
            let seconds = self.time(site, opened, operation)?;
            rates.push(f64::from(self.threads) * f64::from(self.files) / seconds);
        }
        Ok(Done::of(rates))
    }

    /// Returns the seconds of an operation on all files.
    fn time(self, site: &Site, opened: &Opened, operation: Operation) -> Result<f64> {
        let (target, control) = (&**opened.target(), &*site.control);
        let started = crew::run(self.threads, |thread| {
            let directory = directory(thread);
            for number in 0..self.files {
                ensure!(!control.is_cancelled(), "interrupted");
                operation.call(target, &directory, number)?;
            }
            Ok(())
        })?;
        if operation.is_change() {
            opened.sync()?;
        }
        Ok(started.elapsed().as_secs_f64())
    }
}

fn directory(thread: u32) -> String {
    format!("thread{thread}")
}
