//! The decision if wake-ups are avoided until the next check, from what an interval has shown.
//!
//! It is a calculation on numbers: no thread, clock or device.

use std::time::Duration;

/// Requests per second above which polling pays. A saved wake-up is worth some 10 to 20
/// microseconds on a virtual machine, at this rate a tenth of the time or more.
const DENSE: f64 = 10_000.0;
/// Maximum fraction of requests that may wait while one thread reads.
const LONG_MAX: f64 = 1.0 / 16.0;
/// Maximum pause after other threads needed the processor, in ticks.
const PAUSE_MAX: u32 = 32;

/// The mode until the next check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Avoiding wake-ups.
    Busy,
    /// Not avoiding them.
    Waiting,
    /// The same, and no check before there is a request.
    Asleep,
}

/// The decision from observations to a mode.
pub(super) struct Judge {
    pub(super) mode: Mode,
    waiting_max: f64,
    /// Number of ticks left until the mode may be busy.
    pause: u32,
    next_pause: u32,
}

impl Judge {
    /// Creates the judge of an idle mount.
    pub(super) fn new(waiting_max: f64) -> Self {
        Self {
            mode: Mode::Asleep,
            waiting_max,
            pause: 0,
            next_pause: 1,
        }
    }

    /// Decides from the observations of an interval.
    pub(super) fn judge(&mut self, seen: Seen) -> Mode {
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
    pub(super) fn put_off(&mut self) {
        self.mode = Mode::Waiting;
        self.pause = PAUSE_MAX;
    }
}

/// The observations of an interval.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    pub(super) elapsed: Duration,
    pub(super) requests: u64,
    /// Requests that gave their turn away.
    pub(super) long: u64,
    /// Time for which the polling or occupying thread waited for a processor.
    pub(super) waited: Duration,
}

#[cfg(test)]
mod tests {
    use super::super::way::WAITING_MAX;
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
}
