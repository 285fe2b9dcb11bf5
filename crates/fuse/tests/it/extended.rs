//! Extended attributes and access control lists, through the mount.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;

use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;
use testkit::tool;

use super::support::on_a_mount;

#[test]
fn attributes_are_set_read_listed_and_taken_away() {
    on_a_mount(|mounted| {
        let file = mounted.at("f");
        File::create(&file).unwrap();
        let mut room = [0; 64];
        for name in ["user.colour", "trusted.colour", "security.colour"] {
            assert_eq!(getxattr(&file, name, &mut room), Err(Errno::NODATA));
            setxattr(&file, name, b"green", XattrFlags::CREATE).unwrap();
            let again = setxattr(&file, name, b"red", XattrFlags::CREATE);
            assert_eq!(again, Err(Errno::EXIST));
            setxattr(&file, name, b"blue", XattrFlags::REPLACE).unwrap();
            let length = getxattr(&file, name, &mut room).unwrap();
            assert_eq!(&room[..length], b"blue");
            assert_eq!(getxattr(&file, name, &mut room[..2]), Err(Errno::RANGE));
        }
        let length = listxattr(&file, &mut room).unwrap();
        let names = &room[..length];
        assert_eq!(names.split(|byte| *byte == 0).count(), 4);
        removexattr(&file, "user.colour").unwrap();
        assert_eq!(removexattr(&file, "user.colour"), Err(Errno::NODATA));
        let long = vec![1; 4096];
        let refused = setxattr(&file, "user.long", &long, XattrFlags::empty());
        assert_eq!(refused, Err(Errno::NOSPC));
    });
}

#[test]
fn only_root_sees_the_names_of_trusted_attributes() {
    on_a_mount(|mounted| {
        let file = mounted.at("f");
        File::create(&file).unwrap();
        for name in [
            "user.colour",
            "trusted.colour",
            "trusted.shape",
            "security.colour",
        ] {
            setxattr(&file, name, b"green", XattrFlags::CREATE).unwrap();
        }
        let names = |user: &str| {
            let user = format!("--reuid={user}");
            let words = [
                &user,
                "--regid=1000",
                "--clear-groups",
                "getfattr",
                "-m",
                "-",
            ];
            let words = words.into_iter().map(OsStr::new);
            let words: Vec<_> = words.chain([file.as_os_str()]).collect();
            let listed = tool::run_well("setpriv", &words);
            let names = listed
                .lines()
                .filter(|line| !line.starts_with('#') && !line.is_empty());
            names.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(names("1000"), ["security.colour", "user.colour"]);
        assert_eq!(names("0").len(), 4);
    });
}

#[test]
fn access_control_lists_are_handed_down_and_obeyed() {
    on_a_mount(|mounted| {
        let directory = mounted.at("d");
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).unwrap();
        let set = |list: &str| {
            tool::run_well(
                "setfacl",
                &["-m".as_ref(), list.as_ref(), directory.as_os_str()],
            );
        };
        set("d:u:65534:rw,d:g::---,d:o::---");
        let file = mounted.at("d/f");
        fs::write(&file, "text").unwrap();
        let listed = tool::run_well("getfacl", &["-cnp".as_ref(), file.as_os_str()]);
        assert!(listed.contains("user:65534:rw-"), "{listed}");
        assert!(listed.contains("other::---"), "{listed}");
        let can_read = |user: &str| {
            let ids = [format!("--reuid={user}"), format!("--regid={user}")];
            std::process::Command::new("setpriv")
                .args(ids)
                .args(["--clear-groups", "cat"])
                .arg(&file)
                .output()
                .unwrap()
                .status
                .success()
        };
        assert!(can_read("65534"), "the list says so");
        assert!(!can_read("12345"), "nobody says so");
        fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        assert!(!can_read("65534"), "chmod has changed the mask");
    });
}
