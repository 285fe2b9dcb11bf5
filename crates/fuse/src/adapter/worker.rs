//! A thread for work that waits for the kernel.
//!
//! The threads of the session answer the kernel's requests. None of them may wait for the kernel
//! while the kernel waits for an answer.

use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

/// A thread that executes pieces of work in order of arrival.
pub(crate) struct Worker<T> {
    /// The channel to the thread; `None` stops it.
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

    /// Stops the thread after its pending work.
    pub(crate) fn stop(&self) {
        self.send(None);
    }

    /// Adds a piece of work; without a thread it is dropped.
    pub(super) fn add(&self, piece: T) {
        self.send(Some(piece));
    }

    fn send(&self, piece: Option<T>) {
        if let Some(pieces) = self.pieces.get() {
            // The thread may have ended already.
            let _ = pieces.send(piece);
        }
    }
}
