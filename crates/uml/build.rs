//! Compiles the libraries that a guest's kernel is started with: `src/kernel/*.c`.
//!
//! They become a part of the program, which then needs no compiler to start a guest. They link with
//! nothing: the kernel that loads them has the C library already.

#![allow(
    clippy::disallowed_methods,
    reason = "a build reads the environment that cargo gives it"
)]

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const LIBRARIES: [&str; 2] = ["seeded", "registers"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CC");
    let is_for_guests = ["CARGO_CFG_TARGET_OS", "CARGO_CFG_TARGET_ARCH"]
        .map(|name| env::var(name).unwrap_or_default())
        == ["linux", "x86_64"];
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for name in LIBRARIES {
        let source = format!("src/kernel/{name}.c");
        println!("cargo::rerun-if-changed={source}");
        let library = folder.join(format!("{name}.so"));
        if !is_for_guests {
            // User-mode Linux runs nowhere else.
            fs::write(&library, []).expect("OUT_DIR is there");
            continue;
        }
        let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let mut command = Command::new(&compiler);
        command
            .args(["-O2", "-Wall", "-shared", "-fPIC", "-nostdlib", "-s", "-o"])
            .arg(&library)
            .arg(&source);
        let is_compiled = command.status().is_ok_and(|status| status.success());
        assert!(
            is_compiled,
            "{source}: `{command:?}` failed: apt-get install gcc libc6-dev, or set CC"
        );
    }
}
