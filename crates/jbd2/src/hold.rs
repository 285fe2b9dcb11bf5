//! Commits and checkpoints that a device has no room for.
//!
//! A sparse image on a full disk and a thin device refuse writes until there is room again. Nothing
//! is lost by that: the images are in memory, and the log on the device is unchanged. So the
//! journal does not abort. It *holds* the commit or the checkpoint and retries it: a daemon at
//! growing intervals, and every caller that needs it at once. Callers whose attempt fails get
//! [`Error::Held`] and may retry; work that fits into the running transaction continues.
//!
//! Only a refused write is held ([`DeviceError::NoSpace`]). A failed flush, whatever its cause, has
//! lost writes.

use block::DeviceError;
use rt::Nanos;

use crate::error::{Error, Result};

/// Delay of a daemon's first attempt; it doubles with every failure.
const PAUSE_MIN: Nanos = Nanos::from_millis(50);
/// Longest delay between two attempts.
const PAUSE_MAX: Nanos = Nanos::from_millis(800);

/// A commit or checkpoint that may be held.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    /// The cause of the last failure; none while nothing is held.
    cause: Option<DeviceError>,
    /// Number of failed attempts so far. Never decreases.
    failures: u64,
    /// Delay of a daemon's next attempt.
    pause: Nanos,
    /// Time of a daemon's next attempt.
    retry_at: Nanos,
    /// True if a caller waits for an attempt.
    is_wanted: bool,
}

impl Hold {
    /// Returns true if the last attempt failed.
    pub(crate) fn is_held(&self) -> bool {
        self.cause.is_some()
    }

    /// Returns the number of failed attempts so far.
    pub(crate) fn failures(&self) -> u64 {
        self.failures
    }

    /// Notes a failed attempt. Returns true if it is the first one.
    pub(crate) fn fail(&mut self, cause: DeviceError, now: Nanos) -> bool {
        let is_first = self.cause.replace(cause).is_none();
        self.failures += 1;
        self.pause = if is_first {
            PAUSE_MIN
        } else {
            (self.pause + self.pause).min(PAUSE_MAX)
        };
        self.retry_at = now + self.pause;
        self.is_wanted = false;
        is_first
    }

    /// Notes an attempt that succeeded. Returns true if something was held.
    pub(crate) fn release(&mut self) -> bool {
        self.is_wanted = false;
        self.cause.take().is_some()
    }

    /// Requests an attempt now, if something is held. Returns true if a daemon has to be woken for
    /// it.
    pub(crate) fn want(&mut self) -> bool {
        let is_news = self.is_held() && !self.is_wanted;
        self.is_wanted |= is_news;
        is_news
    }

    /// Returns true if a daemon should try now, and the time of the next check otherwise.
    pub(crate) fn is_due(&self, now: Nanos) -> (bool, Nanos) {
        if self.is_wanted || self.retry_at <= now {
            (true, now + PAUSE_MAX)
        } else {
            (false, self.retry_at)
        }
    }

    /// Fails with [`Error::Held`] if an attempt has failed since the count of failures was `seen`.
    pub(crate) fn check(&self, seen: u64) -> Result<()> {
        match &self.cause {
            Some(cause) if self.failures != seen => Err(Error::Held(cause.clone())),
            _ => Ok(()),
        }
    }
}

impl Error {
    /// Returns true if a device had no room for a write.
    pub(crate) fn is_no_room(&self) -> bool {
        matches!(self, Self::Io(DeviceError::NoSpace { .. }) | Self::Held(_))
            && !rt::mutant!("commit/refused-write-aborts")
    }

    /// Returns the device's error if a device had no room for a write.
    pub(crate) fn no_room(self) -> Result<DeviceError, Self> {
        match self {
            error if rt::mutant!("commit/refused-write-aborts") => Err(error),
            Self::Io(cause @ DeviceError::NoSpace { .. }) | Self::Held(cause) => Ok(cause),
            error => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> DeviceError {
        DeviceError::NoSpace {
            device: "disk.img".to_owned(),
        }
    }

    #[test]
    fn attempts_come_at_growing_intervals_or_when_wanted() {
        let mut hold = Hold::default();
        assert!(!hold.want(), "nothing is held");
        let mut now = Nanos::from_secs(1);
        assert!(hold.fail(full(), now));
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let (is_due, at) = hold.is_due(now);
            assert!(!is_due);
            pauses.push((at - now).get() / 1_000_000);
            now = at;
            assert!(hold.is_due(now).0);
            assert!(!hold.fail(full(), now));
        }
        assert_eq!(pauses, [50, 100, 200, 400, 800, 800]);
        assert!(hold.want() && !hold.want());
        assert!(hold.is_due(now).0);
        assert!(hold.release() && !hold.release());
    }

    #[test]
    fn only_an_attempt_after_the_callers_arrival_refuses_it() {
        let mut hold = Hold::default();
        let seen = hold.failures();
        assert_eq!(hold.check(seen), Ok(()));
        hold.fail(full(), Nanos::ZERO);
        assert_eq!(hold.check(seen), Err(Error::Held(full())));
        assert_eq!(hold.check(hold.failures()), Ok(()));
        hold.release();
        assert_eq!(hold.check(seen), Ok(()));
    }
}
