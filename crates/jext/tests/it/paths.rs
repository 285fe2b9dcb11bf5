//! The library's operations by path: names that are not UTF-8, symbolic links, extended attributes,
//! and the option to follow links.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use jext::volume::{FileKind, SetAttributes, SetMode};
use jext::{Error, MountOptions, Volume, fsck, mkfs};

/// Creates a volume and runs `work` on it; the resulting file system must be clean.
fn with_volume(work: impl FnOnce(&Volume)) {
    let device = jext::memory(16 << 20);
    mkfs::format(&device, &mkfs::Options::default()).unwrap();
    let volume = Volume::open(device.clone(), None, MountOptions::default()).unwrap();
    work(&volume);
    volume.close().unwrap();
    let report = fsck::check(&*device, None, &fsck::Options::default()).unwrap();
    assert!(report.is_clean(), "{:?}", report.kinds());
}

fn walk(volume: &Volume, path: &Path, found: &mut Vec<PathBuf>) {
    for entry in volume.list(path).unwrap() {
        let inner = path.join(entry.file_name());
        found.push(inner.clone());
        if volume.metadata(&inner, false).unwrap().kind == FileKind::Directory {
            walk(volume, &inner, found);
        }
    }
}

#[test]
fn names_that_are_not_utf8_are_walked() {
    with_volume(|volume| {
        volume.create_directory_all(b"/d\xFF/e\xFE").unwrap();
        let path = Path::new("/").join(OsStr::from_bytes(b"d\xFF/e\xFE/f\xFD"));
        volume.write_file(&path, b"found").unwrap();
        let mut found = Vec::new();
        walk(volume, Path::new("/"), &mut found);
        assert_eq!(found.len(), 4);
        assert!(found.contains(&path), "{found:?}");
        assert_eq!(volume.read_file(&path).unwrap(), b"found");
        assert_eq!(volume.read_file(path.as_os_str()).unwrap(), b"found");
    });
}

#[test]
fn symbolic_links_are_made_and_read_by_path() {
    with_volume(|volume| {
        volume.create_directory("/d").unwrap();
        volume.write_file("/d/file", b"here").unwrap();
        for (path, target) in [("/d/near", "file"), ("/far", "/d/near"), ("/lost", "none")] {
            let nr = volume.create_symlink(path, target).unwrap();
            assert_eq!(volume.resolve(path, false).unwrap(), nr);
            assert_eq!(volume.read_link_at(path).unwrap(), target.as_bytes());
        }
        // Too long to fit in an inode.
        let long = format!("/{}d/file", "d/../".repeat(60));
        volume.create_symlink("/long", &long).unwrap();
        assert_eq!(volume.read_link_at("/long").unwrap(), long.as_bytes());
        for path in ["/far", "/long"] {
            assert_eq!(volume.read_file(path).unwrap(), b"here", "{path}");
        }
        let exists = volume.create_symlink("/lost", "other");
        assert!(matches!(exists, Err(Error::Exists)), "{exists:?}");
        let empty = volume.create_symlink("/empty", "");
        assert!(matches!(empty, Err(Error::Invalid(_))), "{empty:?}");
        let file = volume.read_link_at("/d/file");
        assert!(matches!(file, Err(Error::Invalid(_))), "{file:?}");
        let lost = volume.read_file("/lost");
        assert!(matches!(lost, Err(Error::NotFound)), "{lost:?}");
    });
}

#[test]
fn hard_links_are_made_by_path_and_follow_nothing() {
    with_volume(|volume| {
        volume.write_file("/f", b"one").unwrap();
        volume.create_symlink("/link", "f").unwrap();
        volume.hard_link("/f", "/g").unwrap();
        volume.hard_link("/link", "/also a link").unwrap();
        assert_eq!(volume.metadata("/f", false).unwrap().links, 2);
        assert_eq!(volume.read_link_at("/also a link").unwrap(), b"f");
        let exists = volume.hard_link("/f", "/g");
        assert!(matches!(exists, Err(Error::Exists)), "{exists:?}");
        let directory = volume.hard_link("/lost+found", "/h");
        assert!(
            matches!(directory, Err(Error::IsDirectory)),
            "{directory:?}"
        );
    });
}

#[test]
fn attributes_are_those_of_the_link_or_of_what_it_leads_to() {
    with_volume(|volume| {
        volume.write_file("/f", b"").unwrap();
        volume.create_symlink("/link", "f").unwrap();
        let set = |path, follow, name: &str, mode| {
            volume.set_attribute_at(path, follow, name, b"value", mode)
        };
        set("/link", true, "user.colour", SetMode::Any).unwrap();
        set("/link", false, "trusted.of-link", SetMode::Create).unwrap();
        let names = |follow| volume.list_attributes_at("/link", follow).unwrap();
        assert_eq!(names(true), [b"user.colour"]);
        assert_eq!(names(false), [b"trusted.of-link"]);
        assert_eq!(
            volume
                .get_attribute_at("/f", false, b"user.colour")
                .unwrap(),
            b"value"
        );
        let none = volume.get_attribute_at("/link", false, "user.colour");
        assert!(matches!(none, Err(Error::NoAttribute)), "{none:?}");
        // As in the kernel: user attributes are for files and directories only.
        let refused = set("/link", false, "user.colour", SetMode::Any);
        assert!(matches!(refused, Err(Error::NotPermitted)), "{refused:?}");
        let exists = set("/f", true, "user.colour", SetMode::Create);
        assert!(matches!(exists, Err(Error::Exists)), "{exists:?}");
        let none = set("/f", true, "user.shape", SetMode::Replace);
        assert!(matches!(none, Err(Error::NoAttribute)), "{none:?}");
        volume
            .remove_attribute_at("/link", true, "user.colour")
            .unwrap();
        volume
            .remove_attribute_at("/link", false, "trusted.of-link")
            .unwrap();
        assert!(names(true).is_empty() && names(false).is_empty());
        let none = volume.remove_attribute_at("/f", true, "user.colour");
        assert!(matches!(none, Err(Error::NoAttribute)), "{none:?}");
    });
}

#[test]
fn owners_and_times_are_set_of_the_link_or_of_what_it_leads_to() {
    with_volume(|volume| {
        volume.write_file("/f", b"").unwrap();
        volume.create_symlink("/link", "f").unwrap();
        for (follow, uid) in [(true, 7), (false, 8)] {
            let change = SetAttributes {
                uid: Some(uid),
                ..Default::default()
            };
            volume.set_metadata("/link", follow, &change).unwrap();
        }
        assert_eq!(volume.metadata("/f", false).unwrap().uid, 7);
        assert_eq!(volume.metadata("/link", false).unwrap().uid, 8);
    });
}

#[test]
fn missing_directories_are_made_behind_links_and_never_over_files() {
    with_volume(|volume| {
        volume.create_directory("/d").unwrap();
        volume.create_symlink("/link", "d").unwrap();
        volume.create_symlink("/lost", "none").unwrap();
        volume.write_file("/file", b"").unwrap();
        let made = volume.create_directory_all("/link/a/b").unwrap();
        assert_eq!(volume.resolve("/d/a/b", false).unwrap(), made);
        assert_eq!(volume.create_directory_all("/link/a/b").unwrap(), made);
        for path in ["/file", "/file/a"] {
            let refused = volume.create_directory_all(path);
            assert!(
                matches!(refused, Err(Error::NotDirectory)),
                "{path}: {refused:?}"
            );
        }
        let refused = volume.create_directory_all("/lost/a");
        assert!(matches!(refused, Err(Error::Exists)), "{refused:?}");
    });
}
