//! The clocks: [`monotonic`] for timers, [`uptime`] for leases, [`wall`] for time of day,
//! [`glance`] for observers; and [`sleep`].

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::time::ClockId;

use crate::debt::{owed, settle};
use crate::nanos::Nanos;
use crate::wall_time::WallTime;
use crate::world;

/// The clock read by [`wall`].
#[cfg(target_os = "linux")]
const WALL_CLOCK: ClockId = ClockId::RealtimeCoarse;
#[cfg(not(target_os = "linux"))]
const WALL_CLOCK: ClockId = ClockId::Realtime;

/// The clock read by [`uptime`].
#[cfg(target_os = "linux")]
const UPTIME_CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const UPTIME_CLOCK: ClockId = ClockId::Monotonic;

/// Returns the time since the world started; in the real world, since the first call in this
/// process, with what the calling thread owes.
pub fn monotonic() -> Nanos {
    match world::current() {
        Some(world) => world.monotonic(),
        None => since_beginning(Instant::now()).saturating_add(owed()),
    }
}

/// Returns the time since the machine or the simulated world started; on Linux this includes the
/// time for which the machine was suspended.
pub fn uptime() -> Nanos {
    match world::current() {
        Some(world) => world.monotonic(),
        None => {
            settle();
            let now = rustix::time::clock_gettime(UPTIME_CLOCK);
            Nanos::from_secs(now.tv_sec.cast_unsigned()) + Nanos::new(now.tv_nsec.cast_unsigned())
        }
    }
}

/// Returns the time of [`monotonic`] for an observer. In a simulated world this call has no effect
/// at all, and in both worlds the result excludes host work that the calling task has not yet paid
/// for: no decision of the engine may depend on it.
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
        None => {
            settle();
            real_wall()
        }
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
            settle();
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
