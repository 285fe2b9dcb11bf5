//! Checks that clippy reports every item that the root `clippy.toml` disallows.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::Path;
use std::process::Command;

#[test]
fn each_disallowed_item_fires() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().unwrap().parent().unwrap();
    let config = std::fs::read_to_string(root.join("clippy.toml")).unwrap();
    let paths: Vec<&str> = config
        .split("path = \"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert!(paths.len() > 30, "{paths:?}");

    let sysroot = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .unwrap();
    let sysroot = String::from_utf8(sysroot.stdout).unwrap();
    let driver = Path::new(sysroot.trim()).join("bin/clippy-driver");
    let output = Command::new(&driver)
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "lib",
            "--emit",
            "metadata",
            "--out-dir",
            env!("CARGO_TARGET_TMPDIR"),
        ])
        .arg(here.join("tests/fixtures/leaks.rs"))
        .env("CLIPPY_CONF_DIR", root)
        .output();
    let output = output.unwrap_or_else(|error| {
        panic!(
            "{} does not run ({error}): install it with `rustup component add clippy`",
            driver.display()
        )
    });
    let said = String::from_utf8(output.stderr).unwrap();
    for path in paths {
        let is_caught = ["type", "method"]
            .iter()
            .any(|kind| said.contains(&format!("use of a disallowed {kind} `{path}`")));
        assert!(is_caught, "{path} is not caught; clippy said:\n{said}");
    }
}
