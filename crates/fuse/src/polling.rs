//! Answering dense requests without waiting for wake-ups.
//!
//! A sleeping thread has to be woken for a request, and so does its processor. For a program that
//! makes many small requests in sequence, the wake-ups take longer than the requests. What avoids
//! them depends on the number of processors:
//!
//! | processors | while requests are dense |
//! |---|---|
//! | one | one thread of the session reads: see [`crate::turns`] |
//! | two | the same, and a thread of the lowest priority occupies the other processor |
//! | more | one thread of the session polls |
//!
//! - Two: the scheduler wakes a thread on an idle processor if there is one, so that each request
//!   and each answer would wake a processor. If there is none, the program and the thread that
//!   answers it follow each other on the same processor.
//! - Polling: the device of one thread is set to `O_NONBLOCK`, and fuser reads again at once when
//!   there is no request.
//!
//! A separate thread checks periodically whether this still pays.
//!
//! | observation | consequence |
//! |---|---|
//! | requests are dense | the above: the mode is busy |
//! | they are not | not busy; all threads of the session sleep in their next read |
//! | the polling or occupying thread waited for a processor | not busy, each time for longer |
//! | one thread reads, and many requests may wait, as syncs do | the same |
//! | no request at all | this thread sleeps too, until there is one |
//!
//! So an idle mount costs nothing, a busy machine almost nothing, and otherwise the cost is at most
//! one processor.

use std::fs::{self, File};
use std::io;
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::occupant::{self, Occupant};
use crate::turns::{Supervisor, Turns};

