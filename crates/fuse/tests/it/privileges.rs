//! Set-user-ID and set-group-ID bits are removed when another user changes the program.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::IFlags;
use testkit::tool;

use super::support::{Mounted, on_a_mount};

const BOTH_BITS: u32 = 0o6777;
/// Changes of a file's contents, as lines of the shell.
const CHANGES: [&str; 7] = [
    "echo changed >> \"$1\"",
    "echo changed | dd of=\"$1\" conv=notrunc status=none",
    "head -c 4096 /dev/zero | dd of=\"$1\" bs=4096 oflag=direct conv=notrunc status=none",
    "truncate -s 100 \"$1\"",
    ": > \"$1\"",
    "fallocate -l 20000 \"$1\"",
    "xfs_io -c \"copy_range ${1%program}source\" \"$1\"",
];
/// The extended attribute of a file's capabilities, and a value: CAP_NET_BIND_SERVICE.
const CAPABILITIES: &str = "security.capability";
const BIND_SERVICE: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn mode_of(file: &Path) -> u32 {
    fs::metadata(file).unwrap().mode() & 0o7777
}

/// Runs a line of the shell as root or as another user.
fn run(is_root: bool, line: &str, file: &Path) {
    let user: &[&str] = match is_root {
        true => &["--reuid", "0"],
        false => &["--reuid", "1000", "--regid", "1000", "--clear-groups"],
    };
    let mut arguments: Vec<&std::ffi::OsStr> = user.iter().map(std::ffi::OsStr::new).collect();
    for word in ["bash", "-c", line, "bash"] {
        arguments.push(word.as_ref());
    }
    arguments.push(file.as_os_str());
    tool::run_well("setpriv", &arguments);
}

#[test]
fn they_go_when_somebody_changes_the_contents() {
    on_a_mount(|mounted| {
        let file = mounted.at("program");
        fs::write(mounted.at("source"), vec![1; 10_000]).unwrap();
        for line in CHANGES {
            fs::write(&file, vec![7; 10_000]).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(BOTH_BITS)).unwrap();
            assert_eq!(mode_of(&file), BOTH_BITS);
            run(true, line, &file);
            assert_eq!(mode_of(&file), BOTH_BITS, "root: {line}");
            run(false, line, &file);
            assert_eq!(mode_of(&file), 0o777, "{line}");
        }
    });
}

#[test]
fn they_go_with_the_owner() {
    on_a_mount(|mounted| {
        let file = mounted.at("program");
        fs::write(&file, "a program").unwrap();
        for owner in ["1000", ":1000", "1001:1001"] {
            fs::set_permissions(&file, Permissions::from_mode(BOTH_BITS)).unwrap();
            run(true, &format!("chown {owner} \"$1\""), &file);
            assert_eq!(mode_of(&file), 0o777, "{owner}");
        }
        // Without execute permission, the group's bit has another meaning.
        fs::set_permissions(&file, Permissions::from_mode(0o6767)).unwrap();
        run(true, "chown 7 \"$1\"", &file);
        assert_eq!(mode_of(&file), 0o2767);
        let directory = mounted.at("directory");
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o2775)).unwrap();
        run(true, "chown 7:8 \"$1\"", &directory);
        assert_eq!(mode_of(&directory), 0o2775);
    });
}

/// An overlay file system whose upper directory is on a mount; it is unmounted on drop.
struct Overlay(PathBuf);

impl Overlay {
    fn new(mounted: &Mounted) -> Self {
        let folder = mounted.at("").parent().unwrap().to_owned();
        let parts = [
            ("lowerdir", folder.join("lower")),
            ("upperdir", mounted.at("upper")),
            ("workdir", mounted.at("work")),
        ];
        let merged = folder.join("merged");
        fs::create_dir_all(&merged).unwrap();
        let mut options = Vec::new();
        for (name, path) in parts {
            fs::create_dir_all(&path).unwrap();
            options.push(format!("{name}={}", path.display()));
        }
        let (options, point) = (options.join(","), merged.to_str().unwrap());
        let words = ["-t", "overlay", "overlay", "-o", &options, point];
        tool::run_well("mount", &words);
        Self(merged)
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        tool::run("umount", &[&self.0]);
    }
}

/// An overlay changes its upper files with root's rights.
#[test]
fn they_go_when_somebody_changes_the_contents_through_an_overlay() {
    on_a_mount(|mounted| {
        let overlay = Overlay::new(mounted);
        let file = overlay.0.join("program");
        fs::write(overlay.0.join("source"), vec![1; 10_000]).unwrap();
        for line in CHANGES {
            for (before, after) in [(0o6777, 0o777), (0o2666, 0o666)] {
                fs::write(&file, vec![7; 10_000]).unwrap();
                fs::set_permissions(&file, Permissions::from_mode(before)).unwrap();
                run(true, line, &file);
                assert_eq!(mode_of(&file), before, "root: {line}");
                run(false, line, &file);
                assert_eq!(mode_of(&file), after, "{before:o}: {line}");
            }
        }
        // The owner is outside the group.
        std::os::unix::fs::chown(&file, Some(1000), None).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o2755)).unwrap();
        for (is_root, after) in [(true, 0o2755), (false, 0o755)] {
            let user = 5 + u32::from(is_root);
            run(is_root, &format!("setfacl -m user:{user}:r \"$1\""), &file);
            assert_eq!(mode_of(&file), after, "root: {is_root}");
        }
    });
}

