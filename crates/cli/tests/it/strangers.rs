//! Mounts by users without root privileges, through `fusermount3`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output};

use testkit::{privilege, tool};

use crate::support::Folder;

/// The user and group that owns nothing.
const NOBODY: u32 = 65534;

/// Creates a folder that all users may enter, with this program and an image of a user
/// without privileges.
fn folder() -> Folder {
    let folder = Folder::with_image();
    set_mode(folder.path(), 0o755);
    let program = assert_cmd::cargo::cargo_bin("jext");
    let ours = folder.path().join("jext");
    if fs::hard_link(&program, &ours).is_err() {
        fs::copy(&program, &ours).unwrap();
    }
    fs::create_dir(folder.path().join("mnt")).unwrap();
    for name in ["disk.img", "mnt"] {
        chown(folder.path().join(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    folder.write("log", b"");
    set_mode(&folder.path().join("log"), 0o666);
    folder
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Runs a line of the shell as an unprivileged user, in the folder.
fn run(folder: &Folder, line: &str) -> Output {
    let mut command = Command::new("setpriv");
    command.current_dir(folder.path());
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.args(["sh", "-c", line]).output().unwrap()
}

fn run_well(folder: &Folder, line: &str) -> String {
    let output = run(folder, line);
    assert!(output.status.success(), "{line}: {}", tool::said(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn who_is_not_root_mounts_and_unmounts() {
    if !privilege::is_granted() {
        return;
    }
    let folder = folder();
    run_well(
        &folder,
        "./jext mount -o uid=65534,gid=65534 --log log disk.img mnt",
    );
    run_well(
        &folder,
        "echo mine > mnt/file && mkdir mnt/d && mv mnt/file mnt/d/",
    );
    assert_eq!(run_well(&folder, "cat mnt/d/file"), "mine\n");
    // No other user sees it, not even root.
    let refused = fs::read(folder.path().join("mnt/d/file")).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    let busy = run(&folder, "cd mnt && ../jext umount ../mnt");
    assert!(!busy.status.success(), "{}", tool::said(&busy));
    run_well(&folder, "./jext umount mnt");
    folder.check("disk.img");
    assert_eq!(folder.good("cat disk.img:/d/file"), "mine\n");
    assert_eq!(folder.read("log"), b"");
}

#[test]
fn who_may_not_write_to_the_root_directory_is_told() {
    if !privilege::is_granted() {
        return;
    }
    let folder = folder();
    let mount = |options: &str| {
        let output = run(&folder, &format!("./jext mount {options} disk.img mnt"));
        assert!(output.status.success(), "{}", tool::said(&output));
        run_well(&folder, "./jext umount mnt");
        tool::said(&output)
    };
    let said = mount("");
    let start = "jext: note: disk.img: its root directory belongs to user 0, so that you may not";
    assert!(said.starts_with(start), "{said}");
    assert!(said.contains("-o uid=65534,gid=65534 shows"), "{said}");
    for options in ["-o uid=65534", "-o ro"] {
        assert_eq!(mount(options), "", "{options}");
    }
    run_well(&folder, "./jext mkfs -q -F -E root_owner disk.img");
    assert_eq!(mount(""), "");
}

/// An image that cannot be written, in a folder that cannot be written, is mounted read-only and
/// stays what it is.
#[test]
fn what_cannot_be_written_is_mounted_read_only() {
    if !privilege::is_granted() {
        return;
    }
    let folder = folder();
    folder.write("text", b"there\n");
    folder.good("cp text disk.img:/text");
    let image = folder.path().join("disk.img");
    chown(&image, Some(0), Some(0)).unwrap();
    set_mode(&image, 0o444);
    set_mode(folder.path(), 0o555);
    let before = folder.read("disk.img");
    let mounted = run(&folder, "./jext mount disk.img mnt");
    assert!(mounted.status.success());
    let said = tool::said(&mounted);
    let warning = "jext: warning: disk.img: write-protected, mounted read-only\n";
    assert_eq!(said, warning);
    run_well(&folder, "./jext umount mnt");
    run_well(&folder, "./jext mount -o ro --log log disk.img mnt");
    assert_eq!(run_well(&folder, "cat mnt/text"), "there\n");
    let written = run(&folder, "echo more > mnt/text");
    assert!(tool::said(&written).contains("Read-only file system"));
    run_well(&folder, "./jext umount mnt");
    assert!(folder.read("disk.img") == before);
}
