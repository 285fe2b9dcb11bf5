//! Feeds a target from libFuzzer: `fuzz/run TARGET MINUTES`.

#![no_main]

use std::process::exit;
use std::sync::OnceLock;

use fuzzing::{TARGETS, Target, find};

/// Environment variable that names the target; the command line belongs to libFuzzer.
const VARIABLE: &str = "JEXT_FUZZ_TARGET";

fn target() -> &'static Target {
    static CHOSEN: OnceLock<&'static Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var(VARIABLE).unwrap_or_default();
        find(&name).unwrap_or_else(|| {
            eprintln!("{VARIABLE}={name:?} is no target; there are:");
            for target in TARGETS {
                eprintln!("  {:20}{}", target.name, target.about);
            }
            exit(2)
        })
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (target().run)(bytes));
