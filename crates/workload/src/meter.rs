//! [`Meter`]: a target with a stopwatch, the lowest of what all workloads share.

use std::sync::Arc;

use crate::error::TargetError;
use crate::latency::Latencies;
use crate::run_error::RunError;
use crate::target::{OpenFile, Target};

/// What is timed. Each is one call of a target, but the last, which are made of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Opening a file that is thereby made.
    Create,
    /// Opening a file that is there.
    Open,
    /// Reading.
    Read,
    /// Writing within a file or to a new one.
    Write,
    /// Writing at the end of a file that was there.
    Append,
    /// Making a file durable.
    Fsync,
    /// Closing.
    Close,
    /// Removing a name.
    Delete,
    /// Making everything durable.
    Sync,
    /// A transaction of PostMark.
    Transaction,
    /// Making a file's data durable.
    Fdatasync,
    /// Making a directory's entries durable.
    DirectoryFsync,
    /// Renaming.
    Rename,
    /// Looking at attributes.
    Stat,
    /// Listing a directory.
    List,
    /// Making a directory.
    MakeDirectory,
    /// Removing a directory.
    RemoveDirectory,
    /// Giving a second name.
    Link,
    /// Making a symbolic link.
    Symlink,
    /// Reading a symbolic link.
    ReadLink,
    /// Changing a size.
    Truncate,
    /// Changing times.
    SetTimes,
    /// A request of an open-loop load, from when it was due.
    Response,
}

impl Call {
    /// The labels of all calls' latencies.
    pub const LABELS: &[&str] = &[
        "create",
        "open",
        "read",
        "write",
        "append",
        "fsync",
        "close",
        "delete",
        "sync",
        "transaction",
        "fdatasync",
        "fsync directory",
        "rename",
        "stat",
        "list",
        "mkdir",
        "rmdir",
        "link",
        "symlink",
        "readlink",
        "truncate",
        "set times",
        "response",
    ];

    /// The label of this call's latencies.
    #[must_use]
    pub fn label(self) -> &'static str {
        Self::LABELS[self as usize]
    }
}

/// A target with a stopwatch.
#[derive(Clone)]
pub struct Meter {
    target: Arc<dyn Target>,
    latencies: Option<Latencies>,
}

impl Meter {
    /// A target, and whether its calls are timed.
    #[must_use]
    pub fn new(target: Arc<dyn Target>, is_timed: bool) -> Self {
        Self {
            target,
            latencies: is_timed.then(|| Latencies::new(Call::LABELS)),
        }
    }

    /// The target itself, for calls that are not timed.
    #[must_use]
    pub fn target(&self) -> &Arc<dyn Target> {
        &self.target
    }

    /// Does a call and records how long it took.
    pub fn time<T>(
        &mut self,
        call: Call,
        work: impl FnOnce(&dyn Target) -> Result<T, TargetError>,
    ) -> Result<T, TargetError> {
        let began = self.start();
        let result = work(&*self.target);
        self.stop(call, began);
        result
    }

    /// Starts the stopwatch, if there is one.
    #[must_use]
    pub fn start(&self) -> Option<rt::Nanos> {
        self.latencies.as_ref().map(|_| rt::monotonic())
    }

    /// Records the time since it was started.
    pub fn stop(&mut self, call: Call, began: Option<rt::Nanos>) {
        if let Some(began) = began {
            self.record(call, rt::monotonic().saturating_sub(began));
        }
    }

    /// Records a time that was measured otherwise.
    pub fn record(&mut self, call: Call, span: rt::Nanos) {
        if let Some(latencies) = &mut self.latencies {
            latencies.record(call as usize, span);
        }
    }

    /// What was recorded.
    #[must_use]
    pub fn into_latencies(self) -> Option<Latencies> {
        self.latencies
    }

    /// Takes what was recorded, and begins again.
    pub fn take_latencies(&mut self) -> Option<Latencies> {
        let empty = self
            .latencies
            .is_some()
            .then(|| Latencies::new(Call::LABELS));
        std::mem::replace(&mut self.latencies, empty)
    }

    /// Writes all of `data` at the position, in as many calls as the target needs; `after` is called after each.
    pub fn write_all<E: From<TargetError> + From<RunError>>(
        &mut self,
        call: Call,
        file: &mut OpenFile,
        path: &str,
        mut data: &[u8],
        mut after: impl FnMut(&mut Self, &OpenFile) -> Result<(), TargetError>,
    ) -> Result<(), E> {
        loop {
            let count = self.time(call, |target| target.write(file, data))?;
            after(self, file)?;
            if count >= data.len() {
                return Ok(());
            }
            if count == 0 {
                let path = path.to_owned();
                return Err(RunError::WroteNothing { path }.into());
            }
            data = &data[count..];
        }
    }

    /// Reads at the position until `buffer` is full or the file ends; returns how many bytes.
    pub fn read_full(
        &mut self,
        file: &mut OpenFile,
        buffer: &mut [u8],
    ) -> Result<usize, TargetError> {
        let mut done = 0;
        loop {
            let rest = &mut buffer[done..];
            let count = self.time(Call::Read, |target| target.read(file, rest))?;
            done += count;
            if count == 0 || done == buffer.len() {
                return Ok(done);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_has_its_label() {
        assert_eq!(Call::Create.label(), "create");
        assert_eq!(Call::Transaction.label(), "transaction");
        assert_eq!(Call::Response.label(), "response");
        assert_eq!(Call::Response as usize + 1, Call::LABELS.len());
    }
}
