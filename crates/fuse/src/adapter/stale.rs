//! Directory entries that the kernel must look up again.
//!
//! A change of names can be done and fail all the same: in a synchronous directory its commit may
//! find no room on the host, or the
//! device fails. The kernel takes the error for "nothing has changed" and keeps its entries for
//! ever. So each entry that a failed change
//! names is invalidated.
//!
//! # Rules
//!
//! - The kernel holds the locks of the directories until it has the answer, and invalidating an
//! entry takes the lock of its directory. So
//!   it is done by a thread of its own, which waits in the kernel until the answer is there.
//! - A refusal that comes before any change (the name exists, a directory is not empty) invalidates
//! nothing.

use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use fuser::{Errno, INodeNo};

use super::Adapter;
use super::privileges::NotifierSlot;
use crate::vfs::Vfs;

/// The name of the thread.
const THREAD: &str = "jext-stale";

/// The way to the thread that invalidates entries.
#[derive(Default)]
pub(crate) struct Stale {
    /// None ends it.
    entries: OnceLock<Sender<Option<Name>>>,
}

/// A directory entry.
struct Name {
    directory: INodeNo,
    name: OsString,
}

impl Stale {
    /// Starts the thread, once.
    pub(crate) fn start(&self, notifier: NotifierSlot) -> io::Result<JoinHandle<()>> {
        let (sender, entries) = mpsc::channel();
        let _ = self.entries.set(sender);
        thread::Builder::new()
            .name(THREAD.to_owned())
            .spawn(move || {
                while let Ok(Some(entry)) = entries.recv() {
                    invalidate(&notifier, &entry);
                }
            })
    }

    /// Ends the thread when it has done what it was given.
    pub(crate) fn stop(&self) {
        if let Some(entries) = self.entries.get() {
            // It may have ended by itself.
            let _ = entries.send(None);
        }
    }

    fn add(&self, directory: INodeNo, name: &OsStr) {
        if let Some(entries) = self.entries.get() {
            let name = name.to_owned();
            let _ = entries.send(Some(Name { directory, name }));
        }
    }
}

impl<V: Vfs> Adapter<V> {
    /// Returns the way to the thread that invalidates entries.
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

fn invalidate(notifier: &NotifierSlot, entry: &Name) {
    if let Some(notifier) = notifier.get()
        && let Err(error) = notifier.inval_entry(entry.directory, &entry.name)
    {
        tracing::debug!(directory = %entry.directory, name = ?entry.name, %error, "an entry may be stale");
    }
}
