//! Directory entries and contents that the kernel must ask for again.
//!
//! A change of directory entries can fail after it was made: the commit of a synchronous directory
//! may find no room on the host, or the device fails. The kernel takes the error to mean that
//! nothing has changed, and keeps its cached entries. So each entry named in a failed change is
//! invalidated.
//!
//! Mapped memory of an append-only file can be written to, which the kernel does not report before
//! it writes back; that is refused. It keeps the page, so that readers would see what no disk has.
//! So the contents of the file are invalidated.
//!
//! # Rules
//!
//! - The kernel holds the locks of the directories until it has the answer, and invalidating an
//!   entry takes the lock of its directory. So a separate thread does it, which waits in the kernel
//!   until the request has been answered. It waits for pages that are being written back, too.
//! - A refusal that comes before any change (the name exists, a directory is not empty)
//!   invalidates nothing.

use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use fuser::{Errno, INodeNo};
use layout::InodeNr;

use super::Adapter;
use super::privileges::NotifierSlot;
use super::worker::Worker;
use crate::attributes::node_of;

/// The name of the thread.
const THREAD: &str = "jext-stale";

/// Something that the kernel keeps.
enum Kept {
    /// A directory entry.
    Name { directory: INodeNo, name: OsString },
    /// The contents of a file.
    Contents(INodeNo),
}

/// The thread that invalidates it.
#[derive(Default)]
pub(crate) struct Stale(Worker<Kept>);

impl Stale {
    /// Starts the thread, once.
    pub(crate) fn start(&self, notifier: NotifierSlot) -> io::Result<JoinHandle<()>> {
        self.0
            .start(THREAD, move |kept| invalidate(&notifier, &kept))
    }

    /// Stops the thread after its pending entries.
    pub(crate) fn stop(&self) {
        self.0.stop();
    }

    fn add(&self, directory: INodeNo, name: &OsStr) {
        let name = name.to_owned();
        self.0.add(Kept::Name { directory, name });
    }

    /// Invalidates the contents of a file.
    pub(super) fn add_contents(&self, node: InodeNr) {
        self.0.add(Kept::Contents(node_of(node)));
    }
}

impl Adapter {
    /// Returns the thread that invalidates entries and contents.
    pub(crate) fn stale(&self) -> Arc<Stale> {
        Arc::clone(&self.stale)
    }

    /// Passes on the result of a change of directory entries. If it failed but may have been done,
    /// the kernel looks them up again.
    pub(super) fn changed<T>(
        &self,
        entries: &[(INodeNo, &OsStr)],
        result: Result<T, Errno>,
    ) -> Result<T, Errno> {
        if result.as_ref().is_err_and(may_be_done) {
            for &(directory, name) in entries {
                self.stale.add(directory, name);
            }
        }
        result
    }

    /// Passes on the result of a change of a node's attributes. If it failed but may have been
    /// done, the kernel asks for them again.
    pub(super) fn changed_node<T>(
        &self,
        node: INodeNo,
        result: Result<T, Errno>,
    ) -> Result<T, Errno> {
        if result.as_ref().is_err_and(may_be_done)
            && let Ok(node) = super::inode(node)
        {
            self.ask_again(node);
        }
        result
    }
}

/// True for the errors of the device and of the journal, which can come after the change.
fn may_be_done(errno: &Errno) -> bool {
    [Errno::ENOSPC, Errno::EIO, Errno::EROFS]
        .iter()
        .any(|late| late.code() == errno.code())
}

fn invalidate(notifier: &NotifierSlot, kept: &Kept) {
    let Some(notifier) = notifier.get() else {
        return;
    };
    match kept {
        Kept::Name { directory, name } => {
            if let Err(error) = notifier.inval_entry(*directory, name) {
                tracing::debug!(%directory, ?name, %error, "an entry may be stale");
            }
        }
        Kept::Contents(node) => {
            if let Err(error) = notifier.inval_inode(*node, 0, 0) {
                tracing::debug!(%node, %error, "contents may be stale");
            }
        }
    }
}
