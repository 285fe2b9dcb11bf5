//! The clocks: [`monotonic`] for timers, [`wall`] for time of day, [`glance`] for observers; and
//! [`sleep`].

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::time::ClockId;

use crate::{Nanos, world};

/// A time of day, since 1970-01-01 00:00:00 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WallTime {
    /// Whole seconds, negative before 1970.
    pub seconds: i64,
    /// Nanoseconds within the second, below 1,000,000,000.
    pub nanos: u32,
}

/// The clock read by [`wall`].
#[cfg(target_os = "linux")]
const WALL_CLOCK: ClockId = ClockId::RealtimeCoarse;
#[cfg(not(target_os = "linux"))]
const WALL_CLOCK: ClockId = ClockId::Realtime;
/// Seconds in a day.
const SECONDS_PER_DAY: i64 = 86_400;

impl WallTime {
    /// Returns year, month and day in UTC: H. Hinnant, chrono-Compatible Low-Level Date Algorithms,
    /// `civil_from_days`.
    pub fn date(self) -> (i64, i64, i64) {
        let shifted = self.seconds.div_euclid(SECONDS_PER_DAY) + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 {
            shifted_month + 3
        } else {
            shifted_month - 9
        };
        (year_of_era + era * 400 + i64::from(month <= 2), month, day)
    }
}

/// Returns the time since the world started; in the real world, since the first call in this
/// process.
pub fn monotonic() -> Nanos {
    match world::current() {
        Some(world) => world.monotonic(),
        None => since_beginning(Instant::now()),
    }
}

/// Returns the time of [`monotonic`] for an observer. In a simulated world this call has no effect
/// at all, and the result excludes host work that the calling task has not yet paid for: no
/// decision of the engine may depend on it.
pub fn glance() -> Nanos {
    match world::current() {
        Some(world) => world.glance(),
        None => since_beginning(Instant::now()),
    }
}

/// Returns the time of day. A simulated world adds its monotonic time to a fixed epoch.
///
/// The real clock advances in ticks of the kernel, some milliseconds each, as inode times do. Some
/// times are set by the kernel and others by the engine, and a later change must have the later
/// time.
pub fn wall() -> WallTime {
    match world::current() {
        Some(world) => world.wall(),
        None => real_wall(),
    }
}

/// Sleeps for a span of time.
pub fn sleep(span: Nanos) {
    sleep_until(monotonic().saturating_add(span));
}

/// Sleeps until a moment of [`monotonic`]; returns at once if it has passed.
pub fn sleep_until(moment: Nanos) {
    match world::current() {
        Some(world) => world.sleep_until(moment),
        None => {
            let now = since_beginning(Instant::now());
            std::thread::sleep(Duration::from_nanos(moment.saturating_sub(now).get()));
        }
    }
}

/// Returns the instant of a moment of [`monotonic`] in the real world; `None` beyond the range of
/// the system.
pub(crate) fn instant_at(moment: Nanos) -> Option<Instant> {
    beginning().checked_add(Duration::from_nanos(moment.get()))
}

fn beginning() -> Instant {
    static BEGINNING: OnceLock<Instant> = OnceLock::new();
    *BEGINNING.get_or_init(Instant::now)
}

fn since_beginning(instant: Instant) -> Nanos {
    let span = instant.saturating_duration_since(beginning());
    Nanos::new(u64::try_from(span.as_nanos()).expect("a process that runs for less than 584 years"))
}

fn real_wall() -> WallTime {
    let now = rustix::time::clock_gettime(WALL_CLOCK);
    WallTime {
        seconds: now.tv_sec,
        nanos: u32::try_from(now.tv_nsec).expect("nanoseconds within a second"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn times_have_dates() {
        let date = |seconds| WallTime { seconds, nanos: 0 }.date();
        assert_eq!(date(-1), (1969, 12, 31));
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(951_782_400), (2000, 2, 29));
        assert_eq!(date(4_107_542_400), (2100, 3, 1));
    }

    #[test]
    fn monotonic_never_goes_back() {
        let mut last = monotonic();
        for _ in 0..1_000 {
            let now = monotonic();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn sleep_takes_at_least_its_span() {
        let start = monotonic();
        sleep(Nanos::from_millis(5));
        assert!(monotonic() - start >= Nanos::from_millis(5));
        sleep_until(Nanos::ZERO);
    }

    #[test]
    fn the_time_of_day_is_the_systems_but_for_a_tick() {
        for _ in 0..1000 {
            let before = SystemTime::now();
            let ours = wall();
            let ours = UNIX_EPOCH + Duration::new(ours.seconds.cast_unsigned(), ours.nanos);
            assert!(ours <= SystemTime::now(), "it is never ahead");
            assert!(ours + Duration::from_millis(100) > before);
        }
    }
}