/// So do the capabilities of a program, also with a change by root, and if the kernel has noted at
/// an earlier write that it has none.
#[test]
fn capabilities_go_when_the_contents_change() {
    on_a_mount(|mounted| {
        let overlay = Overlay::new(mounted);
        for folder in [mounted.at(""), overlay.0.clone()] {
            let file = folder.join("program");
            fs::write(folder.join("source"), vec![1; 10_000]).unwrap();
            for line in CHANGES {
                for is_root in [false, true] {
                    fs::write(&file, vec![7; 10_000]).unwrap();
                    fs::set_permissions(&file, Permissions::from_mode(0o777)).unwrap();
                    run(is_root, CHANGES[0], &file);
                    let none = rustix::fs::XattrFlags::empty();
                    rustix::fs::setxattr(&file, CAPABILITIES, &BIND_SERVICE, none).unwrap();
                    run(is_root, line, &file);
                    let found = rustix::fs::getxattr(&file, CAPABILITIES, &mut [0_u8; 64]);
                    assert_eq!(found, Err(rustix::io::Errno::NODATA), "{line}");
                }
            }
        }
    });
}

/// The kernel removes nothing before a write that it does not cache, as one to a synchronous file.
#[test]
fn capabilities_go_when_a_synchronous_file_is_written() {
    on_a_mount(|mounted| {
        let file = mounted.at("program");
        for is_root in [false, true] {
            for line in &CHANGES[..3] {
                fs::write(&file, vec![7; 10_000]).unwrap();
                fs::set_permissions(&file, Permissions::from_mode(0o777)).unwrap();
                let flags = IFlags::SYNC | mounted.extents();
                rustix::fs::ioctl_setflags(fs::File::open(&file).unwrap(), flags).unwrap();
                let none = rustix::fs::XattrFlags::empty();
                rustix::fs::setxattr(&file, CAPABILITIES, &BIND_SERVICE, none).unwrap();
                run(is_root, line, &file);
                let found = rustix::fs::getxattr(&file, CAPABILITIES, &mut [0_u8; 64]);
                assert_eq!(found, Err(rustix::io::Errno::NODATA), "{line}");
                fs::remove_file(&file).unwrap();
            }
        }
    });
}

/// ext3 has no calls that allocate or zero a range: here they clear the bits like a write, even for
/// a group that the caller is not in.
#[test]
fn they_go_with_ranges_that_are_allocated_or_zeroed() {
    on_a_mount(|mounted| {
        let file = mounted.at("program");
        for line in ["fallocate -z -l 4096 \"$1\"", "fallocate -l 20000 \"$1\""] {
            for (before, after) in [(0o6666, 0o666), (0o2666, 0o666), (0o6777, 0o777)] {
                fs::write(&file, vec![7; 10_000]).unwrap();
                fs::set_permissions(&file, Permissions::from_mode(before)).unwrap();
                run(false, line, &file);
                assert_eq!(mode_of(&file), after, "{before:o}: {line}");
            }
        }
    });
}

/// Any user can create a user namespace and have all capabilities in it. They do not apply to files
/// of users outside.
#[test]
fn rights_in_a_namespace_of_ones_own_keep_no_bits() {
    on_a_mount(|mounted| {
        let (file, source) = (mounted.at("program"), mounted.at("source"));
        fs::write(&source, vec![1; 10_000]).unwrap();
        let copy = format!("cp {} \"$1\"", source.display());
        for line in ["truncate -s 100 \"$1\"", "fallocate -l 20000 \"$1\"", &copy] {
            fs::write(&file, vec![7; 10_000]).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(BOTH_BITS)).unwrap();
            run(
                false,
                &format!("unshare -Ur bash -c '{line}' bash \"$1\""),
                &file,
            );
            assert_eq!(mode_of(&file), 0o777, "{line}");
        }
    });
}

/// Number of the ioctl by which a 32-bit program sets flags; the kernel does not check its caller.
const SET_FLAGS_32: &str = "0x40046602";

#[test]
fn flags_are_set_by_the_owner_and_by_root() {
    on_a_mount(|mounted| {
        let file = mounted.at("file");
        fs::write(&file, "contents").unwrap();
        let set = |flags: u32| {
            let control =
                format!("$flags = pack(\"i\", {flags}); ioctl(FILE, {SET_FLAGS_32}, $flags)");
            format!("perl -e 'open(FILE, \"<\", $ARGV[0]) or die; {control} or exit 9' \"$1\"")
        };
        let refused = |flags| format!("{}; [ $? = 9 ]", set(flags));
        let (no_dump, immutable, journal) = (0x40, 0x10, 0x4000);
        for flags in [no_dump, immutable, journal] {
            run(false, &refused(flags), &file);
        }
        fs::write(&file, "other contents").unwrap();
        std::os::unix::fs::chown(&file, Some(1000), None).unwrap();
        run(false, &refused(immutable), &file);
        run(false, &refused(journal), &file);
        run(true, &set(journal), &file);
        run(false, &refused(no_dump), &file);
        run(true, &set(0), &file);
        run(false, &set(no_dump), &file);
        run(true, &set(immutable), &file);
        run(false, &refused(0), &file);
        assert!(fs::write(&file, "third contents").is_err());
        run(true, &set(0), &file);
    });
}