/// Requests per second above which polling pays. A saved wake-up is worth some 10 to 20
/// microseconds on a virtual machine, at this rate a tenth of the time or more.
const DENSE: f64 = 10_000.0;
/// Maximum fraction of time that the polling thread may wait for a processor.
const WAITING_MAX: f64 = 0.2;
/// The same for the occupying thread: a process of higher priority takes all but little.
const OCCUPANT_WAITING_MAX: f64 = 0.9;
/// Maximum fraction of requests that may wait while one thread reads.
const LONG_MAX: f64 = 1.0 / 16.0;
/// Interval between checks while busy.
const BUSY_TICK: Duration = Duration::from_millis(10);
/// Interval between looks for requests that wait with their turn, and their number in a tick.
const WATCH_TICK: Duration = Duration::from_millis(2);
const WATCHES: u32 = 5;
/// Interval between checks while not busy.
const TICK: Duration = Duration::from_millis(50);
/// Maximum pause after other threads needed the processor, in ticks.
const PAUSE_MAX: u32 = 32;
/// List of the processors that are online.
const ONLINE: &str = "/sys/devices/system/cpu/online";
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
    /// Starts the thread.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub(crate) fn start(meter: Arc<Meter>, way: Way) -> io::Result<Self> {
        let mut work = Work {
            meter: Arc::clone(&meter),
            way,
            waiting: None,
        };
        let thread = thread::Builder::new()
            .name(THREAD.to_owned())
            .spawn(move || {
                let ended = work.run();
                // After any failure, this stops: it must not continue unsupervised.
                if let Err(error) = ended.and(work.way.set_busy(false)) {
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

/// The way to answer dense requests.
pub(crate) enum Way {
    /// One thread reads.
    Alone(Supervisor),
    /// One thread reads, and another occupies a processor.
    Share(Supervisor, Occupant),
    /// A thread polls.
    Poll {
        /// The device of that thread.
        device: OwnedFd,
        /// The name of that thread.
        thread: String,
    },
}

impl Way {
    /// Returns the way on this machine; `None` if there is none. The device is that of the
    /// session's thread with that name.
    pub(crate) fn of_machine(turns: Arc<Turns>, device: OwnedFd, thread: String) -> Option<Self> {
        let online = fs::read_to_string(ONLINE).ok();
        let online = online.and_then(|text| count_of(text.trim_end()));
        let usable = thread::available_parallelism().map_or(1, NonZero::get);
        match (online, usable) {
            (Some(1), _) => Some(Self::Alone(Supervisor::new(turns))),
            (Some(2), 2..) => match Occupant::start() {
                Ok(occupant) => Some(Self::Share(Supervisor::new(turns), occupant)),
                Err(error) => {
                    tracing::info!(%error, "no processor is kept occupied");
                    None
                }
            },
            // Polling would compete with the programs that send requests.
            (_, ..=1) => None,
            _ => Some(Self::Poll { device, thread }),
        }
    }

    /// Returns false if a quota or mask leaves the process one processor by now.
    fn has_room(&self) -> bool {
        match self {
            Self::Alone(_) => true,
            Self::Share(..) | Self::Poll { .. } => {
                thread::available_parallelism().is_ok_and(|count| count.get() > 1)
            }
        }
    }

    fn set_busy(&self, is_busy: bool) -> io::Result<()> {
        match self {
            Self::Alone(supervisor) => supervisor.set_limited(is_busy),
            Self::Share(supervisor, occupant) => {
                supervisor.set_limited(is_busy);
                occupant.set_spinning(is_busy);
            }
            Self::Poll { device, .. } => {
                let mut flags = rustix::fs::fcntl_getfl(device)?;
                flags.set(OFlags::NONBLOCK, is_busy);
                rustix::fs::fcntl_setfl(device, flags)?;
            }
        }
        Ok(())
    }

    /// Returns the name of the thread that should not have to wait.
    fn thread(&self) -> Option<&str> {
        match self {
            Self::Alone(_) => None,
            Self::Share(..) => Some(occupant::THREAD),
            Self::Poll { thread, .. } => Some(thread),
        }
    }

    fn waiting_max(&self) -> f64 {
        match self {
            Self::Alone(_) | Self::Poll { .. } => WAITING_MAX,
            Self::Share(..) => OCCUPANT_WAITING_MAX,
        }
    }

    /// Returns the supervisor if one thread reads.
    fn supervisor(&mut self) -> Option<&mut Supervisor> {
        match self {
            Self::Alone(supervisor) | Self::Share(supervisor, _) => Some(supervisor),
            Self::Poll { .. } => None,
        }
    }
}

/// The mode until the next check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Avoiding wake-ups.
    Busy,
    /// Not avoiding them.
    Waiting,
    /// The same, and no check before there is a request.
    Asleep,
}

/// The decision from observations to a mode.
struct Judge {
    mode: Mode,
    waiting_max: f64,
    /// Number of ticks left until the mode may be busy.
    pause: u32,
    next_pause: u32,
}

impl Judge {
    fn new(waiting_max: f64) -> Self {
        Self {
            mode: Mode::Asleep,
            waiting_max,
            pause: 0,
            next_pause: 1,
        }
    }

    /// Decides from the observations of an interval.
    fn judge(&mut self, seen: Seen) -> Mode {
        let is_dense = seen.requests as f64 >= DENSE * seen.elapsed.as_secs_f64();
        let are_many_long = seen.long as f64 > seen.requests as f64 * LONG_MAX;
        if self.mode == Mode::Busy {
            if seen.waited > seen.elapsed.mul_f64(self.waiting_max) || are_many_long {
                self.pause = self.next_pause;
                self.next_pause = (self.next_pause * 2).min(PAUSE_MAX);
            } else {
                self.next_pause = 1;
            }
        } else {
            self.pause = self.pause.saturating_sub(1);
        }
        self.mode = if is_dense && !are_many_long && self.pause == 0 {
            Mode::Busy
        } else if seen.requests == 0 {
            Mode::Asleep
        } else {
            Mode::Waiting
        };
        self.mode
    }

    /// Takes back that the mode is busy, for as long as a pause lasts.
    fn put_off(&mut self) {
        self.mode = Mode::Waiting;
        self.pause = PAUSE_MAX;
    }
}

/// The observations of an interval.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    elapsed: Duration,
    requests: u64,
    /// Requests that gave their turn away.
    long: u64,
    /// Time for which the polling or occupying thread waited for a processor.
    waited: Duration,
}

/// Sums since the start.
struct Sums {
    at: Instant,
    requests: u64,
    long: u64,
    waited: Duration,
}

impl Sums {
    fn since(&self, before: &Self) -> Seen {
        Seen {
            elapsed: self.at - before.at,
            requests: self.requests - before.requests,
            long: self.long - before.long,
            waited: self.waited.saturating_sub(before.waited),
        }
    }
}

/// The state of the thread.
struct Work {
    meter: Arc<Meter>,
    way: Way,
    /// Scheduler statistics of the thread that should not have to wait; `None` before they are
    /// first needed.
    waiting: Option<Vec<File>>,
}

impl Work {
    fn run(&mut self) -> io::Result<()> {
        let mut judge = Judge::new(self.way.waiting_max());
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
            self.pass_tick(mode);
            let seen = self.look(mode)?.since(&before);
            let mut is_busy = judge.judge(seen) == Mode::Busy;
            if is_busy && mode != Mode::Busy && !self.way.has_room() {
                judge.put_off();
                is_busy = false;
            }
            if is_busy != (mode == Mode::Busy) {
                self.way.set_busy(is_busy)?;
                tracing::debug!(is_busy, ?seen);
            }
        }
        Ok(())
    }

    /// Waits until the next check.
    fn pass_tick(&mut self, mode: Mode) {
        if mode != Mode::Busy {
            return thread::park_timeout(TICK);
        }
        let Some(supervisor) = self.way.supervisor() else {
            return thread::park_timeout(BUSY_TICK);
        };
        for _ in 0..WATCHES {
            thread::park_timeout(WATCH_TICK);
            supervisor.watch();
        }
    }

    fn has_ended(&self) -> bool {
        self.meter.has_ended.load(Ordering::Acquire)
    }

    fn look(&mut self, mode: Mode) -> io::Result<Sums> {
        let waited = match mode {
            Mode::Busy => self.waited()?,
            Mode::Waiting | Mode::Asleep => Duration::ZERO,
        };
        Ok(Sums {
            at: Instant::now(),
            requests: self.meter.requests.load(Ordering::Relaxed),
            long: self
                .way
                .supervisor()
                .map_or(0, |supervisor| supervisor.long()),
            waited,
        })
    }

    /// Returns the total time for which the thread that should not have to wait was ready but not
    /// running.
    fn waited(&mut self) -> io::Result<Duration> {
        let Some(thread) = self.way.thread() else {
            return Ok(Duration::ZERO);
        };
        if self.waiting.is_none() {
            self.waiting = Some(statistics_of(thread)?);
        }
        let mut sum = Duration::ZERO;
        for file in self.waiting.iter().flatten() {
            sum += waited(file)?;
        }
        Ok(sum)
    }
}

