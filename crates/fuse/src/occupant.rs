//! A thread of the lowest priority that occupies an otherwise idle processor.

use std::fs;
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
/// State and policy of the calling thread.
const STATUS: &str = "/proc/thread-self/stat";
/// The policies under which the priority counts: SCHED_OTHER and SCHED_BATCH.
const POLICIES: [&str; 2] = ["0", "3"];

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
    /// Fails if no thread of that priority can be started: a real-time process starts real-time
    /// threads, which would keep every program off that processor.
    pub(crate) fn start() -> io::Result<Self> {
        let flags = Arc::<Flags>::default();
        let own = Arc::clone(&flags);
        let (sender, begun) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(THREAD.to_owned())
            .spawn(move || {
                let done = lower();
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

/// Gives the calling thread the lowest priority.
fn lower() -> io::Result<()> {
    if !is_fair(&fs::read_to_string(STATUS)?) {
        return Err(io::Error::other(
            "the process is scheduled without priorities",
        ));
    }
    // In Linux the priority is one of a thread.
    Ok(setpriority_process(
        Some(rustix::thread::gettid()),
        PRIORITY,
    )?)
}

/// True if the priority of a thread counts, by its `stat`.
fn is_fair(status: &str) -> bool {
    // "NUMBER (NAME) STATE ...": the policy is field 41, and the name may hold anything.
    let fields = status.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let policy = fields.split_ascii_whitespace().nth(41 - 3);
    policy.is_some_and(|policy| POLICIES.contains(&policy))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_time_thread_has_no_lowest_priority() {
        let status = |policy: u32| format!("7 (a) b) R {}0 {policy} 0", "1 ".repeat(36));
        assert!(is_fair(&status(0)));
        assert!(!is_fair(&status(1)), "SCHED_FIFO");
        assert!(!is_fair(&status(2)), "SCHED_RR");
        assert!(is_fair(&status(3)));
        assert!(!is_fair(""));
    }
}
