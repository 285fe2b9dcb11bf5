//! A thread for work that waits for the kernel.
//!
//! The threads of the session answer the kernel's requests. None of them may wait for the kernel
//! while the kernel waits for an answer.

use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

/// A thread that does one piece of work after the other, in the order in which they came.
pub(crate) struct Worker<T> {
    /// The way to the thread; `None` ends it.
    pieces: OnceLock<Sender<Option<T>>>,
}

impl<T> Default for Worker<T> {
    fn default() -> Self {
        Self {
            pieces: OnceLock::new(),
        }
    }
}

impl<T: Send + 'static> Worker<T> {
    /// Starts the thread, once.
    pub(super) fn start(
        &self,
        name: &str,
        work: impl Fn(T) + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let (sender, pieces) = mpsc::channel();
        let _ = self.pieces.set(sender);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            while let Ok(Some(piece)) = pieces.recv() {
                work(piece);
            }
        })
    }

    /// Ends the thread after the work that it was given.
    pub(crate) fn stop(&self) {
        self.send(None);
    }

    /// Passes on a piece of work; without a thread it is dropped.
    pub(super) fn add(&self, piece: T) {
        self.send(Some(piece));
    }

    fn send(&self, piece: Option<T>) {
        if let Some(pieces) = self.pieces.get() {
            // The thread may have ended by itself.
            let _ = pieces.send(piece);
        }
    }
}
