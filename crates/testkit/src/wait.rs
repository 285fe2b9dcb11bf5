//! Bounded waits for a resource that another process holds for a moment.

use std::time::{Duration, Instant};

/// Maximum duration of a wait.
const LIMIT: Duration = Duration::from_secs(20);
/// Interval between attempts.
const STEP: Duration = Duration::from_millis(10);

/// Calls `look` until it succeeds. Returns its last error if it does not in time.
pub(crate) fn until<T, E>(mut look: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let began = Instant::now();
    loop {
        match look() {
            Err(_) if began.elapsed() < LIMIT => std::thread::sleep(STEP),
            answer => return answer,
        }
    }
}
