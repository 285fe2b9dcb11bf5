//! The number of packages that the library adds to a program.

use std::collections::BTreeSet;
use std::process::Command;

/// Maximum number of packages without the default features, those of the workspace included.
const PACKAGES_MAX: usize = 34;

/// Returns the packages that the library is built from with `features`.
fn packages(features: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--package", "jext", "--edges", "normal"])
        .args(["--prefix", "none", "--no-default-features"])
        .args(["--locked", "--offline"])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree: {errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    // Cargo marks a package that was listed before with a star.
    let lines = text.lines().map(|line| line.trim_end_matches(" (*)"));
    lines.map(str::to_owned).collect()
}

#[test]
fn the_library_needs_few_packages() {
    let found = packages(&[]);
    assert!(
        found.len() <= PACKAGES_MAX,
        "{} packages: {found:#?}",
        found.len()
    );
}

#[test]
fn no_feature_brings_what_only_the_command_needs() {
    let found = packages(&["--features", "fuse,sim"]);
    for package in ["clap", "tar", "toml", "anyhow", "serde", "lab", "workload"] {
        let is_there = found
            .iter()
            .any(|line| line.split(' ').next() == Some(package));
        assert!(!is_there, "the library needs {package}");
    }
}
