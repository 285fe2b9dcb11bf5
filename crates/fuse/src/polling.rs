//! Busy polling: reading requests again and again instead of sleeping, while they are dense.
//!
//! A sleeping thread has to be woken for a request, and so does its processor. For a program that
//! makes many small requests in sequence, the wake-ups take longer than the requests. So while
//! requests are dense, one thread of the session does not sleep: its device is set to `O_NONBLOCK`,
//! and fuser reads again at once when there is no request. A separate thread checks periodically
//! whether this still pays.
//!
//! | observation | consequence |
//! |---|---|
//! | requests are dense | polling |
//! | they are not | no polling; the polling thread sleeps in its next read |
//! | the polling thread had to wait for a processor | no polling, with a longer pause each time |
//! | no request at all | this thread sleeps too, until there is one |
//!
//! So an idle mount costs nothing, a busy machine almost nothing, and otherwise the cost is at most
//! one processor.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

/// Requests per second above which polling pays. A saved wake-up is worth some 10 to 20
/// microseconds on a virtual machine, at this rate a tenth of the time or more.
const DENSE: f64 = 10_000.0;
/// Maximum fraction of time that the polling thread may wait for a processor.
const WAITING_MAX: f64 = 0.2;
/// Interval between checks while polling.
const POLLING_TICK: Duration = Duration::from_millis(10);
/// Interval between checks while not polling.
const TICK: Duration = Duration::from_millis(50);
/// Maximum pause after other threads needed the processor, in ticks.
const PAUSE_MAX: u32 = 32;
/// Name of the thread.
const THREAD: &str = "jext-polling";

/// A counter of requests that can wake its reader.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    requests: AtomicU64,
    /// True if the next request is to wake the thread. If a race misses one, a later request wakes
    /// it, or none comes and it does not matter.
    is_asleep: AtomicBool,
    has_ended: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Meter {
    /// Counts a request.
    pub(crate) fn count(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.is_asleep.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Returns the number of requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    #[cold]
    fn wake(&self) {
        if self.is_asleep.swap(false, Ordering::Relaxed)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

/// The thread that controls polling.
pub(crate) struct Polling {
    meter: Arc<Meter>,
    thread: JoinHandle<()>,
}

impl Polling {
    /// Starts the thread. `device` is the device of the session thread with that name, which may
    /// poll.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub(crate) fn start(
        meter: Arc<Meter>,
        device: OwnedFd,
        session_thread: String,
    ) -> io::Result<Self> {
        let mut work = Work {
            meter: Arc::clone(&meter),
            device,
            session_thread,
            waiting: None,
        };
        let thread = thread::Builder::new()
            .name(THREAD.to_owned())
            .spawn(move || {
                let ended = work.run();
                // After any failure, polling stops: it must not continue unsupervised.
                if let Err(error) = ended.and(work.set_polling(false)) {
                    tracing::info!(%error, "no busy polling from here on");
                }
            })?;
        let _ = meter.thread.set(thread.thread().clone());
        Ok(Self { meter, thread })
    }

    /// Stops the thread.
    pub(crate) fn stop(self) {
        self.meter.has_ended.store(true, Ordering::Release);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("the thread that decides on polling has panicked");
        }
    }
}

/// The mode until the next check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Polling.
    Polling,
    /// No polling.
    Waiting,
    /// No polling, and no check before there is a request.
    Asleep,
}

/// The decision from observations to a mode.
struct Judge {
    mode: Mode,
    /// Number of ticks left without polling.
    pause: u32,
    next_pause: u32,
}

impl Judge {
    fn new() -> Self {
        Self {
            mode: Mode::Asleep,
            pause: 0,
            next_pause: 1,
        }
    }

    /// Decides after `elapsed`, given the number of requests and the time that the polling thread
    /// waited for a processor.
    fn judge(&mut self, elapsed: Duration, requests: u64, waited: Duration) -> Mode {
        let is_dense = requests as f64 >= DENSE * elapsed.as_secs_f64();
        if self.mode == Mode::Polling {
            if waited > elapsed.mul_f64(WAITING_MAX) {
                self.pause = self.next_pause;
                self.next_pause = (self.next_pause * 2).min(PAUSE_MAX);
            } else {
                self.next_pause = 1;
            }
        } else {
            self.pause = self.pause.saturating_sub(1);
        }
        self.mode = if is_dense && self.pause == 0 {
            Mode::Polling
        } else if requests == 0 {
            Mode::Asleep
        } else {
            Mode::Waiting
        };
        self.mode
    }
}

/// An observation.
struct Seen {
    at: Instant,
    requests: u64,
    waited: Duration,
}

/// The state of the thread.
struct Work {
    meter: Arc<Meter>,
    device: OwnedFd,
    session_thread: String,
    /// Scheduler statistics of the session's thread; `None` before the first polling.
    waiting: Option<Vec<File>>,
}

