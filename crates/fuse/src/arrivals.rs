//! Waits for the arrival of the kernel's cached writes.
//!
//! `sync -f` makes the kernel submit each dirty page as a WRITE request, and returns before these
//! are answered (observed on Linux 6.18.44). So [`Arrivals::wait`] checks for itself:
//!
//! 1. `sync -f`: all dirty pages are submitted.
//! 2. `stat -f`: a STATFS request is queued behind them. When it is answered, each of them has been
//!    read from the device.
//! 3. Each thread of the session is observed to hold none of them any more.
//! 4. The kernel holds requests back while [`BACKGROUND_MAX`] are in flight. If fewer than half of
//!    that arrived during steps 2 and 3, none was held back; otherwise both steps are repeated.
//!
//! A thread of the session holds no such request if, since step 2, it
//!
//! | state | observed by |
//! |---|---|
//! | has finished the write that it was in, or another | its count of writes |
//! | sleeps outside of a write, so at most for another request | its count and its state |
//! | has read twice outside of a write: it came back for another | both of its counts |
//!
//! Child processes wait in the kernel, and no thread of this process does: see
//! [`crate::mount_point`].

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::mount_point::MountPoint;
use crate::wakeups::Meter;

/// Maximum number of read-ahead and write-back requests in flight. While the kernel holds others
/// back, exactly as many are.
pub(crate) const BACKGROUND_MAX: u16 = 512;

/// The threads of this process.
const TASKS: &str = "/proc/self/task";
/// Prefix of the names of a session's threads.
const SESSION: &str = "fuser-";
/// Interval between checks of a busy thread.
const MOMENT: Duration = Duration::from_micros(50);

/// Write counter of each thread that has written, by thread id: twice the finished writes, plus one
/// during a write.
static WRITES: Mutex<BTreeMap<i32, Arc<AtomicU64>>> = Mutex::new(BTreeMap::new());

thread_local! {
    static OWN: OnceCell<Arc<AtomicU64>> = const { OnceCell::new() };
}

/// Executes a WRITE request.
pub(crate) fn write<T>(work: impl FnOnce() -> T) -> T {
    let own = OWN.with(|own| Arc::clone(own.get_or_init(register)));
    let _ending = Ending(&own);
    own.fetch_add(1, Ordering::SeqCst);
    work()
}

/// Counts the end of a write, also after a panic.
struct Ending<'a>(&'a AtomicU64);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn register() -> Arc<AtomicU64> {
    let own = Arc::<AtomicU64>::default();
    let number = rustix::thread::gettid().as_raw_pid();
    let mut writes = WRITES.lock().unwrap_or_else(PoisonError::into_inner);
    writes.insert(number, Arc::clone(&own));
    own
}

/// Waits for the arrivals of one mount.
#[derive(Debug, Clone)]
pub(crate) struct Arrivals {
    point: MountPoint,
    meter: Arc<Meter>,
}

impl Arrivals {
    pub(crate) fn new(point: MountPoint, meter: Arc<Meter>) -> Self {
        Self { point, meter }
    }

    /// Returns when all earlier writes of programs have been written to the volume, or have failed.
    pub(crate) fn wait(&self) -> io::Result<()> {
        self.point.sync()?;
        loop {
            let before = self.meter.requests();
            self.point.ask()?;
            for task in session()? {
                task.settle()?;
            }
            if self.meter.requests() - before < u64::from(BACKGROUND_MAX) / 2 {
                return Ok(());
            }
        }
    }
}

/// A thread of a session.
struct Task {
    folder: PathBuf,
    writes: Option<Arc<AtomicU64>>,
}

/// Returns the threads of all sessions in this process.
fn session() -> io::Result<Vec<Task>> {
    let mut found = Vec::new();
    for task in fs::read_dir(TASKS)? {
        let folder = task?.path();
        // A thread may exit meanwhile.
        if fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.starts_with(SESSION)) {
            found.push(Task::new(folder));
        }
    }
    Ok(found)
}

impl Task {
    fn new(folder: PathBuf) -> Self {
        let number = folder
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok());
        let writes = WRITES.lock().unwrap_or_else(PoisonError::into_inner);
        let writes = number.and_then(|number: i32| writes.get(&number).cloned());
        Self { folder, writes }
    }

    /// Returns the count of its writes. The counter of a thread that writes for the first time is
    /// looked up again.
    fn count(&mut self) -> u64 {
        if self.writes.is_none() {
            self.writes = Self::new(self.folder.clone()).writes;
        }
        let writes = self.writes.as_ref();
        writes.map_or(0, |writes| writes.load(Ordering::SeqCst))
    }

    /// Returns when the thread holds no request that was read from the device before.
    fn settle(mut self) -> io::Result<()> {
        let Some(reads) = reads(&self.folder)? else {
            return Ok(());
        };
        let first = self.count();
        let was_writing = first % 2 == 1;
        loop {
            let count = self.count();
            if count >= first + if was_writing { 1 } else { 2 } {
                return Ok(());
            }
            if count == first && !was_writing {
                let Some(now) = self::reads(&self.folder)? else {
                    return Ok(());
                };
                let holds_nothing = now >= reads + 2 || is_asleep(&self.folder)?;
                if holds_nothing && self.count() == first {
                    return Ok(());
                }
            }
            thread::sleep(MOMENT);
        }
    }
}

/// Reads a file of a thread. Returns `None` if the thread has exited.
fn told(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        // A file that was opened before the exit returns ESRCH.
        Err(error) if error.kind() == io::ErrorKind::NotFound || is_no_process(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_no_process(error: &io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::SRCH)
}

/// Returns the number of reads of a thread; `None` if it has exited. A kernel without this counter
/// reports 0.
fn reads(folder: &Path) -> io::Result<Option<u64>> {
    let Some(text) = told(&folder.join("io"))? else {
        return Ok(folder.exists().then_some(0));
    };
    let line = text.lines().find_map(|line| line.strip_prefix("syscr:"));
    Ok(Some(
        line.and_then(|count| count.trim().parse().ok())
            .unwrap_or(0),
    ))
}

/// True if a thread sleeps, as one does that waits for a request, or has exited.
fn is_asleep(folder: &Path) -> io::Result<bool> {
    let Some(text) = told(&folder.join("stat"))? else {
        return Ok(true);
    };
    // "NUMBER (NAME) STATE ..."; the name may hold anything.
    let state = text.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
    Ok(state == Some(b'S'))
}
