//! Root privileges, required by loop devices and mounts.
//!
//! | root | `JEXT_TEST_UNPRIVILEGED` | a test that needs root |
//! |---|---|---|
//! | yes | not set | runs |
//! | no | not set | fails with instructions |
//! | any | `1` | is skipped, wholly or in part, and counted |
//!
//! The count is written past the capture of the test harness, so that it shows even if the test
//! passes. The last count of a test binary is the sum.

use std::collections::BTreeSet;
use std::io::Write;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

/// Environment variable, set to 1 to run the tests without root.
pub const VARIABLE: &str = "JEXT_TEST_UNPRIVILEGED";

/// The tests skipped in this process, wholly or in part.
static LEFT_OUT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The verdict on a test that needs root.
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

/// True if the calling test may attach loop devices and mount. If not, the test skips that part.
///
/// # Panics
/// Panics without root, unless the variable is set.
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

/// Returns the name of the test. The harness names each test's thread after it, unless tests run
/// one at a time.
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
        // The harness captures the output of print macros, and this line must show. A closed stderr
        // is ignored.
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
