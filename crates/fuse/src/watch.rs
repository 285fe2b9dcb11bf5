//! Reports a volume that has become read-only in the table of mounts.
//!
//! After an error in the journal, changes fail with EROFS, which the kernel does not show. A thread
//! checks periodically for that state, and then remounts read-only, as the kernel's ext3 does by
//! itself. The kernel first writes back its cache, which the threads of the session have to answer
//! (the writes fail). It refuses as long as a file is open for writing; the thread keeps trying.
//!
//! After a panic every request fails, and the mount stays as it is.
//!
//! Without root the kernel always refuses, and fusermount3 has no such command: the log records it,
//! and changes still fail.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::adapter::Guard;
use crate::mount_point::MountPoint;

/// Interval between checks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Name of the thread.
const THREAD: &str = "jext-watch";

/// The thread that checks the volume.
pub(crate) struct Watch {
    /// Stops the thread when dropped.
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Starts the thread.
    pub(crate) fn start(guard: Guard, point: MountPoint) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(THREAD.to_owned())
            .spawn(move || watch(&guard, &point, &stopped))?;
        Ok(Self { stop, thread })
    }

    /// Stops the thread.
    pub(crate) fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the thread that watches the volume has panicked");
        }
    }
}

fn watch(guard: &Guard, point: &MountPoint, stopped: &Receiver<()>) {
    // A volume that was opened read-only is mounted read-only from the start.
    if guard.fs.is_read_only() {
        return;
    }
    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        if !guard.fs.is_read_only() {
            continue;
        }
        if guard.has_panicked() {
            return;
        }
        let at = point.path().display();
        match point.make_read_only() {
            Ok(()) => return tracing::warn!(%at, "the mount is read-only from here on"),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                tracing::debug!(%at, "not read-only yet: a file is open for writing");
            }
            Err(error) => {
                return tracing::warn!(%at, %error, "changes are refused, but the table of mounts does not say so");
            }
        }
    }
}
