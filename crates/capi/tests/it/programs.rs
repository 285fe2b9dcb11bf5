//! Programs in C under valgrind.

use std::fs;
use std::path::Path;

use testkit::{Mount, privilege, tool};

use crate::compiler::{compile, here, run};

/// Compiles a program and runs it in a folder of its own.
fn outcome(source: &str, arguments: &[&str], folder: &Path) -> String {
    let program = folder.join("program");
    compile(&here(source), &program);
    run(&program, arguments, folder)
}

#[test]
fn the_example_makes_an_image_that_others_read() {
    let folder = tempfile::tempdir().expect("there is room");
    let printed = outcome("examples/image.c", &["disk.img"], folder.path());
    let mut lines: Vec<&str> = printed.lines().collect();
    lines[..2].sort_unstable();
    assert_eq!(
        lines,
        [
            "letter",
            "newest",
            "10 bytes",
            "Dear all,",
            "/mail/second: no such file or directory"
        ]
    );

    let image = folder.path().join("disk.img");
    let path = image.display().to_string();
    tool::run_well("e2fsck", &["-fn", &path]);
    if !privilege::is_granted() {
        return;
    }
    let mount = Mount::new(&image, None, "ext4", "ro").expect("the kernel mounts it");
    let letter = fs::read_to_string(mount.at("/mail/newest")).expect("the kernel reads it");
    assert_eq!(letter, "Dear all,\n");
    let at = mount.at("/mail/letter").display().to_string();
    let value = tool::run_well("getfattr", &["--only-values", "-n", "user.colour", &at]);
    assert_eq!(value, "red");
}

#[test]
fn the_example_of_a_device_trims_and_closes_it() {
    let folder = tempfile::tempdir().expect("there is room");
    let printed = outcome("examples/device.c", &[], folder.path());
    assert_eq!(printed, "clean, trimmed\n");
}

/// Runs a program that asserts what it sees, and prints its name at the end.
fn passes(name: &str) {
    let folder = tempfile::tempdir().expect("there is room");
    let source = format!("tests/c/{name}.c");
    let printed = outcome(&source, &["disk.img"], folder.path());
    assert_eq!(printed, format!("{name}: passed\n"));
    let image = folder.path().join("disk.img");
    if image.exists() {
        tool::run_well("e2fsck", &["-fn", &image.display().to_string()]);
    }
}

#[test]
fn wrong_arguments_get_numbers_and_messages() {
    passes("arguments");
}

#[test]
fn every_call_does_its_work() {
    passes("calls");
}

#[test]
fn devices_that_fail_give_errors_and_are_recovered() {
    passes("failures");
}

#[test]
fn threads_share_volumes_and_files() {
    passes("threads");
}

#[test]
fn synced_files_survive_power_cuts() {
    passes("power_cut");
}
