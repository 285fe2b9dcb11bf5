//! Waiting with a bound for what another process holds for a moment.

use std::time::{Duration, Instant};

/// The longest that is waited.
const LIMIT: Duration = Duration::from_secs(20);
/// Between two looks.
const STEP: Duration = Duration::from_millis(10);

/// Looks until there is an answer; the last refusal if there is none in time.
pub(crate) fn until<T, E>(mut look: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let began = Instant::now();
    loop {
        match look() {
            Err(_) if began.elapsed() < LIMIT => std::thread::sleep(STEP),
            answer => return answer,
        }
    }
}
