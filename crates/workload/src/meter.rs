//! [`Meter`]: a target with timed calls, the lowest layer that all workloads share.

use std::sync::Arc;

use crate::error::TargetError;
use crate::latency::Latencies;
use crate::run_error::RunError;
use crate::target::{OpenFile, Target};

/// Kind of a timed operation. Each is one call of a target, except transactions and responses,
/// which consist of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Opens a file and thereby creates it.
    Create,
    /// Opens an existing file.
    Open,
    /// Reads from a file.
    Read,
    /// Writes within a file or to a new one.
    Write,
    /// Writes at the end of an existing file.
    Append,
    /// Makes a file durable.
    Fsync,
    /// Closes a file.
    Close,
    /// Removes a directory entry.
    Delete,
    /// Makes everything durable.
    Sync,
    /// A transaction of PostMark.
    Transaction,
    /// Makes the data of a file durable.
    Fdatasync,
    /// Makes the entries of a directory durable.
    DirectoryFsync,
    /// Renames a file.
    Rename,
    /// Reads attributes.
    Stat,
    /// Lists a directory.
    List,
    /// Creates a directory.
    MakeDirectory,
    /// Removes a directory.
    RemoveDirectory,
    /// Creates a hard link.
    Link,
    /// Creates a symbolic link.
    Symlink,
    /// Reads a symbolic link.
    ReadLink,
    /// Changes the size of a file.
    Truncate,
    /// Changes the times of a file.
    SetTimes,
    /// A request of an open-loop load, measured from the time when it was due.
    Response,
}

impl Call {
    /// Labels of the latencies of all calls.
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

    /// Returns the label of this call's latencies.
    #[must_use]
    pub fn label(self) -> &'static str {
        Self::LABELS[self as usize]
    }
}

/// A target with timed calls.
#[derive(Clone)]
pub struct Meter {
    target: Arc<dyn Target>,
    latencies: Option<Latencies>,
}

impl Meter {
    /// Returns a meter for `target`; times its calls if `is_timed`.
    #[must_use]
    pub fn new(target: Arc<dyn Target>, is_timed: bool) -> Self {
        Self {
            target,
            latencies: is_timed.then(|| Latencies::new(Call::LABELS)),
        }
    }

    /// Returns the target, for calls that are not timed.
    #[must_use]
    pub fn target(&self) -> &Arc<dyn Target> {
        &self.target
    }

    /// Makes a call and records its latency.
    ///
    /// # Errors
    /// Fails if the call fails.
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

    /// Returns the start time of a call, if calls are timed.
    #[must_use]
    pub fn start(&self) -> Option<rt::Nanos> {
        self.latencies.as_ref().map(|_| rt::monotonic())
    }

    /// Records the time since `began`, the result of [`start`](Self::start).
    pub fn stop(&mut self, call: Call, began: Option<rt::Nanos>) {
        if let Some(began) = began {
            self.record(call, rt::monotonic().saturating_sub(began));
        }
    }

    /// Records a latency that was measured separately.
    pub fn record(&mut self, call: Call, span: rt::Nanos) {
        if let Some(latencies) = &mut self.latencies {
            latencies.record(call as usize, span);
        }
    }

    /// Returns the recorded latencies.
    #[must_use]
    pub fn into_latencies(self) -> Option<Latencies> {
        self.latencies
    }

    /// Takes the recorded latencies and resets the meter.
    pub fn take_latencies(&mut self) -> Option<Latencies> {
        let empty = self
            .latencies
            .is_some()
            .then(|| Latencies::new(Call::LABELS));
        std::mem::replace(&mut self.latencies, empty)
    }

    /// Writes all of `data` at the position, in as many calls as the target needs. Calls `after`
    /// after each of them.
    ///
    /// # Errors
    /// Fails if a call or `after` fails, or if a call writes nothing.
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

    /// Reads at the position until `buffer` is full or the file ends, and returns the number of
    /// bytes.
    ///
    /// # Errors
    /// Fails if a call fails.
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
