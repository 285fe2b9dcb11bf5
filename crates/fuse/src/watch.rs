//! A volume that has become read-only, and the table of mounts, which is to say so.
//!
//! After an error in the journal changes fail with EROFS, and the kernel knows nothing of it. A thread looks now and then whether it has come to
//! that, and then makes the mount read-only, as the kernel's ext3 does with itself. The kernel writes back what it keeps first, which the threads
//! of the session have to answer (the writes fail). It refuses as long as a file is open for writing; the thread goes on trying.
//!
//! After a panic everything fails, and the mount stays as it is.
//!
//! Without root the kernel refuses for good, and fusermount3 has no word for it: the log says so, and changes fail all the same.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::adapter::Guard;
use crate::mount_point::MountPoint;
use crate::vfs::Vfs;

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// The name of the thread.
const THREAD: &str = "jext-watch";

/// The thread that looks.
pub(crate) struct Watch {
    /// Ends it by going.
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Looks from now on.
    pub(crate) fn start<V: Vfs>(guard: Guard<V>, point: MountPoint) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(THREAD.to_owned())
            .spawn(move || watch(&guard, &point, &stopped))?;
        Ok(Self { stop, thread })
    }

    /// Looks no more.
    pub(crate) fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the thread that watches the volume has panicked");
        }
    }
}

fn watch<V: Vfs>(guard: &Guard<V>, point: &MountPoint, stopped: &Receiver<()>) {
    // Who mounts what can only be read says so at once.
    if guard.vfs.is_read_only() {
        return;
    }
    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        if !guard.vfs.is_read_only() {
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
