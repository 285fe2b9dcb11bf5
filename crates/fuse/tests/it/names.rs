//! Names: created, linked, renamed, removed, and listed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, RenameFlags};

use super::support::on_a_mount;

fn names(directory: &Path) -> BTreeSet<String> {
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn every_kind_of_name_can_be_made_and_taken_away() {
    on_a_mount(|mounted| {
        let at = |name: &str| mounted.at(name);
        fs::create_dir(at("d")).unwrap();
        File::create(at("d/f")).unwrap();
        fs::hard_link(at("d/f"), at("h")).unwrap();
        symlink("d/f", at("s")).unwrap();
        let device = rustix::fs::makedev(300, 70_000);
        rustix::fs::mknodat(CWD, at("n"), FileType::BlockDevice, Mode::RUSR, device).unwrap();
        rustix::fs::mknodat(CWD, at("p"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(fs::read_link(at("s")).unwrap(), Path::new("d/f"));
        assert_eq!(fs::metadata(at("h")).unwrap().nlink(), 2);
        let node = fs::symlink_metadata(at("n")).unwrap();
        assert!(node.file_type().is_block_device());
        assert_eq!(node.rdev(), device);
        assert_eq!(fs::metadata(at("")).unwrap().ino(), 2);
        assert_eq!(fs::metadata(at("")).unwrap().nlink(), 4);
        assert_eq!(
            fs::remove_dir(at("d")).unwrap_err().kind(),
            std::io::ErrorKind::DirectoryNotEmpty
        );
        for name in ["h", "s", "n", "p", "d/f"] {
            fs::remove_file(at(name)).unwrap();
        }
        fs::remove_dir(at("d")).unwrap();
        assert_eq!(names(&at("")), BTreeSet::from(["lost+found".to_owned()]));
    });
}

#[test]
fn renames_replace_refuse_and_exchange() {
    on_a_mount(|mounted| {
        let at = |name: &str| mounted.at(name);
        let rename = |from: &str, to: &str, flags| {
            rustix::fs::renameat_with(CWD, at(from), CWD, at(to), flags)
        };
        fs::write(at("a"), "a").unwrap();
        fs::write(at("b"), "b").unwrap();
        assert_eq!(
            rename("a", "b", RenameFlags::NOREPLACE),
            Err(rustix::io::Errno::EXIST)
        );
        rename("a", "b", RenameFlags::EXCHANGE).unwrap();
        assert_eq!(fs::read(at("a")).unwrap(), b"b");
        rename("a", "b", RenameFlags::empty()).unwrap();
        assert_eq!(fs::read(at("b")).unwrap(), b"b");
        assert!(!at("a").exists());
        assert_eq!(
            rename("b", "a", RenameFlags::WHITEOUT | RenameFlags::EXCHANGE),
            Err(rustix::io::Errno::INVAL)
        );
    });
}

/// Overlay file systems need this of their upper file system: after a rename, a whiteout hides the
/// lower file.
#[test]
fn a_rename_can_leave_a_whiteout() {
    on_a_mount(|mounted| {
        let at = |name: &str| mounted.at(name);
        let rename = |from: &str, to: &str, flags| {
            rustix::fs::renameat_with(CWD, at(from), CWD, at(to), flags)
        };
        let is_whiteout = |name: &str| {
            let node = fs::symlink_metadata(at(name)).unwrap();
            node.file_type().is_char_device() && node.rdev() == 0 && node.mode() & 0o7777 == 0
        };
        fs::write(at("a"), "a").unwrap();
        fs::write(at("b"), "b").unwrap();
        fs::create_dir_all(at("d/below")).unwrap();
        fs::create_dir(at("e")).unwrap();
        rename("a", "b", RenameFlags::WHITEOUT).unwrap();
        rename("d/below", "e/below", RenameFlags::WHITEOUT).unwrap();
        assert_eq!(fs::read(at("b")).unwrap(), b"a");
        assert!(at("e/below").is_dir());
        assert!(is_whiteout("a") && is_whiteout("d/below"));
        assert_eq!(fs::metadata(at("d")).unwrap().nlink(), 2);
        assert_eq!(fs::metadata(at("e")).unwrap().nlink(), 3);
        // Whiteouts are entries like others.
        let both = RenameFlags::WHITEOUT | RenameFlags::NOREPLACE;
        assert_eq!(rename("b", "a", both), Err(rustix::io::Errno::EXIST));
        rename("b", "c", both).unwrap();
        rename("c", "a", RenameFlags::EXCHANGE).unwrap();
        assert!(is_whiteout("b") && is_whiteout("c"));
        fs::remove_file(at("b")).unwrap();
        fs::remove_file(at("d/below")).unwrap();
        fs::remove_dir(at("d")).unwrap();
    });
}

/// A listing takes several requests while names are added and removed.
#[test]
fn a_large_directory_is_listed_once() {
    on_a_mount(|mounted| {
        let directory = mounted.at("many");
        fs::create_dir(&directory).unwrap();
        let name = |number: u32| format!("a name that is not short, number {number}");
        for number in 0..3000 {
            File::create(directory.join(name(number))).unwrap();
        }
        for number in (0..3000).step_by(3) {
            fs::remove_file(directory.join(name(number))).unwrap();
        }
        let expected: BTreeSet<_> = (0..3000).filter(|n| n % 3 != 0).map(name).collect();
        assert_eq!(names(&directory), expected);
        let mut count = 0;
        for entry in fs::read_dir(&directory).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().len(), 0);
            count += 1;
        }
        assert_eq!(count, 2000);
    });
}

/// A name that the kernel caches as absent can be created, and a removed one is absent at once.
#[test]
fn what_is_absent_is_remembered_and_made() {
    on_a_mount(|mounted| {
        let path = mounted.at("name");
        for _ in 0..3 {
            assert!(!path.exists());
            File::create(&path).unwrap();
            assert!(path.exists());
            fs::remove_file(&path).unwrap();
        }
        let flags = AtFlags::empty();
        let gone = rustix::fs::statat(CWD, &path, flags);
        assert_eq!(gone.unwrap_err(), rustix::io::Errno::NOENT);
    });
}

/// Names are read through a small buffer while the directory, one block at first, becomes an htree
/// and its leaves are split.
#[test]
fn a_listing_goes_on_beside_changes() {
    on_a_mount(|mounted| {
        let at = |number: u32| mounted.at(&format!("d/a-name-of-some-length-{number:04}"));
        fs::create_dir(mounted.at("d")).unwrap();
        let create = |number: u32| drop(File::create(at(number)).unwrap());
        (0..90).for_each(create);
        let directory = File::open(mounted.at("d")).unwrap();
        let mut seen = Vec::new();
        let mut cookies = Vec::new();
        for step in 0.. {
            let mut buffer = Vec::with_capacity(600);
            let mut entries = rustix::fs::RawDir::new(&directory, buffer.spare_capacity_mut());
            let before = seen.len();
            while let Some(entry) = entries.next() {
                let entry = entry.unwrap();
                seen.push(entry.file_name().to_str().unwrap().to_owned());
                cookies.push(entry.next_entry_cookie());
                if entries.is_buffer_empty() {
                    break;
                }
            }
            if seen.len() == before {
                break;
            }
            (0..40).for_each(|number| create(1000 + 40 * step + number));
            fs::remove_file(at(1000 + 40 * step)).unwrap();
            if step == 5 {
                // Seek back, as `seekdir` does.
                seen.truncate(10);
                cookies.truncate(10);
                rustix::fs::seek(&directory, rustix::fs::SeekFrom::Start(cookies[9])).unwrap();
            }
        }
        let count = |name: &str| seen.iter().filter(|other| *other == name).count();
        for name in (0..90).map(|number| format!("a-name-of-some-length-{number:04}")) {
            assert_eq!(count(&name), 1, "{name}");
        }
        assert!(seen.iter().all(|name| count(name) == 1));
        assert!([".", ".."].iter().all(|name| count(name) == 1));
    });
}
