//! Busy polling: asking the kernel again and again instead of sleeping, while requests come thick and fast.
//!
//! Who waits for a request has to be woken, and so has the processor that he is to run on. Where a program does one small thing after
//! the other, that takes longer than the requests themselves. So while they are dense, one thread of the session does not sleep: its
//! device is set to `O_NONBLOCK`, and fuser, which is told that there is nothing, reads again at once. A thread of our own looks now and then
//! whether this still pays.
//!
//! | what it sees | what follows |
//! |---|---|
//! | requests are dense | polling |
//! | they are not | no polling; the thread that would poll sleeps in its next read |
//! | the polling thread has had to wait for a processor | others have work for it: no polling, and each time a longer pause before it is tried again |
//! | no request at all | this thread sleeps, too, until there is one |
//!
//! So an idle mount costs nothing, a busy machine next to nothing, and else it is at most one processor.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

/// Polling saves a wake-up, some 10 to 20 microseconds of a virtual machine. From so many requests in a second on that is a tenth of the time or more.
const DENSE: f64 = 10_000.0;
/// The longest part of the time that the polling thread may wait for a processor.
const WAITING_MAX: f64 = 0.2;
/// The time between two looks while there is polling.
const POLLING_TICK: Duration = Duration::from_millis(10);
/// The time between two looks while there is none.
const TICK: Duration = Duration::from_millis(50);
/// The longest pause after others have needed the processor, in ticks.
const PAUSE_MAX: u32 = 32;
/// The name of the thread.
const THREAD: &str = "jext-polling";

/// Counts requests, and wakes who looks at their number.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    requests: AtomicU64,
    /// Whether the next request is to wake the thread. Where one slips through, another follows, or it does not matter.
    is_asleep: AtomicBool,
    has_ended: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Meter {
    /// One request more.
    pub(crate) fn count(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.is_asleep.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// The number of requests so far.
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

/// The thread that looks.
pub(crate) struct Polling {
    meter: Arc<Meter>,
    thread: JoinHandle<()>,
}

impl Polling {
    /// Looks from now on. The device is the one of the session's thread that may poll, which has that name.
    ///
    /// # Errors
    /// If no thread can be started.
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
                // Whatever has happened, nobody polls unwatched.
                if let Err(error) = ended.and(work.set_polling(false)) {
                    tracing::info!(%error, "no busy polling from here on");
                }
            })?;
        let _ = meter.thread.set(thread.thread().clone());
        Ok(Self { meter, thread })
    }

    /// Looks no more.
    pub(crate) fn stop(self) {
        self.meter.has_ended.store(true, Ordering::Release);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("the thread that decides on polling has panicked");
        }
    }
}

/// What is to be done until the next look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Polling.
    Polling,
    /// None.
    Waiting,
    /// None, and no look before there is a request.
    Asleep,
}

/// From what was seen to what is to be done.
struct Judge {
    mode: Mode,
    /// How many ticks there is no polling.
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

    /// After `elapsed` with so many requests, in which the polling thread has waited so long for a processor.
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

/// What is known at one time.
struct Seen {
    at: Instant,
    requests: u64,
    waited: Duration,
}

/// What the thread works with.
struct Work {
    meter: Arc<Meter>,
    device: OwnedFd,
    session_thread: String,
    /// What the scheduler says of the session's thread; from the first polling on.
    waiting: Option<Vec<File>>,
}

impl Work {
    fn run(&mut self) -> io::Result<()> {
        let mut judge = Judge::new();
        // Asked before every sleep: the word of the end wakes only once.
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

    /// How long the session's thread has been ready to run and has not run, ever.
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

/// What the scheduler says of the threads of that name in this process. There is one, unless there are several mounts.
fn statistics_of(name: &str) -> io::Result<Vec<File>> {
    let mut found = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        let path = task?.path();
        // A thread may end meanwhile.
        if fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name) {
            found.push(File::open(path.join("schedstat"))?);
        }
    }
    if found.is_empty() {
        return Err(io::Error::other(format!("there is no thread {name}")));
    }
    Ok(found)
}

/// `schedstat`: nanoseconds on a processor, nanoseconds of waiting for one, turns.
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
            // It polls again, and somebody waits at once.
            assert_eq!(judge.judge(SECOND, 20_000, half), Mode::Waiting);
            pauses.push(pause);
        }
        assert_eq!(pauses, [1, 4, 16, 32, 32, 32, 32, 32]);
        while judge.judge(SECOND, 20_000, Duration::ZERO) != Mode::Polling {}
        judge.judge(SECOND, 20_000, Duration::ZERO);
        assert_eq!(judge.next_pause, 1, "nobody has waited");
    }

    /// Without the scheduler's word it ends, and leaves nobody polling.
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
