//! Root, which loop devices and mounts need.
//!
//! | root | `JEXT_TEST_UNPRIVILEGED` | a test that needs root |
//! |---|---|---|
//! | yes | not set | runs |
//! | no | not set | fails, and says what can be done |
//! | any | `1` | is left out, wholly or in part, and counted |
//!
//! The line that counts is written past the capture of the test harness, so that it is seen although the test passes; the last
//! one of a test binary holds the sum.

use std::collections::BTreeSet;
use std::io::Write;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

/// Set to 1 by somebody who has no root and knows it.
pub const VARIABLE: &str = "JEXT_TEST_UNPRIVILEGED";

/// The tests that were left out in this process, wholly or in part.
static LEFT_OUT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// What a test may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Runs,
    LeftOut,
    Fails,
}

fn decide(is_root: bool, variable: Option<&str>) -> Verdict {
    match (variable == Some("1"), is_root) {
        (true, _) => Verdict::LeftOut,
        (false, true) => Verdict::Runs,
        (false, false) => Verdict::Fails,
    }
}

/// Whether the calling test may attach loop devices and mount. If not, the test leaves that out.
///
/// # Panics
/// Without root, unless the variable says that this is known.
#[must_use]
#[track_caller]
pub fn is_granted() -> bool {
    let test = test_name(Location::caller());
    let is_root = rustix::process::geteuid().is_root();
    let variable = std::env::var(VARIABLE).ok();
    match decide(is_root, variable.as_deref()) {
        Verdict::Runs => true,
        Verdict::LeftOut => {
            note(test);
            false
        }
        Verdict::Fails => panic!(
            "{test} needs root for loop devices and mounts: run it as root, or set {VARIABLE}=1 to leave such tests out"
        ),
    }
}

/// The harness names the thread of each test after it, unless it runs one test at a time.
fn test_name(caller: &Location<'_>) -> String {
    match std::thread::current().name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => format!("{}:{}", caller.file(), caller.line()),
    }
}

fn note(test: String) {
    let mut tests = LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner);
    if tests.insert(test.clone()) {
        let count = tests.len();
        // The harness captures what print macros write, and this must be seen. Who closed stderr does not want to know.
        let _ = writeln!(
            std::io::stderr(),
            "{VARIABLE}=1: {count} left out so far, wholly or in part; now {test}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_out_unless_somebody_says_so() {
        for (is_root, variable, verdict) in [
            (true, None, Verdict::Runs),
            (true, Some("0"), Verdict::Runs),
            (true, Some(""), Verdict::Runs),
            (true, Some("1"), Verdict::LeftOut),
            (false, None, Verdict::Fails),
            (false, Some("0"), Verdict::Fails),
            (false, Some("yes"), Verdict::Fails),
            (false, Some("1"), Verdict::LeftOut),
        ] {
            assert_eq!(decide(is_root, variable), verdict, "{is_root} {variable:?}");
        }
    }
}