impl Work {
    fn run(&mut self) -> io::Result<()> {
        let mut judge = Judge::new();
        // Checked before every sleep: the notification of the end wakes only once.
        while !self.has_ended() {
            let mode = judge.mode;
            if mode == Mode::Asleep {
                self.meter.is_asleep.store(true, Ordering::Relaxed);
                thread::park();
                if self.has_ended() {
                    break;
                }
            }
            let before = self.look(mode)?;
            let tick = match mode {
                Mode::Polling => POLLING_TICK,
                Mode::Waiting | Mode::Asleep => TICK,
            };
            thread::park_timeout(tick);
            let after = self.look(mode)?;
            let next = judge.judge(
                after.at - before.at,
                after.requests - before.requests,
                after.waited.saturating_sub(before.waited),
            );
            let is_polling = next == Mode::Polling;
            if is_polling != (mode == Mode::Polling) {
                self.set_polling(is_polling)?;
                tracing::debug!(is_polling);
            }
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.meter.has_ended.load(Ordering::Acquire)
    }

    fn look(&mut self, mode: Mode) -> io::Result<Seen> {
        let waited = match mode {
            Mode::Polling => self.waited()?,
            Mode::Waiting | Mode::Asleep => Duration::ZERO,
        };
        Ok(Seen {
            at: Instant::now(),
            requests: self.meter.requests.load(Ordering::Relaxed),
            waited,
        })
    }

    fn set_polling(&self, is_polling: bool) -> io::Result<()> {
        let mut flags = rustix::fs::fcntl_getfl(&self.device)?;
        flags.set(OFlags::NONBLOCK, is_polling);
        Ok(rustix::fs::fcntl_setfl(&self.device, flags)?)
    }

    /// Returns the total time for which the session's thread was ready but not running.
    fn waited(&mut self) -> io::Result<Duration> {
        if self.waiting.is_none() {
            self.waiting = Some(statistics_of(&self.session_thread)?);
        }
        let mut sum = Duration::ZERO;
        for file in self.waiting.iter().flatten() {
            sum += waited(file)?;
        }
        Ok(sum)
    }
}

/// Opens the scheduler statistics of the threads of that name in this process: one, unless there
/// are several mounts.
fn statistics_of(name: &str) -> io::Result<Vec<File>> {
    let mut found = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        let path = task?.path();
        // A thread may exit meanwhile.
        if fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name) {
            found.push(File::open(path.join("schedstat"))?);
        }
    }
    if found.is_empty() {
        return Err(io::Error::other(format!("there is no thread {name}")));
    }
    Ok(found)
}

/// Parses `schedstat`: nanoseconds on a processor, nanoseconds of waiting for one, time slices.
fn waited(statistics: &File) -> io::Result<Duration> {
    let mut text = [0; 80];
    let length = statistics.read_at(&mut text, 0)?;
    let nanoseconds = std::str::from_utf8(&text[..length])
        .ok()
        .and_then(|text| text.split_ascii_whitespace().nth(1))
        .and_then(|field| field.parse().ok());
    nanoseconds
        .map(Duration::from_nanos)
        .ok_or_else(|| io::Error::other("schedstat has another form than was expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn dense_requests_are_polled_for_until_there_are_fewer() {
        let mut judge = Judge::new();
        assert_eq!(judge.judge(SECOND, 9_000, Duration::ZERO), Mode::Waiting);
        assert_eq!(judge.judge(SECOND, 11_000, Duration::ZERO), Mode::Polling);
        assert_eq!(judge.judge(SECOND, 11_000, Duration::ZERO), Mode::Polling);
        assert_eq!(judge.judge(SECOND, 3, Duration::ZERO), Mode::Waiting);
        assert_eq!(judge.judge(SECOND, 0, Duration::ZERO), Mode::Asleep);
        assert_eq!(judge.judge(SECOND, 11_000, Duration::ZERO), Mode::Polling);
        assert_eq!(judge.judge(SECOND, 0, Duration::ZERO), Mode::Asleep);
    }

    #[test]
    fn where_others_need_the_processor_the_pauses_become_longer_and_longer() {
        let mut judge = Judge::new();
        let half = SECOND / 2;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            while judge.judge(SECOND, 20_000, Duration::ZERO) != Mode::Polling {}
            let mut pause = 1;
            assert_eq!(judge.judge(SECOND, 20_000, half), Mode::Waiting);
            while judge.judge(SECOND, 20_000, Duration::ZERO) != Mode::Polling {
                pause += 1;
            }
            // It polls again, and again a thread has to wait at once.
            assert_eq!(judge.judge(SECOND, 20_000, half), Mode::Waiting);
            pauses.push(pause);
        }
        assert_eq!(pauses, [1, 4, 16, 32, 32, 32, 32, 32]);
        while judge.judge(SECOND, 20_000, Duration::ZERO) != Mode::Polling {}
        judge.judge(SECOND, 20_000, Duration::ZERO);
        assert_eq!(judge.next_pause, 1, "nobody has waited");
    }

    /// Without scheduler statistics the thread exits and leaves polling off.
    #[test]
    fn what_cannot_be_watched_does_not_poll() {
        let (device, _other) = io::pipe().expect("a pipe");
        let device = OwnedFd::from(device);
        let same = device.try_clone().expect("a copy");
        let meter = Arc::new(Meter::default());
        let polling = Polling::start(Arc::clone(&meter), device, "jext-nobody".to_owned());
        let polling = polling.expect("a thread");
        while !polling.thread.is_finished() {
            meter.count();
        }
        let flags = rustix::fs::fcntl_getfl(&same).expect("flags");
        assert!(!flags.contains(OFlags::NONBLOCK));
        polling.stop();
    }

    #[test]
    fn the_scheduler_tells_of_the_threads_of_a_name() {
        let own = thread::Builder::new()
            .name("jext-named".to_owned())
            .spawn(|| statistics_of("jext-named").and_then(|files| waited(&files[0])))
            .expect("a thread");
        own.join().expect("no panic").expect("statistics");
        let error = statistics_of("jext-nobody").expect_err("nobody");
        assert_eq!(error.to_string(), "there is no thread jext-nobody");
    }
}
