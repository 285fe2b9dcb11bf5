//! The timetable of all runs: volumes are made, operations start one a second, and recovery comes
//! long after.

use rt::Nanos;

/// Time at which volumes are made, in seconds since 1970.
pub const MADE_AT: i64 = 1_000_000_000;
/// Time of recovery: long after everything else.
pub(crate) const RECOVERED_AT: i64 = MADE_AT + 1_000_000;

/// Returns the time at which operation `number` of a lane starts: one a second, so that times
/// distinguish operations.
pub fn seconds_of(number: usize) -> i64 {
    MADE_AT + 1 + number as i64
}

/// Waits until operation `number` is due, in a world that began at a time.
pub(crate) fn wait_for(number: usize, epoch: i64) {
    let seconds = (seconds_of(number) - epoch).max(0);
    sleep_until(Nanos::from_secs(seconds.cast_unsigned()));
}

/// Sleeps until a moment of the world.
pub(crate) fn sleep_until(moment: Nanos) {
    if rt::monotonic() < moment {
        rt::sleep_until(moment);
    }
}
