//! Directories that ignore case (`casefold`): they are read, their names are found as they are
//! written, and nothing changes them. The kernel of the tests has no Unicode: debugfs makes the
//! directories, e2fsck indexes and checks them.

use ext::options::DataMode;
use ext::tune::{Changes, apply, free_feature};
use ext::volume::{
    Entry, FileKind, InodeFlags, NewInode, OpenFlags, RenameMode, SetAttributes, SetMode,
};
use layout::InodeNr;
use testkit::tool;

use super::*;
use crate::oracle;
use crate::rig::quiet;

/// Formats: with checksums of all metadata, without extents, and without indexes.
const FORMATS: [(u32, &str); 4] = [
    (1024, "-O casefold"),
    (
        4096,
        "-O casefold -E encoding=utf8-12.1,encoding_flags=strict",
    ),
    (1024, "-O casefold,^extent,^64bit,^metadata_csum"),
    (1024, "-O casefold,^dir_index"),
];
/// Number of names of the directory that gets an index.
const MANY: usize = 400;
/// Names that differ in more than the case of Latin letters.
const NAMES: &[&str] = &["Straße", "ÉTÉ", "Ωμέγα", "plain", "UPPER", "K"];

fn debugfs(image: &Image, requests: &[String]) {
    let path = image.path.with_extension("requests");
    std::fs::write(&path, requests.join("\n")).unwrap();
    let (script, image) = (path.to_str().unwrap(), image.path.to_str().unwrap());
    let output = tool::run("debugfs", &["-w", "-f", script, image]);
    assert!(output.status.success(), "{}", tool::said(&output));
}

/// Makes an image with three such directories: `many`, which gets an index, `few` and `empty`.
fn folded(block_bytes: u32, more: &str) -> Image {
    let image = image(block_bytes, 16 * MIB, more);
    let contents = image.path.with_extension("contents");
    std::fs::write(&contents, [7; 5000]).unwrap();
    let contents = contents.to_str().unwrap();
    let mut requests: Vec<String> = ["many", "few", "empty", "plain"]
        .map(|name| format!("mkdir {name}"))
        .into();
    requests.push(format!("write {contents} plain/file"));
    requests.push("cd /few".to_owned());
    requests.extend(NAMES.iter().map(|name| format!("write {contents} {name}")));
    requests.push("mkdir Sub".to_owned());
    requests.push("cd /many".to_owned());
    requests.extend((0..MANY).map(|number| format!("mknod Name-{number} p")));
    requests.extend(NAMES.iter().map(|name| format!("write {contents} {name}")));
    let has_extents = !more.contains("^extent");
    let flags = if has_extents {
        0x4008_0000
    } else {
        0x4000_0000_u32
    };
    for name in ["many", "few", "empty"] {
        requests.push(format!("set_inode_field /{name} flags {flags:#x}"));
    }
    debugfs(&image, &requests);
    let path = image.path.to_str().unwrap();
    // Directories are indexed, and sorted by the hashes of names without case.
    let output = tool::run("e2fsck", &["-fyD", path]);
    let status = output.status.code();
    assert!(
        status.is_some_and(|status| status < 4),
        "{}",
        tool::said(&output)
    );
    image
}

fn open_on(image: &Image) -> Volume {
    Volume::open(image.device(), None, quiet(DataMode::Ordered)).expect("the volume opens")
}

fn names(entries: Vec<Entry>) -> Vec<String> {
    let names = entries.into_iter().map(|entry| entry.name);
    let mut names: Vec<_> = names.map(|name| String::from_utf8(name).unwrap()).collect();
    names.sort();
    names
}

fn expected_of_many() -> Vec<String> {
    let many = (0..MANY).map(|number| format!("Name-{number}"));
    let mut names: Vec<_> = many
        .chain(NAMES.iter().map(|name| (*name).to_owned()))
        .collect();
    names.sort();
    names
}

#[test]
fn names_are_read_and_found_as_they_are_written() {
    for (block_bytes, more) in FORMATS {
        let image = folded(block_bytes, more);
        oracle::assert_fsck_clean(&image, more);
        let volume = open_on(&image);
        assert!(!volume.is_read_only());
        let many = volume.resolve("/many", false).unwrap();
        let flags = volume.attributes(many).unwrap().flags;
        assert_eq!(
            flags.contains(InodeFlags::INDEX),
            !more.contains("^dir_index"),
            "{more}"
        );
        let found = volume.list("/many").unwrap();
        for entry in &found {
            assert_eq!(volume.lookup(many, &entry.name).unwrap(), entry.inode);
        }
        assert_eq!(names(found), expected_of_many(), "{more}");
        for other in ["name-1", "NAME-1", "STRASSE", "été", "k", "absent"] {
            let found = volume.lookup(many, other.as_bytes());
            assert!(matches!(found, Err(Error::NotFound)), "{other}: {found:?}");
        }
        // Listings continue from each of their cookies.
        let mut cookie = 0;
        let mut seen = Vec::new();
        loop {
            let mut next = None;
            let visit = &mut |at, entry: Entry| {
                next = Some((at, entry));
                false
            };
            volume.read_directory(many, cookie, visit).unwrap();
            let Some((at, entry)) = next else { break };
            cookie = at;
            seen.push(entry);
        }
        seen.retain(|entry| entry.name != b"." && entry.name != b"..");
        assert_eq!(names(seen), expected_of_many(), "{more}");
        volume.close().unwrap();
    }
}

fn is_refused<T: std::fmt::Debug>(what: &str, result: Result<T>) {
    let error = result.expect_err(what);
    assert!(matches!(error, Error::CaseFolded), "{what}: {error}");
    assert_eq!(error.raw_os_error(), 95, "{what}");
    assert!(error.to_string().contains("casefold"), "{error}");
}