/// Counts the numbers of a list such as "0-3,5".
fn count_of(list: &str) -> Option<usize> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(
            last.parse::<usize>()
                .ok()?
                .checked_sub(first.parse().ok()?)?
                + 1,
        )
    };
    list.split(',').map(count).sum()
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

fn waited(statistics: &File) -> io::Result<Duration> {
    field(statistics, 1)
}

/// Parses `schedstat`: nanoseconds on a processor, nanoseconds of waiting for one, time slices.
fn field(statistics: &File, index: usize) -> io::Result<Duration> {
    let mut text = [0; 80];
    let length = statistics.read_at(&mut text, 0)?;
    let nanoseconds = std::str::from_utf8(&text[..length])
        .ok()
        .and_then(|text| text.split_ascii_whitespace().nth(index))
        .and_then(|field| field.parse().ok());
    nanoseconds
        .map(Duration::from_nanos)
        .ok_or_else(|| io::Error::other("schedstat has another form than was expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn seen(requests: u64, waited: Duration) -> Seen {
        Seen {
            elapsed: SECOND,
            requests,
            waited,
            long: 0,
        }
    }

    #[test]
    fn what_is_put_off_waits_for_the_longest_pause() {
        let mut judge = Judge::new(WAITING_MAX);
        assert_eq!(judge.judge(seen(11_000, Duration::ZERO)), Mode::Busy);
        judge.put_off();
        for _ in 1..PAUSE_MAX {
            assert_eq!(judge.judge(seen(11_000, Duration::ZERO)), Mode::Waiting);
        }
        assert_eq!(judge.judge(seen(11_000, Duration::ZERO)), Mode::Busy);
    }

    #[test]
    fn dense_requests_are_polled_for_until_there_are_fewer() {
        let mut judge = Judge::new(WAITING_MAX);
        assert_eq!(judge.judge(seen(9_000, Duration::ZERO)), Mode::Waiting);
        assert_eq!(judge.judge(seen(11_000, Duration::ZERO)), Mode::Busy);
        assert_eq!(judge.judge(seen(11_000, Duration::ZERO)), Mode::Busy);
        assert_eq!(judge.judge(seen(3, Duration::ZERO)), Mode::Waiting);
        assert_eq!(judge.judge(seen(0, Duration::ZERO)), Mode::Asleep);
        assert_eq!(judge.judge(seen(11_000, Duration::ZERO)), Mode::Busy);
        assert_eq!(judge.judge(seen(0, Duration::ZERO)), Mode::Asleep);
    }

    #[test]
    fn where_others_need_the_processor_the_pauses_become_longer_and_longer() {
        let mut judge = Judge::new(WAITING_MAX);
        let half = SECOND / 2;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            while judge.judge(seen(20_000, Duration::ZERO)) != Mode::Busy {}
            let mut pause = 1;
            assert_eq!(judge.judge(seen(20_000, half)), Mode::Waiting);
            while judge.judge(seen(20_000, Duration::ZERO)) != Mode::Busy {
                pause += 1;
            }
            // It polls again, and again a thread has to wait at once.
            assert_eq!(judge.judge(seen(20_000, half)), Mode::Waiting);
            pauses.push(pause);
        }
        assert_eq!(pauses, [1, 4, 16, 32, 32, 32, 32, 32]);
        while judge.judge(seen(20_000, Duration::ZERO)) != Mode::Busy {}
        judge.judge(seen(20_000, Duration::ZERO));
        assert_eq!(judge.next_pause, 1, "nobody has waited");
    }

    /// Without scheduler statistics the thread exits and leaves polling off.
    #[test]
    fn what_cannot_be_watched_does_not_poll() {
        let (device, _other) = io::pipe().expect("a pipe");
        let device = OwnedFd::from(device);
        let same = device.try_clone().expect("a copy");
        let meter = Arc::new(Meter::default());
        let thread = "jext-nobody".to_owned();
        let polling = Polling::start(Arc::clone(&meter), Way::Poll { device, thread });
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

    #[test]
    fn where_many_requests_may_wait_one_thread_is_not_enough() {
        let mut judge = Judge::new(WAITING_MAX);
        let mut judge = |long| {
            judge.judge(Seen {
                long,
                ..seen(16_000, Duration::ZERO)
            })
        };
        assert_eq!(judge(1_001), Mode::Waiting);
        assert_eq!(judge(999), Mode::Busy);
        assert_eq!(judge(1_001), Mode::Waiting);
        assert_eq!(judge(0), Mode::Busy);
    }

    /// Requests end the occupant's sleep, and their absence its work.
    #[test]
    fn the_occupant_spins_while_requests_are_dense() {
        let turns = Arc::new(Turns::new(2));
        let way = Way::Share(Supervisor::new(turns), Occupant::start().expect("a thread"));
        let meter = Arc::new(Meter::default());
        let polling = Polling::start(Arc::clone(&meter), way).expect("a thread");
        let files = statistics_of(occupant::THREAD).expect("its statistics");
        let ran = || {
            let field = |file| field(file, 0).expect("statistics");
            files.iter().map(field).sum::<Duration>()
        };
        let begin = Instant::now();
        while ran() < Duration::from_millis(1) {
            assert!(begin.elapsed() < 30 * SECOND, "it never spins");
            meter.count();
        }
        loop {
            let before = ran();
            thread::sleep(SECOND / 5);
            if ran() == before {
                break;
            }
            assert!(begin.elapsed() < 60 * SECOND, "it still spins");
        }
        polling.stop();
    }

    #[test]
    fn processors_are_counted() {
        assert_eq!(count_of("0"), Some(1));
        assert_eq!(count_of("0-1"), Some(2));
        assert_eq!(count_of("0,2-3"), Some(3));
        assert_eq!(count_of(""), None);
    }
}
