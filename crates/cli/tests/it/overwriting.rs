//! Copies whose target exists: what an error leaves of it, links and devices in its place, and
//! targets that the same command has made.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testkit::{privilege, tool};

use crate::support::Folder;

/// The user and group that owns nothing.
const NOBODY: u32 = 65534;
/// The time after which a copy of a few megabytes has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn a_source_that_cannot_be_opened_leaves_the_target_as_it_is() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::with_image();
    set_mode(folder.path(), 0o755);
    let program = assert_cmd::cargo::cargo_bin("jext");
    let ours = folder.path().join("jext");
    if fs::hard_link(&program, &ours).is_err() {
        fs::copy(&program, &ours).unwrap();
    }
    folder.write("secret", b"secret");
    set_mode(&folder.path().join("secret"), 0o600);
    folder.write("kept", b"kept");
    folder.good("cp kept disk.img:/kept");
    for name in ["disk.img", "kept"] {
        chown(folder.path().join(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    for options in ["", "-a "] {
        for target in ["kept", "disk.img:/kept"] {
            let mut command = Command::new("setpriv");
            command.current_dir(folder.path());
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
            let line = format!("./jext cp {options}secret {target}");
            let output = command.args(["sh", "-c", &line]).output().unwrap();
            let said = tool::said(&output);
            assert_eq!(output.status.code(), Some(1), "{line}: {said}");
            assert!(said.contains("secret: Permission denied"), "{line}: {said}");
        }
        assert_eq!(folder.read("kept"), b"kept");
        assert_eq!(folder.good("cat disk.img:/kept"), "kept");
    }
    folder.check("disk.img");
    // Nodes reach the target in batches, and the file may be the last of one.
    for count in [62, 63, 64] {
        let tree = folder.path().join(format!("tree{count}"));
        let copy = folder.path().join(format!("to/tree{count}"));
        for directory in [&tree, &copy] {
            fs::create_dir_all(directory).unwrap();
            fs::write(directory.join("x"), b"kept").unwrap();
        }
        set_mode(&tree.join("x"), 0o600);
        for number in 0..count {
            fs::write(tree.join(format!("{number}")), b"").unwrap();
        }
        for path in [copy.parent().unwrap(), &copy, &copy.join("x")] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mut command = Command::new("setpriv");
        command.current_dir(folder.path());
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        let line = format!("./jext cp -r tree{count} to");
        let output = command.args(["sh", "-c", &line]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", tool::said(&output));
        assert_eq!(fs::read(copy.join("x")).unwrap(), b"kept", "{count}");
    }
}

/// The target of a copy may be the source of a later one.
#[test]
fn a_source_that_the_copy_itself_shortens_ends() {
    let folder = Folder::with_image();
    folder.write("a", b"x");
    folder.write("b", &vec![7; 12 << 20]);
    folder.good("mkdir disk.img:/from disk.img:/to");
    folder.good("cp a b disk.img:/from");
    folder.good("ln disk.img:/from/b disk.img:/to/a");
    let mut command = folder.command("cp -r disk.img:/from/. disk.img:/to");
    let output = command.timeout(PATIENCE).output().unwrap();
    let said = tool::said(&output);
    // Whether it was read before is a matter of luck.
    let is_read = output.status.success();
    assert!(is_read || said.contains("it is shorter now"), "{said}");
    folder.check("disk.img");
}
