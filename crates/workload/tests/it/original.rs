//! Compares the workload with the original: Debian's `postmark` runs the same command file, and
//! must print the same.
//!
//! The clock of whole seconds does not matter: both print 1 as long as a run takes less than a
//! second.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rt::Nanos;
use workload::directory::DirectoryTarget;
use workload::postmark::{Options, Session};
use workload::{Control, Target};

use crate::recorder::Recorder;

const MISSING: &str = "the original PostMark is missing: apt-get install postmark";
const PROMPT: &str = "pm>";
/// Number of attempts on a busy machine before a difference counts.
const ATTEMPTS: u32 = 10;

/// Returns the standard output and standard error of the original, run in this directory.
fn original(directory: &Path, script: &str) -> (String, String) {
    let mut child = Command::new("postmark")
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect(MISSING);
    let mut input = child.stdin.take().expect("it is piped");
    input
        .write_all(script.as_bytes())
        .expect("it reads all commands");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints ASCII");
    let printed = text(output.stdout);
    // The first line names the version.
    let (_, rest) = printed.split_once('\n').expect("it prints a banner");
    (rest.replace(PROMPT, ""), text(output.stderr))
}

/// Returns the same output of jext's workload.
fn ours(directory: &Path, script: &str) -> (String, String) {
    let target: Arc<dyn Target> = Arc::new(DirectoryTarget::new(directory).expect("it exists"));
    let mut console = Recorder::default();
    let control = Arc::new(Control::new());
    let mut session = Session::new(target, Options::compat(), control, &mut console);
    session.converse(script.lines().map(str::to_owned));
    (console.printed.replace(PROMPT, ""), console.errors)
}

/// Checks that both print the same, and that both leave no files behind. A run of a second or more,
/// as on a busy machine, changes the rates: then both run again.
fn check(script: &str) {
    for attempts_left in (0..ATTEMPTS).rev() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(directory.path().join("a")).expect("it is empty");
        std::fs::create_dir(directory.path().join("b")).expect("it is empty");
        let started = rt::monotonic();
        let (expected, expected_errors) = original(directory.path(), script);
        let (found, found_errors) = ours(directory.path(), script);
        let is_slow = rt::monotonic().saturating_sub(started) >= Nanos::from_millis(1000);
        if found.trim_end() != expected.trim_end() && is_slow && attempts_left > 0 {
            continue;
        }
        assert_eq!(found.trim_end(), expected.trim_end(), "{script}");
        assert_eq!(found_errors, expected_errors, "{script}");
        for place in ["a", "b"] {
            let left = std::fs::read_dir(directory.path().join(place))
                .expect("it is there")
                .count();
            assert_eq!(left, 0, "{place} after {script}");
        }
        return;
    }
}

#[test]
fn defaults_verbose_and_terse() {
    check("run\nset report terse\nrun\nquit\n");
}

#[test]
fn sizes_numbers_seeds_and_biases() {
    check(
        "set size 1000 20000\nset number 100\nset transactions 303\nset seed 7\nrun\n\
         set bias read 9\nset bias create 8\nset seed 2147483647\nrun\n\
         set bias read -1\nrun\nset bias create -1\nrun\nset bias read 0\nrun\n\
         set size 100\nset report terse\nrun\nset size 1 3\nrun\nquit\n",
    );
}

#[test]
fn buffering_blocks_locations_and_subdirectories() {
    check(
        "set report terse\nset buffering false\nrun\nset read 1024\nset write 4000\nrun\n\
         set buffering true\nset read 5000\nset write 20000\nrun\n\
         set location a\nrun\nset location a 2\nset location +b 3\nrun\n\
         set subdirectories 1\nrun\nset subdirectories 4\nset report verbose\nrun\n\
         set location -a\nrun\nquit\n",
    );
}

#[test]
fn running_out_of_files() {
    check(
        "set number 5\nset transactions 20\nset bias create 0\nrun\n\
         set transactions 10\nset bias create 5\nrun\nset number 20\nset transactions 11\nrun\n",
    );
}

#[test]
fn what_is_shown_refused_and_not_understood() {
    check(
        "show\nset size 100\nset read 1023\nset write 1048575\nshow\nset size 1024 1048576\n\
         set buffering false\nset report terse\nset subdirectories 1\nset bias read -1\nshow\n\
         set subdirectories 7\nset location a 5\nset location +b 0\nset location +c x\nshow\n\
         set location -zz\nset location\nset location -a\nset location -b\nset location -c\n\
         set size\nset size 0 9\nset number 0\nset seed -1\nset transactions x\nset read 0\n\
         set write -7\nset bias read 11\nset bias create\nset bias create -2\nset buffering on\n\
         set report brief\nset subdirectories 0\nSHOW\nset\nset bias\nfoo\nset seed 12abc\nshow\n\
         help\nhelp set bias\nhelp h\nhelp zz\nload\nload nothing.pm\n",
    );
}