/// Tries every change of the names of a directory.
fn change_names(volume: &Volume, at: &str, name: &str) {
    let directory = volume.resolve(at, false).unwrap();
    let plain = volume.resolve("/plain", false).unwrap();
    let file = volume.resolve("/plain/file", false).unwrap();
    let (old, new) = (name.as_bytes(), NewInode::default());
    is_refused("create", volume.create(directory, b"new", &new));
    is_refused("mkdir", volume.make_directory(directory, b"new", &new));
    is_refused(
        "symlink",
        volume.symlink(directory, b"new", b"target", &new),
    );
    is_refused("link", volume.link(file, directory, b"new"));
    is_refused("unlink", volume.unlink(directory, old));
    let rename = |from, name: &[u8], to, new: &[u8], mode| {
        is_refused("rename", volume.rename(from, name, to, new, mode));
    };
    rename(directory, old, directory, b"new", RenameMode::Replace);
    rename(directory, old, plain, b"new", RenameMode::NoReplace);
    rename(plain, b"file", directory, b"new", RenameMode::Replace);
    rename(plain, b"file", directory, old, RenameMode::Exchange);
    let file = volume.create_file(&format!("{at}/created"), &new);
    assert!(matches!(file.map(drop), Err(Error::CaseFolded)));
}

#[test]
fn names_are_not_changed_and_everything_else_is() {
    for (block_bytes, more) in FORMATS {
        let image = folded(block_bytes, more);
        let volume = open_on(&image);
        change_names(&volume, "/many", "UPPER");
        change_names(&volume, "/few", "UPPER");
        let few = volume.resolve("/few", false).unwrap();
        is_refused("rmdir", volume.remove_directory(few, b"Sub"));
        let root = InodeNr::ROOT;
        let full = volume.remove_directory(root, b"few");
        assert!(matches!(full, Err(Error::NotEmpty)), "{full:?}");
        // Of the files in there, contents and attributes are changed.
        let file = volume.resolve("/few/UPPER", false).unwrap();
        let open = volume.open_inode(file, OpenFlags::READ_WRITE).unwrap();
        volume.write(open, 4000, &[9; 9000]).unwrap();
        volume.release(open).unwrap();
        for nr in [file, few] {
            let change = SetAttributes {
                permissions: Some(0o700),
                ..SetAttributes::default()
            };
            volume.set_attributes(nr, &change).unwrap();
            let set = volume.set_attribute(nr, b"user.a", &[b'v'; 300], SetMode::Any);
            set.unwrap();
        }
        // A directory in another one may be changed, and so may the names of such directories.
        volume.create_directory("/few/Sub/new").unwrap();
        volume.rename_path("/few", "/less").unwrap();
        is_refused("move", volume.rename_path("/less", "/plain/less"));
        let plain = volume.resolve("/plain", false).unwrap();
        let exchanged = volume.rename(root, b"many", plain, b"file", RenameMode::Exchange);
        is_refused("exchange", exchanged);
        volume.remove_directory_at("/empty").unwrap();
        volume.create_directory("/empty").unwrap();
        volume.close().unwrap();
        oracle::assert_fsck_clean(&image, more);
        if let Some(newer) = oracle::newer_e2fsck() {
            tool::run_well(&newer, &["-fn", image.path.to_str().unwrap()]);
        }
        let volume = open_on(&image);
        assert_eq!(names(volume.list("/many").unwrap()), expected_of_many());
        let contents = volume.read_file("/less/UPPER").unwrap();
        assert_eq!(contents, [vec![7; 4000], vec![9; 9000]].concat());
        let path = image.path.to_str().unwrap();
        let request = "cat /less/UPPER";
        let theirs = tool::run("debugfs", &["-R", request, path]).stdout;
        assert_eq!(theirs, contents, "{more}");
        volume.close().unwrap();
    }
}

#[test]
fn no_directory_starts_or_stops_to_ignore_case() {
    let image = folded(1024, "-O casefold");
    let volume = open_on(&image);
    for (path, added) in [("/plain", true), ("/empty", false)] {
        let nr = volume.resolve(path, false).unwrap();
        let mut flags = volume.attributes(nr).unwrap().flags;
        flags.set(InodeFlags::CASEFOLD, added);
        let change = |flags| SetAttributes {
            flags: Some(flags),
            ..SetAttributes::default()
        };
        is_refused(path, volume.set_attributes(nr, &change(flags)));
        flags.toggle(InodeFlags::CASEFOLD);
        let other = flags | InodeFlags::NO_DUMP;
        volume.set_attributes(nr, &change(other)).unwrap();
        assert_eq!(volume.attributes(nr).unwrap().flags, other);
    }
    // A new directory does not inherit it: nothing is made in one that has it.
    let made = volume.create_directory("/plain/new").unwrap();
    let attributes = volume.attributes(made).unwrap();
    assert!(!attributes.flags.contains(InodeFlags::CASEFOLD));
    assert_eq!(attributes.kind, FileKind::Directory);
    volume.close().unwrap();
    oracle::assert_fsck_clean(&image, "after the flags");
}

/// Checksums need room in directory blocks, for which names would have to move.
#[test]
fn checksums_are_not_turned_on() {
    let image = folded(1024, FORMATS[2].1);
    let before = std::fs::read(&image.path).unwrap();
    let changes = Changes {
        features: vec![free_feature("metadata_csum").unwrap()],
        ..Changes::default()
    };
    let error = apply(&image.device(), None, &changes).expect_err("refused");
    assert!(error.to_string().contains("ignores case"), "{error}");
    let after = std::fs::read(&image.path).unwrap();
    assert!(before == after, "the image has changed");
}
