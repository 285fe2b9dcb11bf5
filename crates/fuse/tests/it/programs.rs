//! Programs run from a mount, devices on it, and the options that forbid both.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fuse::Settings;
use rustix::fs::{CWD, FileType, Mode};
use testkit::tool;

use super::support::{Mounted, Place};

/// Copies a program to the mount. A child process copies it: a file that this process has open for
/// writing is inherited for a moment by every process that it starts.
fn install(mounted: &Mounted, name: &str, permissions: u32) -> PathBuf {
    let program = mounted.at(name);
    let source = Path::new("/usr/bin").join(name);
    tool::run_well("cp", &[source.as_os_str(), program.as_os_str()]);
    fs::set_permissions(&program, PermissionsExt::from_mode(permissions)).unwrap();
    program
}

/// Creates a device that reads as zeroes.
fn make_zero(mounted: &Mounted) -> PathBuf {
    let path = mounted.at("zero");
    let device = rustix::fs::makedev(1, 5);
    let mode = Mode::RUSR | Mode::ROTH;
    rustix::fs::mknodat(CWD, &path, FileType::CharacterDevice, mode, device).unwrap();
    path
}

fn with_flags(flags: &[&str], work: impl Fn(&Mounted)) {
    if !testkit::privilege::is_granted() {
        return;
    }
    let place = Place::new();
    let mut settings = Settings::default();
    settings.description.allow_other = true;
    settings.description.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let mounted = place.mount(&settings);
    fs::set_permissions(mounted.at(""), PermissionsExt::from_mode(0o755)).unwrap();
    work(&mounted);
    mounted.end().unwrap();
    place.check();
}

/// Returns the output of a program run by a user other than root.
fn run_as_stranger(program: &Path) -> String {
    let words = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut words: Vec<_> = words.iter().map(std::ffi::OsStr::new).collect();
    words.extend([program.as_os_str(), "-u".as_ref()]);
    tool::run_well("setpriv", &words).trim().to_owned()
}

#[test]
fn programs_run_and_devices_open() {
    with_flags(&[], |mounted| {
        let program = install(mounted, "id", 0o755);
        for _ in 0..2 {
            assert_eq!(run_as_stranger(&program), "65534");
            let output = Command::new(&program).arg("-u").output().unwrap();
            assert_eq!(output.stdout, b"0\n");
        }
        // A running program cannot be written to, but it can be removed.
        let sleep = install(mounted, "sleep", 0o755);
        let mut sleeping = Command::new(&sleep).arg("60").spawn().unwrap();
        let busy = fs::OpenOptions::new().write(true).open(&sleep);
        assert_eq!(
            busy.unwrap_err().kind(),
            std::io::ErrorKind::ExecutableFileBusy
        );
        fs::remove_file(&sleep).unwrap();
        sleeping.kill().unwrap();
        sleeping.wait().unwrap();
        let mut bytes = [1; 100];
        File::open(make_zero(mounted))
            .unwrap()
            .read_exact(&mut bytes)
            .unwrap();
        assert_eq!(bytes, [0; 100]);
    });
}

#[test]
fn options_forbid_programs_and_devices() {
    with_flags(&["noexec", "nosuid", "nodev"], |mounted| {
        let program = install(mounted, "id", 0o755);
        let refused = Command::new(&program).output().unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
        let refused = File::open(make_zero(mounted)).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    });
}

/// The set-user-ID bit gives another user the owner's rights, unless forbidden.
#[test]
fn the_set_user_id_bit_works_unless_forbidden() {
    for (flags, said) in [(&[][..], "0"), (&["nosuid"][..], "65534")] {
        with_flags(flags, |mounted| {
            let program = install(mounted, "id", 0o4755);
            assert_eq!(run_as_stranger(&program), said);
        });
    }
}
