//! A thread of the lowest priority that occupies an otherwise idle processor.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, Thread};

use rustix::process::setpriority_process;

/// Name of the thread.
pub(crate) const THREAD: &str = "jext-occupant";
/// The lowest priority of a thread that the scheduler does not take for an idle processor, as it
/// does with SCHED_IDLE.
const PRIORITY: i32 = 19;

/// The flags of the thread.
#[derive(Default)]
struct Flags {
    is_spinning: AtomicBool,
    has_ended: AtomicBool,
}

/// The thread, which ends when this is dropped.
pub(crate) struct Occupant {
    flags: Arc<Flags>,
    thread: Thread,
}

impl Occupant {
    /// Starts the thread, which sleeps.
    ///
    /// # Errors
    /// Fails if no thread of that priority can be started.
    pub(crate) fn start() -> io::Result<Self> {
        let flags = Arc::<Flags>::default();
        let own = Arc::clone(&flags);
        let (sender, begun) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(THREAD.to_owned())
            .spawn(move || {
                // In Linux the priority is one of a thread.
                let done = setpriority_process(Some(rustix::thread::gettid()), PRIORITY);
                let has_begun = done.is_ok();
                if sender.send(done).is_ok() && has_begun {
                    occupy(&own);
                }
            })?;
        begun.recv().map_err(io::Error::other)??;
        Ok(Self {
            flags,
            thread: thread.thread().clone(),
        })
    }

    /// Lets the thread spin, or sleep.
    pub(crate) fn set_spinning(&self, is_spinning: bool) {
        self.flags.is_spinning.store(is_spinning, Ordering::SeqCst);
        self.thread.unpark();
    }
}

impl Drop for Occupant {
    fn drop(&mut self) {
        self.flags.has_ended.store(true, Ordering::SeqCst);
        self.set_spinning(false);
    }
}

fn occupy(flags: &Flags) {
    while !flags.has_ended.load(Ordering::SeqCst) {
        // Otherwise a thread that is woken on this processor waits for the end of a time slice.
        while flags.is_spinning.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        if !flags.has_ended.load(Ordering::SeqCst) {
            thread::park();
        }
    }
}
