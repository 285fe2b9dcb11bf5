//! Avoiding wake-ups of threads while requests are dense: the thread that decides when, and how.
//!
//! A sleeping thread has to be woken for a request, and so does its processor. For a program that
//! makes many small requests in sequence, the wake-ups take longer than the requests. What avoids
//! them depends on the number of processors ([`Way`]):
//!
//! | processors | while requests are dense | way |
//! |---|---|---|
//! | one | one thread of the session reads: see [`crate::turns`] | `Alone` |
//! | two | the same, and a thread of the lowest priority occupies the other processor | `Share` |
//! | more | one thread of the session polls | `Poll` |
//!
//! - Two: the scheduler wakes a thread on an idle processor if there is one, so that each request
//!   and each answer would wake a processor. If there is none, the program and the thread that
//!   answers it follow each other on the same processor.
//! - Polling: the device of one thread is set to `O_NONBLOCK`, and fuser reads again at once when
//!   there is no request.
//!
//! A separate thread, the [`Controller`], checks periodically whether this still pays, by what the
//! [`Meter`] counts and the scheduler says (`schedstat`). The decision is in `judge`.
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

mod judge;
mod meter;
mod schedstat;
mod way;

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use judge::{Judge, Mode, Seen};
pub(crate) use meter::Meter;
pub(crate) use way::Way;

/// Interval between checks while busy.
const BUSY_TICK: Duration = Duration::from_millis(10);
/// Interval between looks for requests that wait with their turn, and their number in a tick.
const WATCH_TICK: Duration = Duration::from_millis(2);
const WATCHES: u32 = 5;
/// Interval between checks while not busy.
const TICK: Duration = Duration::from_millis(50);
/// Name of the thread.
const THREAD: &str = "jext-wakeups";

/// The thread that decides when wake-ups are avoided.
pub(crate) struct Controller {
    meter: Arc<Meter>,
    thread: JoinHandle<()>,
}

impl Controller {
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
                    tracing::info!(%error, "wake-ups are not avoided from here on");
                }
            })?;
        meter.set_reader(thread.thread().clone());
        Ok(Self { meter, thread })
    }

    /// Stops the thread.
    pub(crate) fn stop(self) {
        self.meter.end();
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("the thread that avoids wake-ups has panicked");
        }
    }
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
        while !self.meter.has_ended() {
            let mode = judge.mode;
            if mode == Mode::Asleep {
                self.meter.wake_at_next();
                thread::park();
                if self.meter.has_ended() {
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

    fn look(&mut self, mode: Mode) -> io::Result<Sums> {
        let waited = match mode {
            Mode::Busy => self.waited()?,
            Mode::Waiting | Mode::Asleep => Duration::ZERO,
        };
        Ok(Sums {
            at: Instant::now(),
            requests: self.meter.requests(),
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
            self.waiting = Some(schedstat::of_threads(thread)?);
        }
        let mut sum = Duration::ZERO;
        for file in self.waiting.iter().flatten() {
            sum += schedstat::waited(file)?;
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use rustix::fs::OFlags;

    use super::*;
    use crate::occupant::{self, Occupant};
    use crate::turns::{Supervisor, Turns};

    const SECOND: Duration = Duration::from_secs(1);

    /// Without scheduler statistics the thread exits and leaves polling off.
    #[test]
    fn what_cannot_be_watched_does_not_poll() {
        let (device, _other) = io::pipe().expect("a pipe");
        let device = OwnedFd::from(device);
        let same = device.try_clone().expect("a copy");
        let meter = Arc::new(Meter::default());
        let thread = "jext-nobody".to_owned();
        let controller = Controller::start(Arc::clone(&meter), Way::Poll { device, thread });
        let controller = controller.expect("a thread");
        while !controller.thread.is_finished() {
            meter.count();
        }
        let flags = rustix::fs::fcntl_getfl(&same).expect("flags");
        assert!(!flags.contains(OFlags::NONBLOCK));
        controller.stop();
    }

    /// Requests end the occupant's sleep, and their absence its work.
    #[test]
    fn the_occupant_spins_while_requests_are_dense() {
        let turns = Arc::new(Turns::new(2));
        let way = Way::Share(Supervisor::new(turns), Occupant::start().expect("a thread"));
        let meter = Arc::new(Meter::default());
        let controller = Controller::start(Arc::clone(&meter), way).expect("a thread");
        let files = schedstat::of_threads(occupant::THREAD).expect("its statistics");
        let ran = || {
            let ran = |file| schedstat::ran(file).expect("statistics");
            files.iter().map(ran).sum::<Duration>()
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
        controller.stop();
    }
}
